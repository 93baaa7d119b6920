"""Clusters of TensorFlow processes, as users or schedulers start them: they train, and they end, whatever happens."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from common.contract import oracle
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import certificate
from common.records.files import read_record
from common.records.training import Record
from tests.conftest import run_command
from tests.contract.worlds import contract_task
from tests.grid import in_grid
from tests.launching import assert_follows, assert_record_follows, end_all, is_running, wait_for_steps
from tf_impl.cluster import tasks_of
from tf_impl.strategies import task_in

MULTI_WORKER, PARAMETER_SERVER = "tf_multi_worker_mirrored", "tf_parameter_server"


def task_for(folder, **changes):
    values = {"record": folder / "run.json", "deadline_seconds": 120.0} | changes
    return dataclasses.replace(contract_task("digits", 2, folder), **values)


def start_cluster(strategy, task, jobs, without=None, **options):
    """By its name each task of a cluster but one, in a process as a scheduler starts it."""
    declared = find(strategy)
    command = [str(python_for(declared)), declared.script, *to_arguments(task, declared.options(**options))]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    settings = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return {
        name: subprocess.Popen(command, cwd=ROOT, env=settings | variables, **streams)
        for name, variables in tasks_of(jobs).items()
        if name != without
    }


CLUSTERS = [
    (MULTI_WORKER, {"worker": 2}, 2, {}),
    (MULTI_WORKER, {"chief": 1, "worker": 1}, 2, {}),
    (PARAMETER_SERVER, {"chief": 1, "worker": 1, "ps": 2}, 1, {"updates": "asynchronous"}),
    (PARAMETER_SERVER, {"chief": 1, "worker": 2, "ps": 2}, 2, {"updates": "synchronous"}),
]


@pytest.mark.parametrize(("strategy", "jobs", "workers", "options"), in_grid(CLUSTERS, CLUSTERS[:1]))
def test_tasks_that_tf_config_brings_together_follow_the_oracle_and_end(strategy, jobs, workers, options, tmp_path):
    processes = start_cluster(strategy, task_for(tmp_path, workers=workers), jobs, **options)
    statuses, outputs = end_all(processes, 120)
    assert set(statuses.values()) == {0}, outputs
    record = assert_record_follows(tmp_path)
    assert (record.world_size, record.synchronous) == (workers, options.get("updates") != "asynchronous")
    assert record.staleness == ([] if record.synchronous else [0] * 100)


@pytest.mark.grid
def test_variables_are_cut_into_parts_that_lie_on_all_servers(launch, comparison_of, tmp_path):
    task = contract_task("pathway", 2, tmp_path, momentum=0.5)
    launched = launch(PARAMETER_SERVER, task, updates="synchronous", parameter_servers=2)
    assert_follows(launched, comparison_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "jobs", "missing"),
    [
        (MULTI_WORKER, {"worker": 2}, "worker 1"),
        (PARAMETER_SERVER, {"chief": 1, "worker": 1, "ps": 1}, "parameter server 0"),
    ],
)
def test_a_partner_that_never_starts_ends_the_others_by_their_deadline(strategy, jobs, missing, tmp_path):
    task = task_for(tmp_path, workers=None, deadline_seconds=15.0)
    statuses, outputs = end_all(start_cluster(strategy, task, jobs, without=missing), 40)
    assert set(statuses.values()) == {1}
    for output in outputs.values():
        assert re.search(rf"{missing} \(127.0.0.1:\d+\) didn't start within the deadline of 15 s", output), output


DISAGREEING = [
    (PARAMETER_SERVER, {"chief": ["a:1"], "worker": ["b:1"]}, "", "1 workers and 0 parameter servers"),
    (
        PARAMETER_SERVER,
        {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]},
        "--parameter-servers 2",
        "--parameter-servers 2, but the cluster has 1",
    ),
    (MULTI_WORKER, {"worker": ["a:1", "b:1"]}, "--workers 4", "--workers 4, but the cluster started 2"),
]


@pytest.mark.parametrize(("strategy", "addresses", "options", "words"), in_grid(DISAGREEING, DISAGREEING[:1]))
def test_a_cluster_that_disagrees_with_the_strategy_is_refused_in_one_line(strategy, addresses, options, words):
    config = json.dumps({"cluster": addresses, "task": {"type": "worker", "index": 0}})
    command = [str(python_for(find(strategy))), find(strategy).script, *options.split()]
    status, output = run_command(command, TF_CONFIG=config, TF_CPP_MIN_LOG_LEVEL="3")
    assert status == 2, output
    [line] = [line for line in output.splitlines() if line.startswith("lockstep:")]
    assert words in line


def start_locally(strategy, task, *runner, **options):
    """The strategy as `nox -s` starts it, or by a runner."""
    launch = [sys.executable, "-m", "common.launching.launch", *runner, strategy]
    command = [*launch, *to_arguments(task, find(strategy).options(**options))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")


def training_processes(launcher):
    """The cluster's processes, once the first steps' line has been printed, by what declarations call their tasks."""
    wait_for_steps(launcher.stdout, count=1)
    return {task_in(process.environ()): process for process in psutil.Process(launcher.pid).children(recursive=True)}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "victim"), [(MULTI_WORKER, "rank 1"), (MULTI_WORKER, "rank 0"), (PARAMETER_SERVER, "server 0")]
)
def test_a_process_that_dies_ends_the_run_long_before_its_deadline(strategy, victim, tmp_path):
    launcher = start_locally(strategy, task_for(tmp_path, steps=1_000_000, deadline_seconds=200.0))
    processes = training_processes(launcher)
    processes[victim].kill()
    output, _ = launcher.communicate(timeout=60)
    assert launcher.returncode not in (0, 2, TIMED_OUT_STATUS)
    name = victim.replace("rank", "worker").replace("server", "parameter server")
    assert f"lockstep: failed: {name} ended with signal 9, so all processes were ended" in output
    assert not any(is_running(process) for process in processes.values())
    assert not (tmp_path / "run.json").exists()


@pytest.mark.grid
def test_a_worker_that_dies_takes_those_with_it_that_someone_else_started(tmp_path):
    task = task_for(tmp_path, steps=1_000_000, deadline_seconds=100.0)
    processes = start_cluster(MULTI_WORKER, task, {"worker": 2})
    assert any(line.startswith("step ") for line in processes["worker 0"].stdout)
    processes["worker 1"].kill()
    statuses, outputs = end_all(processes, 60)
    assert statuses["worker 0"] == 1
    assert "lockstep: failed: rank 0: the cluster lost a task" in outputs["worker 0"]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "deadline"), [(MULTI_WORKER, 25.0), (PARAMETER_SERVER, 120.0)], ids=["stopped", "told to stop"]
)
def test_a_run_whose_worker_is_stopped_or_that_is_told_to_stop_leaves_nobody(strategy, deadline, tmp_path):
    launcher = start_locally(strategy, task_for(tmp_path, steps=1_000_000, deadline_seconds=deadline))
    processes = training_processes(launcher)
    if strategy == MULTI_WORKER:
        processes["rank 1"].suspend()
    else:
        launcher.send_signal(signal.SIGTERM)
    output, _ = launcher.communicate(timeout=60)
    # Whoever notices first: the launcher, or TensorFlow, which waits as long for a sign of life.
    silent = launcher.returncode == TIMED_OUT_STATUS or "stopped sending heartbeats" in output
    assert silent if strategy == MULTI_WORKER else launcher.returncode == 128 + signal.SIGTERM, output
    assert not any(is_running(process) for process in processes.values())


@pytest.mark.grid
@pytest.mark.parametrize("updates", ["asynchronous", "synchronous"])
def test_a_worker_that_dies_and_is_started_again_does_not_end_the_run(updates, tmp_path):
    """The only one, so that training waits until it has come back, however long that takes."""
    task = task_for(tmp_path, workers=1, seed=0, deadline_seconds=400.0, inject="kill:rank=0,step=50")
    launcher = start_locally(PARAMETER_SERVER, task, updates=updates)
    output, _ = launcher.communicate(timeout=450)
    assert launcher.returncode == 0, output
    record = read_record(tmp_path / "run.json", Record)
    assert record.restarted_workers == 1
    assert len(record.losses) == task.steps


@pytest.mark.grid
def test_a_part_that_is_lost_before_it_is_copied_is_computed_again(tmp_path):
    """By the only worker, so that training waits until that one has come back, however long it takes."""
    runner = ("--runner", "tests.tf_impl.lost_part")
    launcher = start_locally(PARAMETER_SERVER, task_for(tmp_path, workers=1), *runner, updates="synchronous")
    output, _ = launcher.communicate(timeout=180)
    assert launcher.returncode == 0, output
    assert assert_record_follows(tmp_path).restarted_workers == 1


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
def test_asynchronous_updates_reach_the_oracles_loss_on_the_whole_training_set_within_10_percent(
    workers, launch, tmp_path
):
    task = contract_task("pathway", workers, tmp_path, steps=1000)
    launched = launch(PARAMETER_SERVER, task)
    assert launched.status == 0, launched.output
    assert len(launched.record.staleness) == 1000
    assert max(launched.record.staleness) > 0
    trained = oracle.training_loss(task, certificate.final_weights(launched.record, tmp_path))
    expected = oracle.training_loss(task, oracle.run_oracle(task, task.batch, task.steps).state)
    assert trained == pytest.approx(expected, rel=0.1)
