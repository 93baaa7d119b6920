"""tf_impl/strategies.py: what TensorFlow's strategies can't have, how they are started, and what they send."""

import json
import os

import pytest

from common.contract.task import Task
from common.declarations.strategy import label
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


def test_parameter_servers_follow_the_oracle_when_they_wait_for_all_workers():
    asynchronous = PARAMETER_SERVER.options()
    synchronous = PARAMETER_SERVER.options(updates="synchronous", parameter_servers=2)
    assert not PARAMETER_SERVER.is_synchronous(asynchronous)
    assert PARAMETER_SERVER.is_synchronous(synchronous)
    assert label(synchronous) == "2 parameter servers, synchronous updates"
    assert all(strategy.is_synchronous(strategy.options()) for strategy in (*LOOPS, KERAS_MIRRORED))


# Launches


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


# Traffic


@pytest.mark.parametrize(
    "strategy", [ONE_DEVICE, MIRRORED, CENTRAL_STORAGE, KERAS_MIRRORED], ids=lambda each: each.name
)
def test_replicas_of_one_process_send_nothing(strategy):
    assert strategy.traffic(1000, 4, strategy.options()).bytes_per_step == 0


def test_traffic_and_versions_are_those_of_a_ring_and_of_all_packages():
    assert MULTI_WORKER_MIRRORED.traffic(1000, 4, MULTI_WORKER_MIRRORED.options()).bytes_per_step == 6000
    assert {"tensorflow-cpu", "tensorflow", "keras"} <= {*TENSORFLOW.packages}
    assert TENSORFLOW.settings(600, 1, "lo") == {"TF_CPP_MIN_LOG_LEVEL": "2"}
    assert MIRRORED.launcher.across_hosts is None


@pytest.mark.parametrize(
    ("updates", "workers", "sent"),
    [("asynchronous", 1, 2000), ("asynchronous", 4, 2000), ("synchronous", 1, 3000), ("synchronous", 4, 9000)],
)
def test_parameter_servers_move_weights_and_gradients(updates, workers, sent):
    traffic = PARAMETER_SERVER.traffic(1000, workers, PARAMETER_SERVER.options(updates=updates))
    assert traffic.bytes_per_step == sent
    assert "Li et al." in traffic.source


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
