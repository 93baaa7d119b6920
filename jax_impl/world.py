"""A JAX process among others: starting and joining them, gathering values, reporting a lost process."""

import contextlib
import os
import pickle
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge
from jax._src.distributed import global_state
from jax._src.lib import _jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.contract.task import Task
from common.declarations.arguments import check_world_size
from common.declarations.library import Library
from common.declarations.slurm import task_of_step
from common.declarations.strategy import Options, Strategy
from common.declarations.sweep import Sweep
from common.errors import FAILED_STATUS, LaunchFailedError, UserError, print_failure, report
from common.launching.inheritance import drop_proxies
from common.launching.launch import environment_for
from common.launching.processes import REPORT_SECONDS, end_at_deadline, free_ports, run_tasks
from common.launching.programs import Request, refuse_early
from common.measurement import machine
from common.measurement.world import World
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import process_variables, world_is_given


@dataclass(frozen=True)
class Process:
    """This process among those of the launch, and among those of its machine."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def start_unless_given(program: Strategy | Library, limits: Task | Sweep, options: Options) -> None:
    """Start all processes here, unless somebody else does. Wait for their end and exit with their status.

    Every process runs this script again with the same command line and variables that say which one it is. Raises
    UserError for a command line that every process would refuse, and LaunchFailedError when a process failed.
    """
    if world_is_given():
        return
    workers = limits.workers or 1
    refuse_early(program, Request(limits, workers, options))
    coordinator = f"127.0.0.1:{free_ports(1)[0]}"
    tasks = {f"worker {rank}": process_variables(coordinator, rank, workers, rank, workers) for rank in range(workers)}
    run_tasks(tasks, environment_for(program, limits), limits.deadline_seconds)


def this_process() -> Process:
    """Which process this is, by the variables that started it. Raises UserError where they don't say so."""
    if "JAX_COORDINATOR_ADDRESS" not in os.environ and (task := task_of_step()):
        return Process(task.rank, task.world_size, task.local_rank, task.local_world_size)
    numbers = os.environ.get("LOCKSTEP_JAX_PROCESS", "")
    if not re.fullmatch(r"\d+,\d+,\d+,\d+", numbers):
        raise UserError(
            f"LOCKSTEP_JAX_PROCESS is {numbers!r}: give rank, world size, local rank and local world size as four "
            "numbers with commas, or unset JAX_COORDINATOR_ADDRESS to start all processes here."
        )
    return Process(*map(int, numbers.split(",")))


@contextlib.contextmanager
def joined(limits: Task | Sweep) -> Iterator[tuple[World, Mesh]]:
    """Join the other processes. Give their world, and the mesh of their devices, whose only axis is `WORKERS`.

    Where JAX loses a process, or this one can't go on, it ends with one line, whatever the others do: JAX's own way out
    waits for them, and aborts. Raises UserError where the processes aren't those that the command line asks for.
    """
    process = this_process()
    check_world_size(limits, process.world_size, "jax.distributed")
    pinning = machine.pin(limits, process.local_rank, process.local_world_size)
    device = model.choose_devices(limits, 1, process.local_rank, process.local_world_size)
    end_at_deadline(limits.deadline_seconds)
    try:
        _initialize(process, limits.deadline_seconds)
        world = World(
            pinning=pinning,
            rank=process.rank,
            size=process.world_size,
            backend="gloo" if device == "cpu" else "nccl",
            device=device,
            all_gather=all_gather,
            synchronize=model.synchronize,
        )
        yield world, Mesh(np.array(jax.devices()), (WORKERS,))
        # A process that left while another still reads the last answer would look lost to the other.
        all_gather(None)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        # A gathering that JAX has just compiled tells a lost connection so (jax 0.11.2).
        if isinstance(error, ValueError) and "Gloo" not in str(error):
            raise
        first_line = str(error).partition("\n")[0]
        print_failure(f"rank {process.rank} lost another worker ({first_line[:200].rstrip('.')}).")
        sys.stdout.flush()
        # Python's way out would wait for the lost process until its heartbeat is missed, and then abort.
        os._exit(FAILED_STATUS)
    except (UserError, LaunchFailedError) as error:
        status = report(error)
        sys.stdout.flush()
        # Likewise, for the others, which wait for this process.
        os._exit(status)


def world_of_devices(limits: Task | Sweep) -> tuple[World, Mesh]:
    """The world of `--workers` devices of this process, and their mesh, whose only axis is `WORKERS`.

    Raises UserError where `--device` asks for more GPUs than there are.
    """
    workers = limits.workers or 1
    world = World(
        pinning=machine.pin(limits, local_world_size=workers, replicas=workers),
        size=workers,
        backend="XLA",
        device=model.choose_devices(limits, replicas=workers),
        synchronize=model.synchronize,
    )
    return world, Mesh(np.array(jax.devices()), (WORKERS,))


