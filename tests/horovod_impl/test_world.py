"""Horovod's settings, and which controller carries: what the options set, what is refused, what the record says."""

import os
import re
from types import SimpleNamespace

import pytest

from common.contract.task import Task
from common.errors import LaunchFailedError, UserError
from horovod_impl import world
from horovod_impl.strategies import HorovodOptions, HorovodTorchOptions

ELASTIC = HorovodTorchOptions(commit_steps=5)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A copy of the environment without Horovod's and Open MPI's variables, that tests may change."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "OMPI_"))}
    monkeypatch.setattr(os, "environ", kept)
    # It would end the tests.
    monkeypatch.setattr(world, "end_at_deadline", lambda seconds: kept.update(ENDS_AFTER=str(seconds)))
    monkeypatch.setattr(world.machine, "pin", lambda task, rank, size: (task.threads, rank, size))
    return kept


BUILT = {"mpi_enabled": False, "nccl_built": False, "rank": 0, "size": 2, "local_rank": 0, "local_size": 1}


def hvd(**told):
    """Horovod's module as far as it tells what it was built and started with."""
    functions = {name: lambda value=value: value for name, value in (BUILT | told).items()}
    return SimpleNamespace(**functions, allgather_object=lambda value, name: [value, name])


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
    ],
)
def test_options_become_the_variables_that_horovod_reads(options, variables, environment):
    world.prepare(Task(), HorovodOptions(**options))
    assert {name: environment[name] for name in world.VARIABLES if name in environment} == variables


def test_a_setting_that_no_record_would_show_is_refused_with_the_option_that_shows_it(environment):
    environment["HOROVOD_CYCLE_TIME"] = "1"
    with pytest.raises(UserError, match=r"HOROVOD_CYCLE_TIME is set.*use --cycle-milliseconds instead"):
        world.prepare(Task(), HorovodOptions())


@pytest.mark.parametrize(("deadline", "warning"), [(90, "60"), (20, "20")])
def test_time_limits_are_the_deadline_and_horovod_warns_no_later_than_it_gives_up(deadline, warning, environment):
    """Otherwise Horovod would not give up."""
    world.prepare(Task(deadline_seconds=float(deadline)), HorovodOptions())
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == environment["HOROVOD_GLOO_TIMEOUT_SECONDS"]
    assert environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] == str(deadline)
    assert environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] == warning
    assert environment["ENDS_AFTER"] == str(float(deadline))


def test_that_mpi_gives_way_to_the_thread_that_computes_is_set_unless_the_user_has(environment):
    for set_by_the_user in ("1", "0"):
        world.prepare(Task(), HorovodOptions())
        assert environment["OMPI_MCA_mpi_yield_when_idle"] == set_by_the_user
        environment["OMPI_MCA_mpi_yield_when_idle"] = "0"


@pytest.mark.parametrize(
    ("host", "options", "cores"),
    [
        ("localhost", ELASTIC, (1, 0, 2)),
        ("127.0.0.1", ELASTIC, (1, 1, 2)),
        ("host2", ELASTIC, (1, 0, 1)),
        ("localhost", HorovodTorchOptions(), (1, 0, 1)),
    ],
)
def test_halves_of_one_machine_keep_to_cores_of_their_own(host, options, cores, environment):
    environment.update(HOROVOD_HOSTNAME=host, HOROVOD_ELASTIC="1")
    _, joined = world.join(hvd(), Task(), options)
    assert joined.pinning == cores


def test_only_elastic_workers_may_be_fewer_than_were_asked_for(environment):
    with pytest.raises(UserError, match="--workers 2, but the launcher started 1"):
        world.join(hvd(size=1), Task(workers=2), HorovodTorchOptions())
    with pytest.raises(UserError, match="horovodrun isn't elastic: give it --min-np 1"):
        world.join(hvd(size=1), Task(workers=1), ELASTIC)
    environment["HOROVOD_ELASTIC"] = "1"
    _, joined = world.join(hvd(size=1), Task(workers=2), ELASTIC)
    assert joined.size == 1


@pytest.mark.parametrize(
    ("options", "module", "variables", "cause"),
    [
        ({"backend": "mpi"}, hvd(), {}, "horovodrun --mpi"),
        ({"backend": "gloo"}, hvd(mpi_enabled=True), {}, "horovodrun --gloo"),
        ({"hierarchical_all_reduce": True}, hvd(), {}, "has no NCCL"),
        ({}, hvd(), {"OMPI_COMM_WORLD_SIZE": "2"}, "this build of Horovod has no MPI"),
        # horovodrun --gloo, started inside a job of mpirun's.
        ({}, hvd(), {"OMPI_COMM_WORLD_SIZE": "2", "HOROVOD_RANK": "0"}, None),
    ],
)
def test_what_was_not_started_or_not_built_so_is_refused(options, module, variables, cause, environment):
    environment.update(variables)
    if cause is None:
        assert world.settle(HorovodOptions(**options), module).backend == "auto"
    else:
        with pytest.raises(UserError, match=cause):
            world.settle(HorovodOptions(**options), module)


def test_tasks_of_srun_that_horovod_does_not_join_are_refused(monkeypatch):
    monkeypatch.setattr(world, "task_of_step", lambda: SimpleNamespace(world_size=2))
    with pytest.raises(UserError, match="srun started 2 processes, which Horovod doesn't join"):
        world.settle(HorovodOptions(), hvd(size=1))


@pytest.mark.parametrize(
    ("module", "device", "operations", "carrier"),
    [
        (hvd(), "cpu", None, "gloo"),
        (hvd(), "cpu", "gloo", "gloo"),
        (hvd(mpi_enabled=True), "cpu", None, "mpi"),
        (hvd(mpi_enabled=True), "cpu", "GLOO", "gloo, mpi controller"),
        (hvd(mpi_enabled=True, nccl_built=True), "cpu", None, "mpi"),
        (hvd(mpi_enabled=True, nccl_built=True), "cuda", None, "nccl, mpi controller"),
        (hvd(nccl_built=True), "cuda", None, "nccl, gloo controller"),
    ],
)
def test_what_carries_the_tensors_is_told_from_the_controller(module, device, operations, carrier, environment):
    if operations:
        environment["HOROVOD_CPU_OPERATIONS"] = operations
    assert world.carrier_of(module, device) == carrier


def test_a_process_joins_the_world_and_the_record_says_by_which_controller(monkeypatch):
    module = hvd(rank=5, size=6, local_rank=1, local_size=2)
    options, joined = world.join(module, Task(batch=96, workers=6), HorovodOptions(), "a GPU", lambda: "synchronized")
    assert options == HorovodOptions()
    assert (joined.rank, joined.size, joined.pinning) == (5, 6, (1, 1, 2))
    assert (joined.backend, joined.device, joined.synchronize()) == ("gloo", "a GPU", "synchronized")
    # Without a name Horovod would wait for ever where the values' types differ.
    assert joined.all_gather("value") == ["value", "run"]
    cores = []
    monkeypatch.setattr(world.socket, "gethostname", lambda: "here")
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, own: cores.append(own))
    module = hvd(mpi_enabled=True)
    module.allgather_object = lambda value, name: [("here", {1}), ("here", {2}), ("there", {3})]
    # What mpirun bound each rank to isn't all that the ranks of a host have together.
    assert (world.settle(HorovodOptions(), module).backend, cores) == ("mpi", [{1, 2}])


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
        (f"\nHorovod's background thread ended: [/cache folder/gloo/pair.cc:589] {RESET}\nat pair.cc:1", RESET),
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
