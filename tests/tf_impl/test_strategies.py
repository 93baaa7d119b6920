"""tf_impl/strategies.py: what TensorFlow's strategies can't have, how they are started, and what they send."""

import json
import os

import pytest

from common.contract.task import Task
from common.errors import UserError
from tf_impl import strategies
from tf_impl.strategies import CENTRAL_STORAGE, KERAS_MIRRORED, MIRRORED, MULTI_WORKER_MIRRORED, PARAMETER_SERVER


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"momentum": 0.9, "weight_decay": 0.01}, "keeps weight decay out of the momentum"),
        ({"momentum": 0.9, "final_learning_rate": 0.05}, "multiplied by the learning rate"),
        ({"momentum": 0.9, "learning_rate": 0.0}, "multiplied by the learning rate"),
        ({"momentum": 0.9}, None),
        ({"momentum": 0.9, "final_learning_rate": Task().learning_rate}, None),
        ({"weight_decay": 0.01, "final_learning_rate": 0.05}, None),
        ({"learning_rate": 0.0}, None),
    ],
)
def test_what_keras_computes_differently_with_momentum_is_refused(values, cause):
    MIRRORED.check(Task(**values), MIRRORED.options(), 2, 0)
    if cause is None:
        KERAS_MIRRORED.check(Task(**values), KERAS_MIRRORED.options(), 2, 0)
    else:
        with pytest.raises(UserError, match=rf"{cause}.*or use {MIRRORED.name}\.$"):
            KERAS_MIRRORED.check(Task(**values), KERAS_MIRRORED.options(), 2, 0)


def test_keras_compiles_the_step_of_one_replica_alone():
    compiled = KERAS_MIRRORED.options(jit_compile=True)
    KERAS_MIRRORED.check(Task(), compiled, 1, 0)
    with pytest.raises(UserError, match="leave --jit-compile out, start one worker, or use tf_mirrored"):
        KERAS_MIRRORED.check(Task(), compiled, 2, 0)
    MIRRORED.check(Task(), MIRRORED.options(jit_compile=True), 2, 0)


@pytest.mark.parametrize(("variables", "step"), [({"TF_CONFIG": "{}"}, None), ({}, "a step"), ({}, None)])
def test_a_cluster_is_given_by_tf_config_or_by_a_step_of_slurm(variables, step, monkeypatch):
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(strategies, "task_of_step", lambda: step)
    assert strategies.cluster_is_given() is bool(variables or step)


@pytest.mark.parametrize(
    ("config", "task"),
    [
        (json.dumps({"task": {"type": "worker", "index": 1}}), "rank 1"),
        (json.dumps({"task": {"type": "ps", "index": 0}}), "server 0"),
        (json.dumps({"task": {"type": "chief", "index": 0}}), None),
        ("{}", None),
        ("no JSON", None),
    ],
)
def test_a_process_tells_by_its_tf_config_whether_it_is_a_worker_or_a_server(config, task):
    assert strategies.task_in({"TF_CONFIG": config}) == task
    assert strategies.task_in({}) is None


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "sent"),
    [
        *((strategy, 4, {}, 0) for strategy in (strategies.ONE_DEVICE, MIRRORED, CENTRAL_STORAGE, KERAS_MIRRORED)),
        (MULTI_WORKER_MIRRORED, 4, {}, 6000),
        (PARAMETER_SERVER, 1, {}, 2000),
        (PARAMETER_SERVER, 4, {}, 2000),
        (PARAMETER_SERVER, 1, {"updates": "synchronous"}, 3000),
        (PARAMETER_SERVER, 4, {"updates": "synchronous"}, 9000),
    ],
)
def test_workers_with_a_thousand_bytes_of_gradients_send_what_the_formula_says(strategy, workers, options, sent):
    assert strategy.traffic(1000, workers, strategy.options(**options)).bytes_per_step == sent


def test_tensorflow_prints_errors_alone_and_one_process_spans_no_hosts():
    assert MIRRORED.family.settings(600, 1, "lo") == {"TF_CPP_MIN_LOG_LEVEL": "2"}
    assert MIRRORED.launcher.across_hosts is None
