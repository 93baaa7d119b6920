"""Whether a command that a user types can work, told without running it: what it names exists, its options parse."""

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import shutil
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from unittest.mock import Mock, patch

import nox
import tyro

from common.check import __main__ as referee
from common.declarations import catalogue
from common.declarations.arguments import parse_command_line
from common.errors import NotInstalledError, UserError
from common.launching import launch
from common.launching.launch import python_for
from common.paths import ROOT
from common.sessions import compare, submission
from common.sessions.experiment import parse
from reports import experiment
from reports.__main__ import write_report
from tests import mutants
from tests.benchmarks import __main__ as benchmarks

LAUNCHERS = {
    "torchrun": {"--nproc-per-node", "--nnodes", "--node-rank", "--master-addr", "--master-port"},
    "mpirun": {"-np"},
    "horovodrun": {"-np", "-H", "--gloo", "--mpi", "--min-np", "--blacklist-cooldown-range"},
    "python": set(),
}
"""The programs that start a script, and those of their own options with which other tests really start them."""


PROGRAMS = re.compile(r"(\w+=\S+ )*(nox|torchrun|mpirun|horovodrun|(\.nox/\w+/bin/)?python3?|pip) ")
"""How a command begins that a user is to type."""

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for glob in (
        "*.md",
        "[!.]*/README.md",
        "common/*/README.md",
        "common/contract/algorithms/README.md",
        "reports/example/README.md",
    )
    for path in ROOT.glob(glob)
    if path.name != "CHANGELOG.md"  # It tells what commands were.
)
"""Every document whose commands are to work: those at the top, and the README of each room."""


class WrongCommandError(Exception):
    """A command names something that doesn't exist; the text says what."""


def commands_in(text: str) -> set[str]:
    """Every line of a document's blocks of commands, and what stands between backticks and begins like a command."""
    text = text.replace("\\\n", "")
    fences = re.findall(r"```(\w*)\n(.*?)```", text, re.S)
    blocks = [line for language, block in fences if language in ("", "bash") for line in block.splitlines()]
    return {word for word in blocks + spans_in(text) if PROGRAMS.match(word)}


def spans_in(text: str) -> list[str]:
    """What stands between single backticks in a document, outside its blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```\w*\n.*?```", "", text, flags=re.S))


def environment_of(command: str) -> Path:
    """The folder of the environment in which this command is typed. Raises NotInstalledError when it isn't made."""
    # The first strategy of a folder tells its environment; others may need one of their own.
    folders = {strategy.script.partition("/")[0]: strategy for strategy in reversed(catalogue.strategies().values())}
    named = [strategy for folder, strategy in folders.items() if folder in command]
    return python_for(named[0]).parent.parent if named else ROOT / ".nox" / "tools"


def check(command: str) -> None:
    """Raises WrongCommandError when the command names a program, session, script or option that doesn't exist."""
    words = shlex.split(command)
    while "=" in words[0]:
        del words[0]
    # The name of a program, or its path from the repository's root.
    name = ROOT / words[0] if "/" in words[0] else words[0]
    if not shutil.which(name, path=environment_of(command) / "bin"):
        raise WrongCommandError(f"There is no program {words[0]}.")
    if words[:2] == ["nox", "-s"]:
        end = words.index("--") if "--" in words else len(words)
        names, options = words[2:end], words[end + 1 :]
        if any(name.startswith("-") for name in names):
            raise WrongCommandError(f"Options of a session come after --, not as in: {command}")
        for name in names:
            for run in runs_of(name, options):
                _check_python(run[1:])
    elif (program := Path(words[0]).name) in LAUNCHERS:
        _check_launcher(program, words[1:])
    else:
        raise WrongCommandError(f"Nobody knows how to check: {command}")


