"""Clusters with parameter servers, which end or go on whatever happens, and clusters that aren't the strategy's."""

import dataclasses
import json
import signal
import subprocess
import sys

import psutil
import pytest

from common.contract import oracle
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import certificate
from tests.conftest import run_command
from tests.contract.worlds import contract_task
from tests.grid import in_grid
from tests.launching import assert_follows, assert_record_follows, is_running, wait_for_steps
from tf_impl.strategies import task_in

MULTI_WORKER, PARAMETER_SERVER = "tf_multi_worker_mirrored", "tf_parameter_server"


def task_for(folder, **changes):
    values = {"record": folder / "run.json", "deadline_seconds": 120.0} | changes
    return dataclasses.replace(contract_task("digits", 2, folder), **values)


@pytest.mark.grid
def test_variables_are_cut_into_parts_that_lie_on_all_servers(launch, comparison_of, tmp_path):
    task = contract_task("pathway", 2, tmp_path, momentum=0.5)
    launched = launch(PARAMETER_SERVER, task, updates="synchronous", parameter_servers=2)
    assert_follows(launched, comparison_of(launched))


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


@pytest.mark.grid
@pytest.mark.parametrize("is_killed", [True, False], ids=["a server is killed", "told to stop"])
def test_a_cluster_of_which_a_server_is_lost_or_that_is_told_to_stop_leaves_nobody(is_killed, tmp_path):
    launcher = start_locally(PARAMETER_SERVER, task_for(tmp_path, steps=1_000_000))
    wait_for_steps(launcher.stdout, count=1)
    processes = psutil.Process(launcher.pid).children(recursive=True)
    if is_killed:
        [server] = [process for process in processes if task_in(process.environ()) == "server 0"]
        server.kill()
    else:
        launcher.send_signal(signal.SIGTERM)
    output, _ = launcher.communicate(timeout=60)
    said = "lockstep: failed: parameter server 0 ended with signal 9, so all processes were ended"
    assert said in output if is_killed else launcher.returncode == 128 + signal.SIGTERM, output
    assert not any(is_running(process) for process in processes)
    assert not (tmp_path / "run.json").exists()


@pytest.mark.grid
@pytest.mark.parametrize("updates", ["asynchronous", "synchronous"])
def test_a_worker_that_dies_and_is_started_again_does_not_end_the_run(updates, launch, tmp_path):
    """The only one, so that training waits until it has come back, however long that takes."""
    task = contract_task("digits", 1, tmp_path, seed=0, inject="kill:rank=0,step=50")
    launched = launch(PARAMETER_SERVER, task, updates=updates)
    assert launched.status == 0, launched.output
    assert launched.record.restarted_workers == 1
    assert len(launched.record.losses) == task.steps


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
