"""Horovod's settings, and which controller carries: what the options set, what is refused, what the record says."""

import os
import re
from types import SimpleNamespace

import pytest

from common.contract.task import Task
from common.errors import LaunchFailedError, UserError
from horovod_impl import world
from horovod_impl.strategies import HorovodOptions, HorovodTorchOptions


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A copy of the environment without Horovod's and Open MPI's variables, that tests may change."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "OMPI_"))}
    monkeypatch.setattr(os, "environ", kept)
    # It would end the tests.
    monkeypatch.setattr(world, "end_at_deadline", lambda seconds: kept.update(ENDS_AFTER=str(seconds)))
    return kept


def hvd(mpi=False, nccl=False, **more):
    """Horovod's module as far as it tells what it was built and started with."""
    return SimpleNamespace(mpi_enabled=lambda: mpi, nccl_built=lambda: nccl, **more)


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ({}, {}),
        ({"fusion_megabytes": 0.5}, {"HOROVOD_FUSION_THRESHOLD": "524288"}),
        ({"fusion_megabytes": 0.0}, {"HOROVOD_FUSION_THRESHOLD": "0"}),
        ({"cycle_milliseconds": 0.25}, {"HOROVOD_CYCLE_TIME": "0.25"}),
        ({"autotune": True}, {"HOROVOD_AUTOTUNE": "1"}),
        ({"hierarchical_all_reduce": True}, {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}),
        ({"trace": True}, {"HOROVOD_TIMELINE": "DYNAMIC"}),
        ({"compression": "fp16", "adasum": True, "backend": "mpi"}, {}),
    ],
)
def test_options_become_the_variables_that_horovod_reads(options, variables, environment):
    world.prepare(Task(), HorovodOptions(**options))
    assert {name: environment[name] for name in world.VARIABLES if name in environment} == variables


def test_time_limits_are_the_deadline_unless_the_user_has_set_them(environment):
    environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] = "5"
    world.prepare(Task(deadline_seconds=90.0), HorovodOptions())
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "90"
    assert environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == "60"
    assert environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "5"
    assert environment["ENDS_AFTER"] == "90.0"


def test_horovod_warns_no_later_than_it_gives_up_or_it_would_not_give_up(environment):
    world.prepare(Task(deadline_seconds=20.0), HorovodOptions())
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == "20"


@pytest.mark.parametrize(
    ("variables", "options", "cores"),
    [
        ({"HOROVOD_HOSTNAME": "localhost"}, {"commit_steps": 5}, (0, 2)),
        ({"HOROVOD_HOSTNAME": "127.0.0.1"}, {"commit_steps": 5}, (1, 2)),
        ({"HOROVOD_HOSTNAME": "host2"}, {"commit_steps": 5}, (0, 1)),
        ({}, {}, (0, 1)),
    ],
)
def test_halves_of_one_machine_keep_to_cores_of_their_own(variables, options, cores, environment, monkeypatch):
    environment.update(variables, HOROVOD_ELASTIC="1")
    monkeypatch.setattr(world.machine, "pin", lambda task, *local: local)
    ranks = dict.fromkeys(("local_rank", "rank"), lambda: 0) | {"local_size": lambda: 1, "size": lambda: 2}
    module = hvd(**ranks, allgather_object=list)
    _, joined = world.join(module, Task(), HorovodTorchOptions(**options))
    assert joined.pinning == cores


def test_elastic_workers_may_be_fewer_than_were_asked_for(environment, monkeypatch):
    monkeypatch.setattr(world.machine, "pin", lambda *_: None)
    ranks = dict.fromkeys(("local_rank", "rank"), lambda: 0) | dict.fromkeys(("local_size", "size"), lambda: 1)
    module = hvd(**ranks, allgather_object=list)
    with pytest.raises(UserError, match="--workers 2, but the launcher started 1"):
        world.join(module, Task(workers=2), HorovodTorchOptions())
    with pytest.raises(UserError, match="horovodrun isn't elastic: give it --min-np 1"):
        world.join(module, Task(workers=1), HorovodTorchOptions(commit_steps=5))
    environment["HOROVOD_ELASTIC"] = "1"
    _, joined = world.join(module, Task(workers=2), HorovodTorchOptions(commit_steps=5))
    assert joined.size == 1


@pytest.mark.parametrize(("set_by_the_user", "said"), [(None, "1"), ("0", "0")])
def test_mpi_gives_way_to_the_thread_that_computes_unless_the_user_says_otherwise(set_by_the_user, said, environment):
    if set_by_the_user:
        environment["OMPI_MCA_mpi_yield_when_idle"] = set_by_the_user
    world.prepare(Task(), HorovodOptions())
    assert environment["OMPI_MCA_mpi_yield_when_idle"] == said


OPTIONS = {
    "HOROVOD_FUSION_THRESHOLD": "--fusion-megabytes",
    "HOROVOD_CYCLE_TIME": "--cycle-milliseconds",
    "HOROVOD_AUTOTUNE": "--autotune",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": "--hierarchical-all-reduce",
    "HOROVOD_TIMELINE": "--trace",
}
"""By Horovod's environment variable the option that sets it."""


