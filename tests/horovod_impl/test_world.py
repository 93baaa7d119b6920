"""Horovod's settings, and which controller carries: what the options set, what is refused, what the record says."""

import os
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


def test_the_record_says_which_controller_was_chosen_where_the_options_do_not(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    gathered = {"allgather_object": lambda value, name: [value]}
    assert world.settle(HorovodOptions(), hvd(mpi=True, **gathered)).backend == "mpi"
    assert world.settle(HorovodOptions(), hvd()).backend == "auto"


@pytest.mark.parametrize(("asked", "mpi", "flag"), [("mpi", False, "--mpi"), ("gloo", True, "--gloo")])
def test_another_controller_than_asked_for_is_refused(asked, mpi, flag):
    with pytest.raises(UserError, match=f"horovodrun {flag}"):
        world.settle(HorovodOptions(backend=asked), hvd(mpi=mpi))


def test_mpirun_with_a_build_without_mpi_is_refused_since_each_worker_would_be_alone(environment):
    environment["OMPI_COMM_WORLD_SIZE"] = "2"
    with pytest.raises(UserError, match="this build of Horovod has no MPI"):
        world.settle(HorovodOptions(), hvd())
    environment["HOROVOD_RANK"] = "0"  # horovodrun --gloo, started inside a job of mpirun's.
    assert world.settle(HorovodOptions(), hvd()).backend == "auto"


def test_srun_is_refused_since_each_process_would_be_alone(monkeypatch):
    monkeypatch.setattr(world, "task_of_step", lambda: SimpleNamespace(world_size=2))
    with pytest.raises(UserError, match="srun started 2 processes, which Horovod doesn't join"):
        world.settle(HorovodOptions(), hvd(size=lambda: 1))


def test_hierarchical_all_reduce_is_refused_where_horovod_would_ignore_it():
    with pytest.raises(UserError, match="has no NCCL"):
        world.settle(HorovodOptions(hierarchical_all_reduce=True), hvd())


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


def test_a_process_joins_the_world_that_the_launcher_started(monkeypatch):
    module = hvd(rank=lambda: 5, size=lambda: 6, local_rank=lambda: 1, local_size=lambda: 2)
    module.allgather_object = lambda value, name: [value, name]
    monkeypatch.setattr(world.machine, "pin", lambda task, rank, size: (task.threads, rank, size))
    options, joined = world.join(module, Task(batch=96, workers=6), HorovodOptions(), "a GPU", lambda: "synchronized")
    assert options == HorovodOptions()
    assert (joined.rank, joined.size, joined.pinning) == (5, 6, (1, 1, 2))
    assert (joined.backend, joined.device, joined.synchronize()) == ("gloo", "a GPU", "synchronized")
    # Without a name Horovod would wait for ever where the values' types differ.
    assert joined.all_gather("value") == ["value", "run"]


def test_another_number_of_workers_than_asked_for_is_refused():
    with pytest.raises(UserError, match="--workers 2, but the launcher started 6"):
        world.join(hvd(size=lambda: 6), Task(workers=2), HorovodOptions())


def test_a_lost_worker_is_said_in_one_line():
    with (
        pytest.raises(LaunchFailedError, match=r"Horovod lost a worker \(connection reset\)"),
        world.one_line_when_it_breaks(OSError),
    ):
        raise OSError("\n connection reset \nat gloo/transport/tcp/pair.cc:1\n")
