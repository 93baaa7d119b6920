"""Horovod's settings, world, timeline and errors, for programs around their loops.

The parameter `hvd` is horovod.torch or horovod.tensorflow, which have the same names for all of these.
"""

import contextlib
import dataclasses
import importlib.util
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from common.command_line import option_name
from common.contract.task import Task
from common.declarations.arguments import check_world_size
from common.declarations.slurm import task_of_step
from common.declarations.sweep import Sweep
from common.errors import REFUSED_STATUS, LaunchFailedError, UserError, print_refusal, require_framework
from common.launching.processes import end_at_deadline
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from common.records.training import Phase
from horovod_impl import timeline
from horovod_impl.strategies import HALVES, HorovodOptions, is_elastic

if TYPE_CHECKING:
    from horovod.common.elastic import ObjectState

VARIABLES: dict[str, tuple[str, Callable[..., str]]] = {
    "HOROVOD_FUSION_THRESHOLD": ("fusion_megabytes", lambda megabytes: str(int(megabytes * 2**20))),
    "HOROVOD_CYCLE_TIME": ("cycle_milliseconds", str),
    "HOROVOD_AUTOTUNE": ("autotune", lambda _: "1"),
    "HOROVOD_HIERARCHICAL_ALLREDUCE": ("hierarchical_all_reduce", lambda _: "1"),
    # `hvd.start_timeline` begins the timeline.
    "HOROVOD_TIMELINE": ("trace", lambda _: "DYNAMIC"),
}
"""Horovod's environment variables, which it reads once, each with the option that sets it, and its value by that of
the option."""

_WHERE = ("Graph execution error", "Detected at node", "File ", "[[", "0 successful operations")
"""The prefixes of TensorFlow's lines that say where in a graph an operation failed, around the reason."""

_BEFORE_THE_REASON = re.compile(
    r"^Horovod initialization failed: |^Horovod's background thread ended: "
    r"|\[enforce fail at [^\]]*\] .*?\. |\[[^\[\]]*\.(?:cc|h):\d+\] "
)
"""The prefixes of Horovod's and Gloo's messages: the part that ended, and the failed condition in Gloo's source."""


def require_horovod(framework: str) -> None:
    """End this program with one line where Horovod isn't installed, or was built without the framework."""
    require_framework("horovod")
    folder = Path(importlib.util.find_spec("horovod").origin).parent
    if not any(folder.glob(f"{framework}/mpi_lib*.so")):
        print_refusal(
            f"this build of Horovod lacks {framework}: run `nox -s horovod`, which builds it for both frameworks, or "
            "uninstall horovod first where it is installed already."
        )
        sys.exit(REFUSED_STATUS)


def prepare(task: Task | Sweep, options: HorovodOptions) -> None:
    """Set Horovod's environment variables. Call it before `hvd.init()`, which reads them.

    Raises UserError where the user has set one of them, since no record would show it.
    """
    for variable, (name, value_for) in VARIABLES.items():
        if os.environ.get(variable):
            raise UserError(
                f"{variable} is set, which no record would show: unset it, and use {option_name(name)} instead."
            )
        value = getattr(options, name)
        if value is not None and value is not False:
            os.environ[variable] = value_for(value)
    # MPI waits for a stalled worker without end. Horovod's own limit for a connection is 30 s, and it has none for a
    # stalled worker. It accepts a limit that isn't shorter than the time until its first warning.
    end_at_deadline(task.deadline_seconds)
    seconds = int(task.deadline_seconds)
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(seconds))
    os.environ.setdefault("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", str(seconds))
    os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(min(60, seconds)))
    # Open MPI 5.0 complains on every rank that UCX, one of its ways to remote memory, finds no network to work on.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    # Open MPI busy-waits: Horovod's own thread would keep the worker's core from the thread that computes.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")


def join(
    hvd: ModuleType,
    task: Task | Sweep,
    options: HorovodOptions,
    device: str = "cpu",
    synchronize: Callable[[], object] = lambda: None,
) -> tuple[HorovodOptions, World]:
    """The options as `settle` returns them, and this process's world, by the name of its device.

    Call it after `hvd.init()`. Raises UserError where the launcher, or the build, doesn't fit the task or the options.
    """
    options = settle(options, hvd)
    if not is_elastic(options):
        check_world_size(task, hvd.size(), "the launcher")
    elif "HOROVOD_ELASTIC" not in os.environ:
        raise UserError("--commit-steps, but horovodrun isn't elastic: give it --min-np 1 and several hosts by -H.")
    local_rank, local_size = hvd.local_rank(), hvd.local_size()
    if is_elastic(options) and (name := os.environ.get("HOROVOD_HOSTNAME")) in HALVES:
        # The second half of one machine has the cores after those of the first.
        local_rank += hvd.size() - local_size if name == HALVES[1] else 0
        local_size = hvd.size()
    return options, World(
        pinning=machine.pin(task, local_rank, local_size),
        rank=hvd.rank(),
        size=hvd.size(),
        backend=carrier_of(hvd, device),
        device=device,
        # Without a name Horovod uses the value's type, and hangs where the ranks' types differ.
        all_gather=partial(hvd.allgather_object, name="run"),
        synchronize=synchronize,
    )


