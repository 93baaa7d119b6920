"""Files of a user's own: which there are, and what each needs to be started. Standard library only, for the noxfile."""

import ast
from collections.abc import Sequence
from pathlib import Path

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import PROCESS, Strategy
from common.errors import UserError

PROCESSES, MPIRUN = "processes", "mpirun"
"""Launchers beside those that strategies declare: plain processes with RANK and the like, and Open MPI's."""


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those of folders, in their order. Raises UserError where there is none."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.py")) if path.is_dir() else [path]
    if missing := [path for path in files if not path.is_file()]:
        raise UserError(f"{missing[0]} isn't there: name a Python file, or a folder of some.")
    names = [path.name for path in files]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"Two files are called {twice[0]}: give one of them another name.")
    if not files:
        raise UserError("No file to check: name a Python file, or a folder of some.")
    return files


def like_of(source: str, launcher: str | None) -> tuple[Strategy, str]:
    """The strategy that a file resembles by its imports, and what starts the file.

    Raises UserError for a launcher that there isn't, and SyntaxError for a file that doesn't parse.
    """
    modules = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    families = [*catalogue.families().values()]
    # Horovod's programs import another framework as well.
    imported = [family for family in reversed(families) if family.imports in modules]
    family = imported[0] if imported else families[0]
    strategies = [each for each in catalogue.strategies().values() if each.family == family]
    [first, *_] = sorted(strategies, key=lambda each: (each.work is not Work.DATA_PARALLEL, not each.quick))
    if launcher is None:
        # A launcher that tells the rank by RANK would import the framework once more, for a second of each launch.
        needs_none = first.launcher.command == PROCESS.command or first.launcher.task_in({"RANK": "0"})
        launcher = PROCESSES if needs_none else first.launcher.name
    others = [each for each in catalogue.strategies().values() if each.launcher.name == launcher]
    if launcher in (PROCESSES, MPIRUN):
        return first, launcher
    if launcher == PROCESS.name:
        return next((each for each in strategies if each.work is Work.REPLICAS_IN_ONE_PROCESS), first), launcher
    if not others:
        launchers = dict.fromkeys(each.launcher.name for each in catalogue.strategies().values())
        raise UserError(f"--launcher {launcher}: give one of {', '.join([PROCESSES, MPIRUN, *launchers])}.")
    return (first, launcher) if first in others else (others[0], launcher)


def environments(paths: Sequence[Path]) -> list[str]:
    """The environments that these files, and those of these folders, need."""
    needed = dict[str, None]()
    for path in files_in(paths) if paths else []:
        try:
            needed[like_of(path.read_text(encoding="utf-8"), None)[0].family.environment] = None
        except (SyntaxError, ValueError):
            continue
    return [*needed]
