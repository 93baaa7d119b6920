"""Start one library's collectives as a user would, with a deadline, and stop all of its processes, always.

To start it: `python -m common.launching.collectives_launch LIBRARY --workers 2 --collectives all_reduce -b 8 -e 4M`.
"""

import os
import sys
from collections.abc import Sequence

from common.declarations import catalogue
from common.declarations.library import Library
from common.declarations.sweep import Sweep, parse_command_line
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching import launch
from common.launching.processes import end_with_parent, free_ports
from common.measurement import machine
from common.records.trace import read_trace


def main(runner: str | None = None) -> None:
    """Measure one library as the command line says; exits with its status, or 124 when the deadline ended it.

    A `runner` is a module that runs the library's script, whose path it gets as its first argument.
    """
    if parent := os.environ.get(launch.ENDS_WITH):
        end_with_parent(int(parent))
    library, sweep, command = prepare(sys.argv[1:])
    if runner:
        script = command.index(library.script)
        command[script:script] = ["-m", runner]
    os.environ |= library.variables
    launch.supervise(library, sweep, command)


def prepare(arguments: Sequence[str]) -> tuple[Library, Sweep, list[str]]:
    """The library that the arguments name, its sweep, and the command that starts it.

    Raises UserError for all that can be refused before anything is started.
    """
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"Name a library first: one of {', '.join(catalogue.libraries())}.")
    library, given = catalogue.find_library(arguments[0]), list(arguments[1:])
    sweep = parse_command_line(f"{library.name}: {library.title}.", given)
    refuse_early(library, sweep)
    if library.launcher.is_one_of_several():
        return library, sweep, launch.command_for(library, sweep.workers, given, 0, library.options)
    # The launcher, and the script that starts its own processes, are told the same number.
    told = [*given, "--workers", str(sweep.workers)]
    return library, sweep, launch.command_for(library, sweep.workers, told, free_ports(1)[0], library.options)


def refuse_early(library: Library, sweep: Sweep) -> None:
    """Refuse what the library can't have at all, in one line and not by a launcher's traceback. Raises UserError."""
    gpus = len(machine.gpu_names())
    if library.needs_gpus and gpus < sweep.workers:
        raise UserError(f"{library.title} joins GPUs, and this machine has {gpus} for {sweep.workers} ranks.")
    if sweep.device == "gpu" and gpus < sweep.workers:
        raise UserError(
            f"--device gpu, but this machine has {gpus} GPUs for {sweep.workers} ranks: leave --device out."
        )
    if sweep.data_type not in library.types:
        raise UserError(
            f"{library.title} can't send {sweep.data_type}: give --data-type one of {', '.join(library.types)}."
        )
    if sweep.messages:
        _refuse_messages(library, sweep)
    elif not any(collective in library.collectives for collective in sweep.collectives):
        reasons = dict.fromkeys(library.lacks.get(each, f"it has no {each}.") for each in sweep.collectives)
        raise UserError(f"{library.title} lacks what is asked for: {' '.join(reasons)}")
    if sweep.record:
        ensure_writable(sweep.record)


def _refuse_messages(library: Library, sweep: Sweep) -> None:
    trace = read_trace(sweep.messages)
    if (trace.workers, trace.data_type) != (sweep.workers, sweep.data_type):
        raise UserError(
            f"{sweep.messages} has {trace.data_type} of {trace.workers} ranks: give --workers {trace.workers} "
            f"--data-type {trace.data_type}."
        )
    if trace.library != library.name:
        raise UserError(f"{sweep.messages} is what {trace.library} carried: replay it by {trace.library}.")


if __name__ == "__main__":
    exit_with_one_line(main)