def committed(hvd: ModuleType) -> "ObjectState":
    """What elastic workers have committed: a `checkpoint`, which those get that join later.

    TorchState would move the weights of an optimizer without momentum: it makes one without state take a step with
    zero gradients, by which weight decay still shrinks them (horovod/torch/functions.py, broadcast_optimizer_state).
    """
    from horovod.common.elastic import ObjectState

    return ObjectState(hvd.broadcast_object, hvd.rank, checkpoint=None)


def commit(state: "ObjectState", run: Run, step: int) -> None:
    """Commit the state after `step` steps where `--commit-steps` are over since the last time.

    Raises HostsUpdatedInterrupt, which has training begin anew from there, where a host has come.
    """
    every = run.options.commit_steps
    if not every:
        return
    last = state.checkpoint.step if state.checkpoint else run.first_step
    if step // every > last // every:
        state.checkpoint = run.checkpoint(step)
        state.commit()


def settle(options: HorovodOptions, hvd: ModuleType) -> HorovodOptions:
    """The options with Horovod's choice of a controller, where they name none.

    Raises UserError where the launcher, or the build, doesn't fit the options.
    """
    controller = controller_of(hvd)
    if controller == "gloo" and "OMPI_COMM_WORLD_SIZE" in os.environ and "HOROVOD_RANK" not in os.environ:
        # Each worker would take itself for the only one.
        raise UserError(
            "mpirun started this, but this build of Horovod has no MPI: start it with `horovodrun --gloo`, or build "
            "Horovod where mpicxx is on PATH."
        )
    step = task_of_step()
    if step and step.world_size != hvd.size():
        raise UserError(
            f"srun started {step.world_size} processes, which Horovod doesn't join: start it once in the allocation, "
            "by horovodrun or mpirun."
        )
    if options.backend not in ("auto", controller):
        flag = "--gloo" if options.backend == "gloo" else "--mpi"
        raise UserError(
            f"--backend {options.backend}, but Horovod was started over {controller}: start it with "
            f"`horovodrun {flag}`, or leave the option out."
        )
    if options.hierarchical_all_reduce and not hvd.nccl_built():
        raise UserError(
            "--hierarchical-all-reduce: this build of Horovod has no NCCL, without which it ignores it; leave it out."
        )
    if controller == "mpi":
        # mpirun may have bound each rank to one core, but cores to pin are cut from those of all ranks on a host. What
        # srun binds stays.
        if not step:
            hostname = socket.gethostname()
            cores_by_rank = hvd.allgather_object((hostname, os.sched_getaffinity(0)), name="cores")
            os.sched_setaffinity(0, set().union(*(cores for host, cores in cores_by_rank if host == hostname)))
        return dataclasses.replace(options, backend="mpi", mpi_starter="srun" if step else "mpirun")
    return options


def controller_of(hvd: ModuleType) -> str:
    """The controller that coordinates the workers: gloo or mpi. An MPI job may have Gloo enabled as well."""
    return "mpi" if hvd.mpi_enabled() else "gloo"


def carrier_of(hvd: ModuleType, device: str) -> str:
    """The library that carries the tensors, for the record: nccl between GPUs if built in, else gloo or mpi."""
    controller = controller_of(hvd)
    if device != "cpu" and hvd.nccl_built():
        return f"nccl, {controller} controller"
    carrier = os.environ.get("HOROVOD_CPU_OPERATIONS", controller).lower()
    return carrier if carrier == controller else f"{carrier}, {controller} controller"


@contextlib.contextmanager
def traced(run: Run, hvd: ModuleType) -> Iterator[list[Phase]]:
    """Have Horovod write its timeline beside the record while the block runs, where `--trace` is on.

    Afterwards rank 0 has the phases of the exchange in the list, which is empty without a timeline.
    """
    phases: list[Phase] = []
    if not run.options.trace:
        yield phases
        return
    path = run.record_path.with_suffix(".trace")
    hvd.start_timeline(str(path))
    yield phases
    hvd.stop_timeline()
    if run.world.rank == 0:
        phases += timeline.summarise(path)


@contextlib.contextmanager
def one_line_when_it_breaks(*errors: type[Exception]) -> Iterator[None]:
    """Turn Horovod's errors for a lost or stalled worker into LaunchFailedError."""
    try:
        yield
    except errors as error:
        raise LaunchFailedError(f"Horovod lost a worker ({_reason(error)}).") from error


@contextlib.contextmanager
def one_line_when_nobody_answers() -> Iterator[None]:
    """Turn the error of `hvd.init()` for an unreachable worker or launcher into LaunchFailedError."""
    try:
        yield
    except ValueError as error:
        raise LaunchFailedError(
            f"Horovod could not join the workers ({_reason(error)}): see that each host reaches the others by the "
            "network interfaces that horovodrun chose, or was given."
        ) from error


def _reason(error: Exception) -> str:
    """The line of Horovod's message with the reason, less the parts that only developers of Horovod need."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line.rpartition("}} ")[2] for line in lines if not line.startswith(_WHERE)]
    return _BEFORE_THE_REASON.sub("", (reasons or ["no message"])[0])[:200]
