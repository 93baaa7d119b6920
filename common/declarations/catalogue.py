"""Which programs there are: strategies, libraries of collectives and ways to multiply matrices, which folders declare
in `strategies.py`, `libraries.py` and `matrices.py`, and the probes of their families. Nothing else looks for them.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from common.declarations.library import Library
from common.declarations.strategy import Family, Launcher, Strategy
from common.declarations.way import Way
from common.errors import UserError
from common.paths import ROOT

Program = Strategy | Library | Way
"""What can be started. A probe is started as a strategy is."""

T = TypeVar("T")
P = TypeVar("P", Library, Way)


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name, a folder's in the order of its declarations; first the folders with bases of their own.

    Raises UserError for a declaration that can't be meant.
    """
    folders = {path.parent.name: _declared_in(path, Strategy) for path in sorted(ROOT.glob("*_impl/strategies.py"))}
    found: dict[str, Strategy] = {}
    for folder, declared in sorted(folders.items(), key=lambda item: _bases_elsewhere(item[1])):
        for strategy in declared:
            if strategy.name in found:
                raise UserError(
                    f"{folder}/strategies.py and {found[strategy.name].script.partition('/')[0]}/strategies.py both "
                    f"declare {strategy.name}: give one of them another name."
                )
            found[strategy.name] = strategy
    for strategy in found.values():
        _check(strategy, found)
    return found


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
    return _declared_by_name("libraries.py", Library)


@cache
def ways() -> dict[str, Way]:
    """Every way to multiply matrices by name, in the same order. Raises UserError for one that can't be meant."""
    return _declared_by_name("matrices.py", Way)


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
    found: dict[str, Program] = {}
    for program in (*strategies().values(), *libraries().values(), *ways().values(), *probes):
        if other := found.get(program.name):
            raise UserError(
                f"{program.script} and {other.script} are both called {program.name}: give one of them another name."
            )
        found[program.name] = program
    return found


def find_program(name: str) -> Program:
    """The program of this name. Raises UserError when there is none."""
    return _named(name, "program", programs())


def _named(name: str, kind: str, declared: Mapping[str, T]) -> T:
    if name not in declared:
        raise UserError(f"There is no {kind} named '{name}': choose one of {', '.join(declared)}.")
    return declared[name]


def _declared_by_name(file: str, kind: type[P]) -> dict[str, P]:
    """What the folders declare in files of this name, by name."""
    folders = list(dict.fromkeys(strategy.script.partition("/")[0] for strategy in strategies().values()))
    found: dict[str, P] = {}
    for path in sorted(ROOT.glob(f"*_impl/{file}"), key=lambda path: folders.index(path.parent.name)):
        for program in _declared_in(path, kind):
            place = f"{path.parent.name}/{file}: {program.name}"
            if program.name in found:
                raise UserError(f"{place} is declared twice: give one of them another name.")
            if not (ROOT / program.script).is_file():
                raise UserError(f"{place} has the script {program.script}, which doesn't exist: correct its name.")
            found[program.name] = program
    return found


def _declared_in(path: Path, kind: type[T]) -> list[T]:
    module = importlib.import_module(f"{path.parent.name}.{path.stem}")
    return [value for value in vars(module).values() if isinstance(value, kind)]


def _bases_elsewhere(declared: list[Strategy]) -> bool:
    names = {strategy.name for strategy in declared}
    return any(strategy.base not in {None, *names} for strategy in declared)


def _check(strategy: Strategy, known: dict[str, Strategy]) -> None:
    """Raises UserError when the declaration names what isn't there."""
    place = f"{strategy.script.partition('/')[0]}/strategies.py: {strategy.name}"
    # Nothing checks the types of a folder's file before.
    if not isinstance(strategy.launcher, Launcher):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"{place} has the unknown launcher {strategy.launcher!r}: use common.declarations.strategy.PROCESS, or a "
            "Launcher that the folder declares."
        )
    if not (ROOT / strategy.script).is_file():
        raise UserError(
            f"{place} has the script {strategy.script}, which doesn't exist: write it, or correct its name."
        )
    for other in filter(None, (strategy.base, *strategy.compared_with.values())):
        if other not in known:
            raise UserError(f"{place} refers to {other}, which no folder declares: correct its name.")