@pytest.mark.parametrize("variable", world.VARIABLES)
def test_a_setting_that_no_record_would_show_is_refused_with_the_option_that_shows_it(variable, environment):
    environment[variable] = "1"
    with pytest.raises(UserError, match=f"{variable} is set.*use {OPTIONS[variable]} instead"):
        world.prepare(Task(), HorovodOptions())


@pytest.mark.parametrize(("asked", "mpi", "flag"), [("mpi", False, "--mpi"), ("gloo", True, "--gloo")])
def test_another_controller_than_asked_for_is_refused(asked, mpi, flag):
    with pytest.raises(UserError, match=f"horovodrun {flag}"):
        world.settle(HorovodOptions(backend=asked), hvd(mpi=mpi))


def test_srun_is_refused_since_each_process_would_be_alone(monkeypatch):
    monkeypatch.setattr(world, "task_of_step", lambda: SimpleNamespace(world_size=2))
    with pytest.raises(UserError, match="srun started 2 processes, which Horovod doesn't join"):
        world.settle(HorovodOptions(), hvd(size=lambda: 1))


def test_what_would_leave_each_worker_alone_or_be_ignored_is_refused(environment):
    environment["OMPI_COMM_WORLD_SIZE"] = "2"
    with pytest.raises(UserError, match="this build of Horovod has no MPI"):
        world.settle(HorovodOptions(), hvd())
    environment["HOROVOD_RANK"] = "0"  # horovodrun --gloo, started inside a job of mpirun's.
    assert world.settle(HorovodOptions(), hvd()).backend == "auto"
    with pytest.raises(UserError, match="has no NCCL"):
        world.settle(HorovodOptions(hierarchical_all_reduce=True), hvd())
    with pytest.raises(UserError, match="--workers 2, but the launcher started 6"):
        world.join(hvd(size=lambda: 6), Task(workers=2), HorovodOptions())


@pytest.mark.parametrize(
    ("module", "device", "operations", "carrier"),
    [
        (hvd(), "cpu", None, "gloo"),
        (hvd(), "cpu", "gloo", "gloo"),
        (hvd(mpi=True), "cpu", None, "mpi"),
        (hvd(mpi=True), "cpu", "GLOO", "gloo, mpi controller"),
        (hvd(mpi=True, nccl=True), "cpu", None, "mpi"),
        (hvd(mpi=True, nccl=True), "cuda", None, "nccl, mpi controller"),
        (hvd(nccl=True), "cuda", None, "nccl, gloo controller"),
    ],
)
def test_what_carries_the_tensors_is_told_from_the_controller(module, device, operations, carrier, environment):
    if operations:
        environment["HOROVOD_CPU_OPERATIONS"] = operations
    assert world.carrier_of(module, device) == carrier


def test_a_process_joins_the_world_and_the_record_says_by_which_controller(monkeypatch):
    module = hvd(rank=lambda: 5, size=lambda: 6, local_rank=lambda: 1, local_size=lambda: 2)
    module.allgather_object = lambda value, name: [value, name]
    monkeypatch.setattr(world.machine, "pin", lambda task, rank, size: (task.threads, rank, size))
    options, joined = world.join(module, Task(batch=96, workers=6), HorovodOptions(), "a GPU", lambda: "synchronized")
    assert options == HorovodOptions()
    assert (joined.rank, joined.size, joined.pinning) == (5, 6, (1, 1, 2))
    assert (joined.backend, joined.device, joined.synchronize()) == ("gloo", "a GPU", "synchronized")
    # Without a name Horovod would wait for ever where the values' types differ.
    assert joined.all_gather("value") == ["value", "run"]
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    gathered = {"allgather_object": lambda value, name: [value]}
    assert world.settle(HorovodOptions(), hvd(mpi=True, **gathered)).backend == "mpi"
    assert world.settle(HorovodOptions(), hvd()).backend == "auto"


RESET = "Read error [127.0.0.1]:4242: Connection reset by peer"
# As TensorFlow 2.21.0 says it, with fewer lines.
OF_A_GRAPH = (
    "Graph execution error:\n\nDetected at node X/HorovodAllreduce_gradient defined at (most recent call last):\n"
    '  File "train_tensorflow.py", line 106, in <module>\n\nHorovod has been shut down.\n'
    "\t [[{{node X/HorovodAllreduce_gradient}}]] [Op:__inference_train_step_194]"
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("\n connection reset \nat gloo/transport/tcp/pair.cc:1\n", "connection reset"),
        (f"Horovod's background thread ended: [/cache folder/gloo/pair.cc:589] {RESET}", RESET),
        (f"Horovod's background thread ended: [enforce fail at /gloo/pair.cc:589] rv == 0. {RESET}", RESET),
        (OF_A_GRAPH, "Horovod has been shut down."),
        ("{{function_node __wrapped__HorovodAllgather}} Horovod has been shut down.", "Horovod has been shut down."),
    ],
)
def test_of_a_lost_worker_the_reason_is_told_in_one_line_and_not_where_it_was_noticed(said, reason):
    with (
        pytest.raises(LaunchFailedError, match=rf"^Horovod lost a worker \({re.escape(reason)}\)"),
        world.one_line_when_it_breaks(OSError),
    ):
        raise OSError(said)
