"""Horovod with TensorFlow and Keras: what is refused, what continues what, what comes of Horovod's own way to fit."""

import dataclasses
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from common.contract.task import Task
from common.declarations.catalogue import find
from common.errors import LaunchFailedError
from common.launching.launch import environment_for, python_for
from common.paths import ROOT
from horovod_impl import world
from tests.conftest import run_command
from tests.contract.worlds import contract_task
from tests.launching import assert_follows

KERAS = find("horovod_keras")

MOMENTUM_AND_DECAY = ["--momentum", "0.9", "--weight-decay", "0.01"]
MOMENTUM_AND_SCHEDULE = ["--momentum", "0.9", "--final-learning-rate", "0.05"]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (MOMENTUM_AND_DECAY, "keeps weight decay out of the momentum"),
        (MOMENTUM_AND_SCHEDULE, "multiplied by the learning rate"),
    ],
)
def test_what_keras_cannot_do_is_refused_in_one_line(options, cause):
    command = [str(python_for(KERAS)), KERAS.script, *options]
    status, output = run_command(command, **environment_for(KERAS, Task()))
    [line] = [line for line in output.splitlines() if line.startswith("lockstep: ")]
    assert cause in line
    assert "or use horovod_tensorflow." in line
    assert status == 2


def test_xla_cannot_compile_an_exchange_and_is_not_offered():
    status, output = run_command([sys.executable, "-m", "common.launching.launch", "horovod_keras", "--jit-compile"])
    assert "--jit-compile has no effect on horovod_keras" in output
    assert status == 2


@pytest.mark.grid
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [{"momentum": 0.9, "final_learning_rate": 0.1}, {"weight_decay": 0.01, "final_learning_rate": 0.05}],
    ids=["momentum", "weight_decay-schedule"],
)
def test_what_keras_does_alike_follows_the_oracle(options, workers, launch, comparison_of, tmp_path):
    launched = launch(KERAS.name, contract_task("digits", workers, tmp_path, activation="tanh", **options))
    assert_follows(launched, comparison_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(
    ("first", "second"), [("horovod_keras", "horovod_tensorflow"), ("horovod_tensorflow", "horovod_keras")]
)
def test_a_run_with_momentum_goes_on_with_the_other_strategy(first, second, launch, comparison_of, tmp_path):
    """Keras keeps another momentum than torch: it has to be converted both ways, and reach every worker."""
    task = contract_task("digits", 2, tmp_path, momentum=0.5, activation="tanh")
    assert launch(first, dataclasses.replace(task, steps=60), "first").status == 0
    assert np.abs(load_file(task.checkpoint)["layer0.weight.momentum"]).max() > 0
    launched = launch(second, task, "second")
    assert launched.record.first_step == 60
    assert_follows(launched, comparison_of(launched))


def test_horovods_own_keras_optimizer_and_its_broadcast_work_in_the_build_here():
    """As published they do not; the table of support in tf_impl/README.md says the first."""
    python = python_for(KERAS)
    command = [str(python.parent / "horovodrun"), "--gloo", "-np", "2", str(python), "tests/contract/horovod_fit.py"]
    status, output = run_command(command, **environment_for(KERAS, Task()))
    said = [line.partition(">:")[2] for line in output.splitlines() if line.startswith("[0]<stdout>:")]
    assert (status, said) == (
        0,
        ["optimizer: works", "broadcast: works"],
    ), output
    readme = (ROOT / "tf_impl" / "README.md").read_text()
    assert f"| `horovod_tensorflow` | works | {said[0].removeprefix('optimizer: ')} |" in readme


def test_of_a_worker_lost_in_a_graph_the_reason_is_told_and_not_where_it_was_noticed():
    """The message as TensorFlow 2.21.0 makes it, with fewer lines."""
    message = (
        "Graph execution error:\n\nDetected at node X/HorovodAllreduce_gradient defined at (most recent call last):\n"
        '  File "train_tensorflow.py", line 106, in <module>\n\nHorovod has been shut down.\n'
        "\t [[{{node X/HorovodAllreduce_gradient}}]] [Op:__inference_train_step_194]"
    )
    for text in (message, "{{function_node __wrapped__HorovodAllgather}} Horovod has been shut down."):
        with (
            pytest.raises(LaunchFailedError, match=r"^Horovod lost a worker \(Horovod has been shut down\.\)\.$"),
            world.one_line_when_it_breaks(OSError),
        ):
            raise OSError(text)