def meet(process: Process, coordinator: str, deadline_seconds: float) -> None:
    """Return when all processes have come to rank 0, which listens on the coordinator's port until then.

    Where one doesn't come, jax.distributed aborts the others without saying which one it was. Raises LaunchFailedError,
    which says it, and UserError where the port is taken.
    """
    host, _, port = coordinator.rpartition(":")
    address, deadline = (host.strip("[]"), int(port)), time.monotonic() + deadline_seconds - REPORT_SECONDS
    late = f"didn't start within the deadline of {deadline_seconds:g} s: start it, or correct the coordinator's address"
    with contextlib.ExitStack() as connections:
        if process.rank == 0:
            listener = connections.enter_context(_listen(*address))
            came: dict[int, socket.socket] = {}
            while missing := set(range(1, process.world_size)) - set(came):
                listener.settimeout(max(deadline - time.monotonic(), 0.001))
                try:
                    connection = connections.enter_context(listener.accept()[0])
                    connection.settimeout(max(deadline - time.monotonic(), 0.001))
                    came[int.from_bytes(connection.recv(4))] = connection
                except TimeoutError as error:
                    raise LaunchFailedError(f"rank {min(missing)} {late} ({coordinator}).") from error
            for connection in came.values():
                connection.sendall(b"all")
            return
        while True:
            try:
                connection = connections.enter_context(socket.create_connection(address, timeout=1))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LaunchFailedError(f"rank 0 {late} ({coordinator}).") from error
                time.sleep(0.1)
        connection.sendall(process.rank.to_bytes(4))
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        with contextlib.suppress(OSError):
            if connection.recv(3):
                return
        raise LaunchFailedError("rank 0 left, or waits for another rank still: see what it says.")


def _listen(host: str, port: int) -> socket.socket:
    """Listen on rank 0's port. Raises UserError where another program does."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise UserError(
            f"Port {port} of the coordinator is taken ({error.strerror}): end the program that listens there, or give "
            "JAX_COORDINATOR_ADDRESS another port."
        ) from error


def _initialize(process: Process, deadline_seconds: float) -> None:
    """Have jax.distributed bring the processes together, and Gloo use the network that joins them."""
    drop_proxies()
    seconds = max(int(deadline_seconds - REPORT_SECONDS), 1)
    # A process that is stopped is missed after half the deadline, long before that.
    limits = {"initialization_timeout": seconds, "heartbeat_timeout_seconds": max(seconds // 2, 1)}
    if address := os.environ.get("JAX_COORDINATOR_ADDRESS"):
        meet(process, address, deadline_seconds)
        # By default the coordinator listens on every interface, and anybody may join.
        limits |= {"coordinator_address": address, "coordinator_bind_address": address}
        limits |= {"num_processes": process.world_size, "process_id": process.rank}
        limits |= {"cluster_detection_method": "deactivate"}
    jax.distributed.initialize(**limits)
    if interface := os.environ.get("GLOO_SOCKET_IFNAME"):
        # JAX has no setting for this: its Gloo listens on the address of the host's name, which in a private network is
        # another network's (`Unable to find address`).
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=global_state.client, interface=interface)
        make_client = partial(xla_bridge.make_cpu_client, collectives=collectives)
        xla_bridge.register_backend_factory("cpu", make_client, priority=0, fail_quietly=False)


def all_gather(value: object) -> list:
    """Every rank's value, in the order of the ranks, on every rank. Values are pickled."""
    content = np.frombuffer(pickle.dumps(value), np.uint8)
    lengths = np.ravel(multihost_utils.process_allgather(np.array([len(content)], np.int32)))
    # JAX compiles the gathering of every size: powers of two are few.
    padded = np.zeros(1 << int(lengths.max() - 1).bit_length(), np.uint8)
    padded[: len(content)] = content
    contents = np.reshape(multihost_utils.process_allgather(padded), (len(lengths), -1))
    return [pickle.loads(each[:length].tobytes()) for each, length in zip(contents, lengths, strict=True)]


def place(mesh: Mesh, spec: P, array: np.ndarray) -> jax.Array:
    """The array, which every process has whole, as a global array that is split over the devices as `spec` says."""
    # Copies, since the steps may overwrite them.
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda index: array[index].copy())


def replicate(mesh: Mesh, tree: Any) -> Any:  # noqa: ANN401 (any tree of arrays, and the same of JAX's)
    """The arrays, which every process has whole, as global arrays with a copy on every device."""
    return jax.tree.map(partial(place, mesh, P()), tree)


def gather_whole(mesh: Mesh, arrays: model.Arrays) -> model.Arrays:
    """The same arrays with a copy on every device."""
    return jax.jit(lambda arrays: arrays, out_shardings=NamedSharding(mesh, P()))(arrays)


def join_parts(mesh: Mesh, parts: list[np.ndarray]) -> jax.Array:
    """A global array of all workers' parts, of which every process gives one for each of its devices."""
    rows = len(parts[0])
    shape = (mesh.size * rows,)

    def part(index: tuple[slice]) -> np.ndarray:
        start, *_ = index[0].indices(*shape)
        return parts[start // rows % len(parts)]

    # device_put for each device, and joining the arrays after it, take twice as long (jax 0.10.2).
    return jax.make_array_from_callback(shape, NamedSharding(mesh, P(WORKERS)), part)


def split_rows(mesh: Mesh, rows: np.ndarray) -> jax.Array:
    """The numbers of all workers' rows as a global array, of which every process gives its own."""
    # A copy, since JAX may read NumPy's memory later.
    return join_parts(mesh, [rows.astype(np.int32)])
