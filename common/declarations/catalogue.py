"""The programs that there are: those that folders declare in `strategies.py`, `libraries.py` and `matrices.py`, and
the probes of their families. Nothing else looks for them."""

import dataclasses
import importlib
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from common.declarations.library import Library
from common.declarations.products import MatrixProgram
from common.declarations.strategy import Family, Launcher, Strategy
from common.errors import UserError
from common.paths import ROOT

Program = Strategy | Library | MatrixProgram
"""What can be started. A probe is started as a strategy is."""

T = TypeVar("T")
P = TypeVar("P", Strategy, Library, MatrixProgram)


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name, a folder's in the order of its declarations; first the folders with bases of their own,
    and of these the ones with strategies of the quick comparison.

    Raises UserError for a declaration that can't be meant.
    """
    declared = _declared("strategies", Strategy)
    for strategy in declared.values():
        place = f"{strategy.script.partition('/')[0]}/strategies.py: {strategy.name}"
        # Nothing checks the types of a folder's file before.
        if not isinstance(strategy.launcher, Launcher):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"{place} has the unknown launcher {strategy.launcher!r}: use common.declarations.strategy.PROCESS, or "
                "a Launcher that the folder declares."
            )
        for other in filter(None, (strategy.base, *strategy.compared_with.values())):
            if other not in declared:
                raise UserError(f"{place} refers to {other}, which no folder declares: correct its name.")
    return declared


def find(name: str) -> Strategy:
    """The strategy of this name. Raises UserError when there is none."""
    return _named(name, "strategy", strategies())


def first_base() -> Strategy:
    """The first base of the quick profile, which a calibration launches where nobody names a strategy."""
    # The smallest is the first of those that are alike.
    return min(strategies().values(), key=lambda strategy: (strategy.most_workers != 1, not strategy.quick))


def families() -> dict[str, Family]:
    """Every family by its environment, in the order of their strategies."""
    return {strategy.family.environment: strategy.family for strategy in strategies().values()}


@cache
def libraries() -> dict[str, Library]:
    """Every library of collectives by name, in the order of the folders' strategies and of their declarations.

    Raises UserError for a declaration that can't be meant.
    """
    return _declared("libraries", Library)


@cache
def ways() -> dict[str, MatrixProgram]:
    """Every way to multiply matrices by name, in the same order. Raises UserError for one that can't be meant."""
    return _declared("matrices", MatrixProgram)


def find_library(name: str) -> Library:
    """The library of collectives of this name. Raises UserError when there is none."""
    return _named(name, "library of collectives", libraries())


def probe_of(family: Family) -> Strategy:
    """The program that probes a family's ceiling: its script, started like the strategy that its declaration names.

    Raises LookupError where the family has no probe.
    """
    if family.probe is None:
        raise LookupError(f"{family.title} declares no probe.")
    like = find(family.probe.like)
    return dataclasses.replace(like, name=f"{family.environment}_ceiling", script=family.probe.script)


def programs() -> dict[str, Program]:
    """Everything that can be started, by name. Raises UserError where two have the same name."""
    probes = [probe_of(family) for family in families().values() if family.probe]
    by_name: dict[str, Program] = {}
    for program in (*strategies().values(), *libraries().values(), *ways().values(), *probes):
        if other := by_name.get(program.name):
            raise UserError(
                f"{program.script} and {other.script} are both called {program.name}: give one of them another name."
            )
        by_name[program.name] = program
    return by_name


def find_program(name: str) -> Program:
    """The program of this name. Raises UserError when there is none."""
    return _named(name, "program", programs())


def _named(name: str, kind: str, declared: Mapping[str, T]) -> T:
    if name not in declared:
        raise UserError(f"There is no {kind} named '{name}': choose one of {', '.join(declared)}.")
    return declared[name]


def _declared(module: str, kind: type[P]) -> dict[str, P]:
    """The programs that the folders declare in modules of this name, by name."""

    def declared_in(folder: str, name: str, of_kind: type[T]) -> list[T]:
        if not (ROOT / folder / f"{name}.py").is_file():
            return []
        declarations = vars(importlib.import_module(f"{folder}.{name}"))
        return [value for value in declarations.values() if isinstance(value, of_kind)]

    def comes_late(folder: str) -> tuple[bool, bool]:
        strategies = declared_in(folder, "strategies", Strategy)
        names = {None, *(other.name for other in strategies)}
        return any(each.base not in names for each in strategies), not any(each.quick for each in strategies)

    declared: dict[str, P] = {}
    folders = sorted(path.parent.name for path in ROOT.glob("*_impl/strategies.py"))
    for folder in sorted(folders, key=comes_late):
        for program in declared_in(folder, module, kind):
            if other := declared.get(program.name):
                raise UserError(
                    f"{folder}/{module}.py and {other.script.partition('/')[0]}/{module}.py both declare "
                    f"{program.name}: give one of them another name."
                )
            if not (ROOT / program.script).is_file():
                raise UserError(
                    f"{folder}/{module}.py: {program.name} has the script {program.script}, which doesn't exist: "
                    "write it, or correct its name."
                )
            declared[program.name] = program
    return declared
