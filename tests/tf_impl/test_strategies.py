"""tf_impl/strategies.py: what TensorFlow's strategies can't have, how they are started, and what they send."""

import json
import os
from pathlib import Path

import pytest

from common.contract.task import Task
from common.declarations.strategy import Launch, LaunchHost, label
from common.errors import UserError
from tf_impl.strategies import (
    CENTRAL_STORAGE,
    KERAS_MIRRORED,
    MIRRORED,
    MULTI_WORKER_MIRRORED,
    ONE_DEVICE,
    PARAMETER_SERVER,
    TENSORFLOW,
    cluster_is_given,
    task_in,
)

LOOPS = (ONE_DEVICE, MIRRORED, CENTRAL_STORAGE, MULTI_WORKER_MIRRORED)


@pytest.mark.parametrize(
    ("strategy", "values", "said"),
    [
        (MIRRORED, {"steps_per_call": 0}, "--steps-per-call 0: give 1 or more."),
        (MIRRORED, {"input": "disk"}, "--input disk: choose one of memory, tf_data."),
        (PARAMETER_SERVER, {"parameter_servers": 0}, "--parameter-servers 0: give 1 or more."),
        (PARAMETER_SERVER, {"updates": "now"}, "--updates now: choose one of asynchronous, synchronous."),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_give_instead(strategy, values, said):
    with pytest.raises(UserError) as caught:
        strategy.options(**values)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"weight_decay": 0.01}, "keeps weight decay out of the momentum"),
        ({"final_learning_rate": 0.05}, "multiplied by the learning rate"),
        ({"learning_rate": 0.0}, "multiplied by the learning rate"),
    ],
)
def test_what_keras_computes_differently_with_momentum_is_refused(values, cause):
    options = KERAS_MIRRORED.options()
    with pytest.raises(UserError, match=cause) as caught:
        KERAS_MIRRORED.check(Task(momentum=0.9, **values), options, 2, 0)
    assert str(caught.value).endswith(f"or use {MIRRORED.name}.")
    MIRRORED.check(Task(momentum=0.9, **values), MIRRORED.options(), 2, 0)
    KERAS_MIRRORED.check(Task(momentum=0.9), options, 2, 0)
    KERAS_MIRRORED.check(Task(momentum=0.9, final_learning_rate=Task().learning_rate), options, 2, 0)
    KERAS_MIRRORED.check(Task(**values), options, 2, 0)


def test_keras_compiles_the_step_of_one_replica_alone():
    compiled = KERAS_MIRRORED.options(jit_compile=True)
    KERAS_MIRRORED.check(Task(), compiled, 1, 0)
    with pytest.raises(UserError, match="leave --jit-compile out, start one worker, or use tf_mirrored"):
        KERAS_MIRRORED.check(Task(), compiled, 2, 0)
    MIRRORED.check(Task(), MIRRORED.options(jit_compile=True), 2, 0)


# Labels


@pytest.mark.parametrize("strategy", LOOPS, ids=lambda strategy: strategy.name)
def test_ways_to_feed_and_to_call_the_step_are_the_same_maths(strategy):
    assert label(strategy.options(jit_compile=True)) == "jit_compile"
    assert label(strategy.options(steps_per_call=5, jit_compile=True)) == "jit_compile, 5 steps per call"
    assert label(strategy.options(input="tf_data")) == "tf_data input"


def test_parameter_servers_follow_the_oracle_when_they_wait_for_all_workers():
    asynchronous = PARAMETER_SERVER.options()
    synchronous = PARAMETER_SERVER.options(updates="synchronous", parameter_servers=2)
    assert not PARAMETER_SERVER.is_synchronous(asynchronous)
    assert PARAMETER_SERVER.is_synchronous(synchronous)
    assert label(synchronous) == "2 parameter servers, synchronous updates"
    assert all(strategy.is_synchronous(strategy.options()) for strategy in (*LOOPS, KERAS_MIRRORED))


# Launches


def test_every_strategy_is_one_process_or_starts_its_cluster_itself():
    for strategy in (*LOOPS, KERAS_MIRRORED, PARAMETER_SERVER):
        launch = Launch(Path("/environment/bin/python"), [strategy.script], 4, 29500, strategy.options())
        assert strategy.launcher.command(launch) == ["/environment/bin/python", strategy.script]


