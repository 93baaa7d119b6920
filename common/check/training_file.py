"""Files of a user's own: which there are, and what each needs to be started. Standard library only, for the noxfile."""

import ast
from collections.abc import Sequence
from pathlib import Path

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import MPI_RANKS, PROCESS, Launcher, Strategy, mpirun, rank_by
from common.errors import UserError

PROCESSES = Launcher(name="processes", command=PROCESS.command, task_in=rank_by("RANK"))
"""A plain process for each worker, with RANK and the like."""

MPIRUN = Launcher(name="mpirun", command=mpirun, task_in=rank_by(*MPI_RANKS))


def launchers() -> dict[str, Launcher]:
    """What can start a file, by name: what strategies declare, plain processes, and Open MPI's mpirun."""
    declared = [each.launcher for each in catalogue.strategies().values()]
    return {each.name: each for each in (*declared, PROCESSES, MPIRUN)}


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
        launcher = PROCESSES.name if first.launcher.plain_processes else first.launcher.name
    if launcher not in launchers():
        raise UserError(f"--launcher {launcher}: give one of {', '.join(launchers())}.")
    if launcher == PROCESS.name:
        started = [each for each in strategies if each.work is Work.REPLICAS_IN_ONE_PROCESS]
    else:
        started = [each for each in (first, *catalogue.strategies().values()) if each.launcher.name == launcher]
    # Plain processes and mpirun start whatever there is.
    return next(iter(started), first), launcher


def reader_of_evidence() -> Strategy:
    """The first strategy whose framework reads evidence of watched steps."""
    return next(each for each in catalogue.strategies().values() if each.family.watched)


def environments(words: Sequence[str]) -> list[str]:
    """The environments that the files and folders of a command line need, or its evidence."""
    if "--evidence" in words:
        return [reader_of_evidence().family.environment]
    paths, needed = [Path(word) for word in words if Path(word).exists()], dict[str, None]()
    for path in files_in(paths) if paths else []:
        try:
            needed[like_of(path.read_text(encoding="utf-8"), None)[0].family.environment] = None
        except (SyntaxError, ValueError):
            continue
    return [*needed]
