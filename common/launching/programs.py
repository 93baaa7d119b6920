"""What each kind of program makes of its command line, and what of it is refused before anything is started."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.contract import dataset
from common.contract.checkpoint import read_checkpoint
from common.contract.rows import share_of
from common.contract.task import Task
from common.declarations import arguments as command_lines
from common.declarations.catalogue import Program
from common.declarations.library import Library
from common.declarations.products import MatrixProgram, Products, check_workers
from common.declarations.strategy import Options, Strategy
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.files import ensure_writable
from common.measurement import machine
from common.records.trace import read_trace

SHARED_MEMORY = Path("/dev/shm")
"""Where processes of a machine share memory."""

Workload = Task | Sweep | Products
"""What is computed in a launch, with the threads and the deadline that all of its processes keep to."""


@dataclass(frozen=True)
class Request:
    """What is asked of a program."""

    workload: Workload
    workers: int
    options: Options
    """What its launcher is told."""


def parse(program: Program, arguments: Sequence[str]) -> Request:
    """What the program's command line asks for.

    Raises UserError for a value that can't be meant, and SystemExit for `--help` and for options that nobody has.
    """
    match program:
        case Strategy():
            description = f"{program.name}: {program.summary}."
            workload, options = command_lines.parse_command_line(program, description, arguments)
        case Library():
            workload = command_lines.parse(Sweep, f"{program.name}: {program.title}.", arguments)
            options = program.options
        case MatrixProgram():
            workload = command_lines.parse(Products, f"{program.name}: {program.title}.", arguments)
            options = program.options
    return Request(workload, workload.workers or program.most_workers or 2, options)


def refuse_early(program: Program, request: Request) -> None:
    """Try here what every worker will need, so that bad input is one line of ours and not a launcher's traceback.

    Raises UserError. A strategy's data set is in the cache afterwards.
    """
    workload, workers, options, gpus = request.workload, request.workers, request.options, len(machine.gpu_names())
    match program, workload:
        case Strategy(), Task():
            program.refuse(workload, options, workers, gpus)
            _refuse_fault(program, workload, workers, options)
        case Library(), Sweep():
            _refuse_collectives(program, workload, gpus)
        case MatrixProgram(), Products():
            check_workers(program, workload, workers)
        case _:
            raise TypeError(f"{program.name} isn't asked for a {type(workload).__name__}.")
    needed = 1 if getattr(options, "shares_gpus", False) else workers
    if workload.device == "gpu" and gpus < needed and not options.is_elsewhere:
        raise UserError(f"--device gpu, but this machine has {gpus} GPUs for {workers} workers: leave --device out.")
    _refuse_small_shared_memory(request)
    if workload.record:
        ensure_writable(workload.record)
    if isinstance(program, Strategy) and isinstance(workload, Task):
        dataset.load(workload)
        share = share_of(workload, program.work, program.is_synchronous(options), 0, workers)
        if workload.checkpoint:
            ensure_writable(workload.checkpoint)
            if workload.checkpoint.exists():
                read_checkpoint(workload.checkpoint, workload, share.global_batch)


def _refuse_small_shared_memory(request: Request) -> None:
    """Raises UserError where the launch needs more in /dev/shm than is free there."""
    task = request.workload if isinstance(request.workload, Task) else None
    needed, free = request.options.shared_memory_bytes(task, request.workers), shutil.disk_usage(SHARED_MEMORY).free
    if needed > free:
        raise UserError(
            f"{request.workers} workers need {needed / 2**20:.1f} MiB of shared memory, and {SHARED_MEMORY} has "
            f"{free / 2**20:.1f} MiB free: give a container more by --shm-size (Docker, Podman) or by an emptyDir of "
            "medium Memory there (Kubernetes), or start fewer workers."
        )


def _refuse_fault(strategy: Strategy, task: Task, workers: int, options: Options) -> None:
    """Raises UserError for a fault of a rank or a server that isn't there, or has no process of its own."""
    servers = getattr(options, "parameter_servers", 0)
    if task.fault and task.fault.index is not None and task.fault.index >= servers:
        raise UserError(
            f"--inject {task.inject}: {strategy.name} has no parameter {task.fault.victim}; name one that is there."
        )
    alone = strategy.work.is_one_process
    if task.fault and task.fault.rank >= (1 if alone else workers):
        words = "one process, which is rank 0" if alone else f"{workers} workers, which are rank 0 to {workers - 1}"
        raise UserError(f"--inject {task.inject}: {strategy.name} has {words}; name a rank that is there.")


def _refuse_collectives(library: Library, sweep: Sweep, gpus: int) -> None:
    if library.needs_gpus and gpus < sweep.workers:
        raise UserError(f"{library.title} joins GPUs, and this machine has {gpus} for {sweep.workers} ranks.")
    if sweep.data_type not in library.types:
        raise UserError(
            f"{library.title} can't send {sweep.data_type}: give --data-type one of {', '.join(library.types)}."
        )
    if not sweep.messages and not any(collective in library.collectives for collective in sweep.collectives):
        reasons = dict.fromkeys(library.lacks.get(each, f"it has no {each}.") for each in sweep.collectives)
        raise UserError(f"{library.title} lacks what is asked for: {' '.join(reasons)}")
    if not sweep.messages:
        return
    trace = read_trace(sweep.messages)
    if (trace.workers, trace.data_type) != (sweep.workers, sweep.data_type):
        raise UserError(
            f"{sweep.messages} has {trace.data_type} of {trace.workers} ranks: give --workers {trace.workers} "
            f"--data-type {trace.data_type}."
        )
    if trace.library != library.name:
        raise UserError(f"{sweep.messages} is what {trace.library} carried: replay it by {trace.library}.")