def test_a_cluster_is_given_by_tf_config_or_by_a_step_of_slurm(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "here"}
    step |= dict.fromkeys(("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"), "0")
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    for name, value in (("SLURM_TASK_PID", str(os.getpid())), ("TF_CONFIG", "{}")):
        assert not cluster_is_given()
        monkeypatch.setenv(name, value)
        assert cluster_is_given()
        monkeypatch.delenv(name)


def clusters_over_hosts(strategy, **options):
    """Of each host the (job, index) that it starts, and the cluster that all of them are told."""
    places = tuple(LaunchHost(f"host{n}", f"10.0.0.{n}", "10.0.0.0/24", "eth0", workers=2) for n in (1, 2))
    python, script = Path("/environment/bin/python"), [strategy.script]
    launch = Launch(python, script, 4, 29500, strategy.options(**options), places)
    started, clusters = [], []
    for commands in strategy.launcher.across_hosts(launch):
        assert all([*command[:1], *command[2:]] == ["env", str(python), *script] for command in commands)
        told = [json.loads(command[1].removeprefix("TF_CONFIG=")) for command in commands]
        started.append([(each["task"]["type"], each["task"]["index"]) for each in told])
        clusters += [each["cluster"] for each in told]
    assert all(cluster == clusters[0] for cluster in clusters)
    return started, clusters[0]


def test_over_hosts_every_worker_is_told_the_cluster_and_its_own_task():
    started, cluster = clusters_over_hosts(MULTI_WORKER_MIRRORED)
    assert started == [[("worker", 0), ("worker", 1)], [("worker", 2), ("worker", 3)]]
    assert cluster == {"worker": ["10.0.0.1:29500", "10.0.0.1:29501", "10.0.0.2:29502", "10.0.0.2:29503"]}


def test_over_hosts_the_coordinator_and_the_servers_are_on_the_first():
    started, cluster = clusters_over_hosts(PARAMETER_SERVER, parameter_servers=2)
    assert started == [
        [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)],
        [("worker", 2), ("worker", 3)],
    ]
    assert all(address.startswith("10.0.0.1:") for address in cluster["chief"] + cluster["ps"])


def test_what_one_process_holds_has_no_way_over_hosts():
    assert MIRRORED.launcher.across_hosts is None


def test_tensorflow_tells_errors_alone():
    assert TENSORFLOW.settings(600, 1, "lo") == {"TF_CPP_MIN_LOG_LEVEL": "2"}


# Traffic


@pytest.mark.parametrize(
    "strategy", [ONE_DEVICE, MIRRORED, CENTRAL_STORAGE, KERAS_MIRRORED], ids=lambda each: each.name
)
def test_replicas_of_one_process_send_nothing(strategy):
    assert strategy.traffic(1000, 4, strategy.options()).bytes_per_step == 0


def test_processes_send_by_a_ring():
    assert MULTI_WORKER_MIRRORED.traffic(1000, 4, MULTI_WORKER_MIRRORED.options()).bytes_per_step == 6000


@pytest.mark.parametrize(
    ("updates", "workers", "sent"),
    [("asynchronous", 1, 2000), ("asynchronous", 4, 2000), ("synchronous", 1, 3000), ("synchronous", 4, 9000)],
)
def test_parameter_servers_move_weights_and_gradients(updates, workers, sent):
    traffic = PARAMETER_SERVER.traffic(1000, workers, PARAMETER_SERVER.options(updates=updates))
    assert traffic.bytes_per_step == sent
    assert "Li et al." in traffic.source


def test_records_note_the_versions_of_tensorflow_and_of_keras():
    assert {"tensorflow-cpu", "tensorflow", "keras"} <= {*TENSORFLOW.packages}


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"task": {"type": "worker", "index": 1}}, "rank 1"),
        ({"task": {"type": "ps", "index": 0}}, "server 0"),
        ({"task": {"type": "chief", "index": 0}}, None),
        ({}, None),
    ],
)
def test_a_process_tells_by_its_tf_config_whether_it_is_a_worker_or_a_server(config, task):
    assert task_in({"TF_CONFIG": json.dumps(config)}) == task
    assert task_in({}) is None
    assert task_in({"TF_CONFIG": "no JSON"}) is None
