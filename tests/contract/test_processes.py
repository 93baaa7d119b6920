"""Processes of strategies, as schedulers and sessions start them: they train, and they end, whatever happens."""

import dataclasses
import os
import re
import subprocess
from itertools import product

import psutil
import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find, strategies
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.launching.processes import free_ports
from common.paths import ROOT
from horovod_impl.strategies import HOROVODRUN
from jax_impl.strategies import process_variables
from tests.contract.worlds import contract_task
from tests.grid import in_grid
from tests.launching import assert_record_follows, end_all, run_and_disturb
from tf_impl.cluster import tasks_of

JAX, MULTI_WORKER, PARAMETER_SERVER = "jax_data_parallel", "tf_multi_worker_mirrored", "tf_parameter_server"
RANKS, WORKERS = {"rank": 2}, {"worker": 2}
"""Tasks by job: of JAX, and of TensorFlow."""


def start(strategy, task, jobs, without=None, **options):
    """By its name each task of a world but one, in a process as a scheduler starts it."""
    declared = find(strategy)
    command = [str(python_for(declared)), declared.script, *to_arguments(task, declared.options(**options))]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    settings = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "GLOO_SOCKET_IFNAME": "lo"}
    coordinator = f"127.0.0.1:{free_ports(1)[0]}"
    of_ranks = {f"rank {rank}": process_variables(coordinator, rank, 2, rank, 2) for rank in range(2)}
    return {
        name: subprocess.Popen(command, cwd=ROOT, env=settings | variables, **streams)
        for name, variables in (of_ranks if jobs is RANKS else tasks_of(jobs)).items()
        if name != without
    }


def task_for(folder, **changes):
    values = {"record": folder / "run.json", "deadline_seconds": 120.0} | changes
    return dataclasses.replace(contract_task("digits", 2, folder), **values)


GIVEN = [
    (JAX, RANKS, 2, {}),
    (MULTI_WORKER, WORKERS, 2, {}),
    (MULTI_WORKER, {"chief": 1, "worker": 1}, 2, {}),
    (PARAMETER_SERVER, {"chief": 1, "worker": 1, "ps": 2}, 1, {"updates": "asynchronous"}),
    (PARAMETER_SERVER, {"chief": 1, "worker": 2, "ps": 2}, 2, {"updates": "synchronous"}),
]


@pytest.mark.parametrize(("strategy", "jobs", "workers", "options"), in_grid(GIVEN, GIVEN[:2]))
def test_processes_that_somebody_else_starts_follow_the_oracle(strategy, jobs, workers, options, tmp_path):
    statuses, outputs = end_all(start(strategy, task_for(tmp_path, workers=workers), jobs, **options), 120)
    assert set(statuses.values()) == {0}, outputs
    record = assert_record_follows(tmp_path)
    assert (record.world_size, record.synchronous) == (workers, options.get("updates") != "asynchronous")
    assert record.staleness == ([] if record.synchronous else [0] * 100)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "jobs", "missing"),
    [
        (JAX, RANKS, "rank 0"),
        (JAX, RANKS, "rank 1"),
        (MULTI_WORKER, WORKERS, "worker 1"),
        (PARAMETER_SERVER, {"chief": 1, "worker": 1, "ps": 1}, "parameter server 0"),
    ],
)
def test_a_partner_that_never_starts_ends_the_others_by_their_deadline(strategy, jobs, missing, tmp_path):
    task = task_for(tmp_path, workers=None, deadline_seconds=15.0)
    statuses, outputs = end_all(start(strategy, task, jobs, without=missing), 40)
    assert set(statuses.values()) == {1}, outputs
    for output in outputs.values():
        [line] = [line for line in output.splitlines() if line.startswith("lockstep: failed: ")]
        assert re.search(rf"{missing}( \(127.0.0.1:\d+\))? didn't start within the deadline of 15 s", line), line


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "jobs", "said"),
    [(JAX, RANKS, "rank 0 lost another worker ("), (MULTI_WORKER, WORKERS, "rank 0: the cluster lost a task")],
)
def test_a_worker_that_dies_takes_the_other_with_it_that_someone_else_started(strategy, jobs, said, tmp_path):
    processes = start(strategy, task_for(tmp_path, steps=1_000_000), jobs)
    first, second = processes
    assert any(line.startswith("step ") for line in processes[first].stdout)
    processes[second].kill()
    statuses, outputs = end_all(processes, 60)
    assert statuses[first] == 1
    assert f"lockstep: failed: {said}" in outputs[first]


BY_DEADLINE = r"It was ended by its deadline of 60 s\."
BY_HOROVODRUN = [name for name, each in strategies().items() if each.launcher is HOROVODRUN]
OF_HOROVOD = [(name, {"backend": controller}) for name, controller in product(BY_HOROVODRUN, ("gloo", "mpi"))]
KILLED = [
    ("torch_ddp", {}, 1),
    ("torch_sync_sgd", {"backend": "mpi"}, 1),
    ("torch_fsdp", {}, 1),
    ("torch_model_parallel", {}, 1),
    *((*each, 1) for each in OF_HOROVOD),
    (MULTI_WORKER, {}, 1),
    (MULTI_WORKER, {}, 0),
    (JAX, {}, 1),
]
"""Strategy, options, and which of its two processes is lost."""
STALLED = [
    *((*each, 1, BY_DEADLINE) for each in OF_HOROVOD),
    # Whoever notices first: the launcher, or TensorFlow, which waits as long for a sign of life.
    (MULTI_WORKER, {}, 1, rf"{BY_DEADLINE}|worker 1 was stopped by a signal, and then worker 0 ended with .*"),
    *((JAX, {}, rank, rf"rank {rank} stopped answering, so all processes were ended\.") for rank in (0, 1)),
]


def failed_after(disturb, name, options, rank, deadline, folder):
    """Of an endless launch, one of whose two workers `disturb` gets while it trains: who that is, and why it failed."""
    strategy, disturbed = find(name), []
    task = dataclasses.replace(contract_task("digits", 2, folder, steps=1_000_000), deadline_seconds=deadline)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(**options))

    def note_and_disturb(worker):
        disturbed.append(strategy.launcher.task_in(worker.environ()))
        disturb(worker)

    record = run_and_disturb(planned, note_and_disturb, folder, rank)
    return disturbed[0], record.reason


@pytest.mark.parametrize(("name", "options", "rank"), in_grid(KILLED, KILLED[:1]))
def test_a_worker_that_is_killed_ends_its_launch_before_the_deadline_and_is_named(name, options, rank, tmp_path):
    worker, reason = failed_after(psutil.Process.kill, name, options, rank, 120.0, tmp_path)
    # Where a script starts its workers itself, they are no launcher's ranks.
    called = worker.replace("rank", "worker") if name in (MULTI_WORKER, JAX) else worker
    assert reason == f"{called} ended with signal 9, so all processes were ended."


@pytest.mark.grid
@pytest.mark.parametrize(("name", "options", "rank", "reason"), STALLED)
def test_a_worker_that_stalls_ends_its_launch_in_time(name, options, rank, reason, tmp_path):
    _, found = failed_after(psutil.Process.suspend, name, options, rank, 60.0, tmp_path)
    assert re.fullmatch(reason, found), found
