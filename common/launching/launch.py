"""Start one program as a user would, with a deadline, and stop all of its processes, always.

To start it: `python -m common.launching.launch PROGRAM --workers 4`, and then the program's own options.
"""

import dataclasses
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.contract.evidence import evidence_path
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.catalogue import Program
from common.declarations.library import Library
from common.declarations.strategy import Launch, Options, Strategy
from common.environments import inventory
from common.errors import NotInstalledError, UserError, exit_with_one_line, print_failure, print_note
from common.launching import attempts, exit_cause, private_network, programs
from common.launching.exit_cause import exit_status
from common.launching.inheritance import inherited, note_what_is_left_out
from common.launching.injector import Injector
from common.launching.processes import Outcome, end_with_parent, exit_on_signals, free_ports, run_group
from common.launching.programs import Request, Workload
from common.launching.screen import ErrorOutput, waiting
from common.measurement import startup
from common.paths import new_record
from common.records import evidence

ENDS_WITH = "LOCKSTEP_ENDS_WITH"
"""Environment variable with the number of the parent process whose end is to end this launch as well."""

TEMPORARY = "lockstep-{}-"
"""How the name of a launch's folder for temporary files begins, with the number of its process."""

RUNNER = "--runner"
"""Before the program's name, with a module that runs its script, whose path that module gets as its first argument."""


def python_for(program: Program) -> Path:
    """The Python of the program's environment: the one that Nox made, else this one where it has what it takes.

    Raises NotInstalledError when there is neither, with what went wrong where Nox tried.
    """
    name = program.family.environment
    if python := inventory.python_of(name):
        return python
    if importlib.util.find_spec(program.family.imports):
        return Path(sys.executable)
    raise NotInstalledError(f"{name} isn't installed: run `nox -s {name}` once, which makes its environment.")


def script_for(program: Program, arguments: Sequence[str], runner: str = "") -> list[str]:
    """What Python is to run: the program's script, or the module `runner`, which gets the script's path first."""
    return [*(["-m", runner] if runner else []), program.script, *arguments]


def command_for(program: Program, workers: int, script: list[str], port: int, options: Options) -> list[str]:
    """The command line that a user would type to start so many workers of the program.

    Raises UserError for a program that isn't installed or that can't have as many.
    """
    if program.most_workers and workers > program.most_workers:
        raise UserError(f"{program.name} distributes nothing: leave --workers out, or choose another strategy.")
    return program.launcher.command(Launch(python_for(program), script, workers, port, options))


def environment_for(program: Program, workload: Workload) -> dict[str, str]:
    """The environment variables of a launch on this machine: those it inherits, and those that the launch sets."""
    return inherited() | settings_for(program, workload, "lo")


def settings_for(program: Program, workload: Workload, interface: str) -> dict[str, str]:
    """The environment variables that a launch sets, whose workers reach one another by the network `interface`."""
    common = {"OMP_NUM_THREADS": str(workload.threads), "PYTHONUNBUFFERED": "1"}
    of_family = program.family.settings(int(workload.deadline_seconds), workload.threads, interface)
    return common | dict(of_family) | (dict(program.variables) if isinstance(program, Library) else {})


def main() -> None:
    """Run one program as the command line says; exits with its status, or 124 when the deadline ended it."""
    parent = os.environ.get(ENDS_WITH)
    if parent:
        end_with_parent(int(parent))
    program, request, command = prepare(sys.argv[1:])
    if not request.options.is_elsewhere:
        private_network.enter()
    exit_on_signals()
    note_what_is_left_out()
    # A session keeps all output in the launch's log, and reads there how it ended.
    errors = None if parent else ErrorOutput()
    # torchrun, AutoGraph and others leave files there.
    with tempfile.TemporaryDirectory(prefix=TEMPORARY.format(os.getpid()), ignore_cleanup_errors=True) as folder:
        outcome = _run(program, request, command, Path(folder), errors)
    workload, status = request.workload, exit_status(outcome.status)
    if errors and status and not outcome.timed_out:
        ended = exit_cause.read(status, workload.deadline_seconds, errors.text, program.launcher)
        errors.conclude(program.name, ended, (workload.record or new_record(program.name)).with_suffix(".log"))
    elif errors:
        errors.show_rest()
        if not status and isinstance(program, Strategy) and workload.record and workload.record.exists():
            print(evidence.in_words(evidence.note_reading(workload.record, keep=False)))
    if status and workload.record:
        evidence_path(workload.record).unlink(missing_ok=True)
    if outcome.timed_out:
        print_failure(f"{program.name} was ended by its deadline of {workload.deadline_seconds:g} s.")
    sys.exit(status)


def _run(program: Program, request: Request, command: list[str], folder: Path, errors: ErrorOutput | None) -> Outcome:
    """Run the command, again where the task asks for that; its processes keep temporary files in the folder."""
    workload = request.workload
    environment = environment_for(program, workload) | {"TMPDIR": str(folder)}
    environment |= {startup.FOLDER: str(folder)} if errors else {}
    # Only what trains says when it has come to its first step, and only on this machine is that seen.
    processes = 0
    if isinstance(program, Strategy) and not request.options.is_elsewhere:
        beside = program.processes_beside(request.options)
        processes = 1 if program.work.is_one_process else request.workers + beside

    def start() -> Outcome:
        if errors is None:
            return run_group([command], environment, workload.deadline_seconds)
        with errors.stream() as stream, waiting(folder, processes, workload.deadline_seconds):
            return run_group([command], environment, workload.deadline_seconds, streams={"stderr": stream})

    if not (isinstance(program, Strategy) and isinstance(workload, Task) and workload.is_accounted):
        return start()
    assert workload.record, "It was named."
    injector = Injector(workload.fault, program.launcher.task_in)
    environment |= injector.variables
    return attempts.run(workload, workload.record, injector, start, print_note)


def prepare(arguments: Sequence[str]) -> tuple[Program, Request, list[str]]:
    """The program that the launcher's arguments name, what is asked of it, and the command that starts it.

    Raises UserError for all that can be refused before anything is started.
    """
    words = list(arguments)
    runner, words = ("".join(words[1:2]), words[2:]) if words[:1] == [RUNNER] else ("", words)
    if not words or words[0].startswith("-"):
        raise UserError(f"Name a program first: one of {', '.join(catalogue.programs())}.")
    program, given = catalogue.find_program(words[0]), words[1:]
    request = programs.parse(program, given)
    programs.refuse_early(program, request)
    # The launcher, and the script that may start its own processes, have to agree on the number.
    given, port = [*given, "--workers", str(request.workers)], free_ports(1)[0]
    task = request.workload if isinstance(request.workload, Task) else None
    if task and task.fault and task.fault.name:
        raise UserError(
            f"--inject {task.inject}: this launch is on one machine; `nox -s faults -- --virtual-hosts 2` makes hosts "
            "to be lost."
        )
    if task and program.name in catalogue.strategies() and not task.record:
        record = new_record(f"{program.name}-{task.preset}-{task.scaling}-{request.workers}w")
        given = [*given, "--record", str(record)]
        request = dataclasses.replace(request, workload=dataclasses.replace(task, record=record))
    script = script_for(program, given, runner)
    return program, request, command_for(program, request.workers, script, port, request.options)


if __name__ == "__main__":
    exit_with_one_line(main)