def runs_of(name: str, options: list[str]) -> list[list[str]]:
    """The commands that `nox -s NAME -- OPTIONS` would run. Raises WrongCommandError when there is no such session."""
    functions = sessions()
    if name not in functions:
        raise WrongCommandError(f"There is no session {name}.")
    session = Mock(spec=nox.Session, posargs=options)
    with contextlib.chdir(ROOT), patch("common.environments.installation.make", return_value={}):
        functions[name](session)
    return [[str(word) for word in call.args] for call in session.run.call_args_list]


@cache
def sessions() -> dict[str, Callable]:
    """The sessions of noxfile.py, by name."""
    specification = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    with contextlib.chdir(ROOT):
        specification.loader.exec_module(importlib.util.module_from_spec(specification))
    return nox.registry.get()


def _check_launcher(program: str, words: list[str]) -> None:
    """Check the launcher's own options, and what they are followed by: a script, or the Python that is to run it."""
    starts = [index for index, word in enumerate(words) if word in ("python", "-m") or word.endswith(".py")]
    if not starts:
        raise WrongCommandError(f"{program} is given no script.")
    own, script = words[: starts[0]], words[starts[0] :]
    if unknown := {word for word in own if word.startswith("-")} - LAUNCHERS[program]:
        raise WrongCommandError(f"No test starts {program} with {', '.join(unknown)}.")
    _check_python(script[1:] if script[0] == "python" else script)


def _check_python(words: list[str]) -> None:
    """Check what Python is to run, where that is ours: a module or a script, and its options."""
    if words[:1] == ["-m"]:
        name, options = words[1], words[2:]
        path = ROOT.joinpath(*name.split("."))
        paths = [path.with_suffix(".py"), path / "__main__.py"]
        is_ours = (ROOT / name.partition(".")[0]).is_dir()
    else:
        name, *options = words or [""]
        paths = [ROOT / name]
        is_ours = name.endswith(".py")
    if not is_ours:
        return
    if not any(path.is_file() for path in paths):
        raise WrongCommandError(f"There is no {name} to run.")
    _parse(name, options)


def _parse(name: str, options: list[str]) -> None:
    """Hand the options to the parser of the module or the script, which does nothing else with them."""
    parsers = PARSERS | {each.script: partial(parse_command_line, each, "") for each in catalogue.strategies().values()}
    if not options:
        return
    if name not in parsers:
        raise WrongCommandError(f"Nobody knows which options {name} has.")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            parsers[name](options)
    except NotInstalledError:
        raise
    except UserError as error:
        raise WrongCommandError(str(error)) from error
    except SystemExit as ending:
        raise WrongCommandError(f"{name} doesn't take {' '.join(options)}: {said.getvalue()}") from ending


def _parse_only(program: Callable[..., None], options: list[str]) -> None:
    """Take the options that the program takes, and do nothing with them."""

    @wraps(program)
    def do_nothing(**_: object) -> None:
        pass

    tyro.cli(do_nothing, args=options)


LABORATORY = [f"common.laboratory.{path.stem}" for path in (ROOT / "common" / "laboratory").glob("[!_]*.py")]
"""The modules of experiments."""

PARSERS = {
    "common.launching.launch": launch.prepare,
    "common.check": lambda options: tyro.cli(referee.Arguments, args=options),
    "common.sessions.compare": lambda options: tyro.cli(compare.Arguments, args=submission.own_words(options)),
    **{name: partial(parse, importlib.import_module(name).EXPERIMENT) for name in LABORATORY},
    "reports": partial(_parse_only, write_report),
    "reports.experiment": partial(_parse_only, experiment.write_report),
    # It finds the commands that it starts here.
    "tests.soak": lambda options: tyro.cli(importlib.import_module("tests.soak").Arguments, args=options),
    "tests.mutants": lambda options: mutants.command_line().parse_args(options),
    "tests.benchmarks": lambda options: tyro.cli(benchmarks.Arguments, args=options),
}
"""What reads the options of a module, and does nothing else with them."""
