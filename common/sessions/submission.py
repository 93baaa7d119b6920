"""Hand a session to Slurm: a batch script that runs it in an allocation, written beside the results and submitted."""

import dataclasses
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from common import command_line
from common.errors import UserError
from common.files import write_atomically
from common.launching.hosts.slurm import SlurmOptions
from common.paths import ROOT
from common.sessions.session import Arguments, Output

SUBMIT = "--submit"

_SCRIPT = """\
#!/bin/sh
#SBATCH --job-name=lockstep-{session}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{seconds}
#SBATCH {options}

# The nodes need this checkout and its environments at this path, as on a disk that they share, and no internet.
# {seconds} seconds before the time limit Slurm sends USR1. The session then stops between two launches, and the same
# command goes on with it in the next allocation, as does this script where it is requeued.
cd {root} || exit
exec {command}
"""

_STOP_SECONDS = 60
"""Longer than most launches take: what Slurm warns a session before the time limit."""


def own_words(words: Sequence[str]) -> list[str]:
    """The words of a command line that aren't sbatch's: those up to --submit."""
    return [*words[: words.index(SUBMIT) + 1]] if SUBMIT in words else [*words]


class Submittable(Arguments, Protocol):
    """The command line of a session that can be submitted."""

    @property
    def selection(self) -> SlurmOptions:
        """Where launches are made."""
        ...

    @property
    def output(self) -> Output:
        """Where its report goes, and whether it is a plan."""
        ...


def script(session: str, module: str, arguments: Submittable, options: Sequence[str]) -> str:
    """The batch script of a session with these arguments, whose `module` Python runs; the `options` are sbatch's."""
    changed: dict[str, Any] = {
        "selection": dataclasses.replace(arguments.selection, submit=False),
        "output": dataclasses.replace(arguments.output, plan=False),
    }
    words = command_line.options_of(dataclasses.replace(arguments, **changed), type(arguments)())
    return _SCRIPT.format(
        session=session,
        log=arguments.session.results.resolve() / "slurm-%j.out",
        seconds=_STOP_SECONDS,
        options=shlex.join(options) or "--nodes=2",
        root=shlex.quote(str(ROOT)),
        command=shlex.join([sys.executable, "-m", module, *words]),
    )


def submit(console: Console, session: str, module: str, arguments: Submittable) -> None:
    """Write the script, print it, and submit it, but for a plan. Raises UserError where Slurm doesn't take it."""
    words = sys.argv[1:]
    text = script(session, module, arguments, words[len(own_words(words)) :])
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if arguments.output.plan:
        return
    path: Path = arguments.session.results / f"{session}.sbatch"
    write_atomically(path, text.encode())
    try:
        command = ["sbatch", "--parsable", str(path)]
        printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    except FileNotFoundError as error:
        raise UserError("sbatch isn't found: install Slurm's client programs, or submit this elsewhere.") from error
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or [f"status {error.returncode}"]
        raise UserError(f"Slurm doesn't take {path} ({last[0]}): correct the words after --submit.") from error
    job = printed.strip().partition(";")[0]
    log = arguments.session.results / f"slurm-{job}.out"
    console.print(
        f"{path} is job {job}. `tail -F {log}` follows it, `squeue --jobs {job}` tells whether it runs, and `scancel "
        f"{job}` ends it. The same command goes on where it was ended.",
        markup=False,
        soft_wrap=True,
    )
