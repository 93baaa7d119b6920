"""What Horovod brings for Keras works with Keras 3 in the build here, as its patches make it."""

import ast

import pytest

from common.contract.task import Task
from common.declarations.catalogue import find
from common.launching.launch import environment_for
from common.paths import ROOT
from tests.conftest import run_command
from tests.horovod_impl.conftest import horovodrun

WORKER = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import keras
import numpy as np
import tensorflow as tf

RATE = 0.5


def numbers(tensors):
    return [np.asarray(tensor).item() for tensor in tensors]


def layers(begin):
    # Two layers of one weight each, whose variables have the same name.
    made = [keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(begin)) for _ in "ab"]
    return keras.Sequential([keras.Input((1,)), *made])


def taped():
    # The loss is a * b * x: with both weights 2 and x = rank + 1 both gradients are 2 and 4, on average 3.
    model = layers(2.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.constant([[hvd.rank() + 1.0]])))
    return tape, loss, model


def fitted(model, optimizer, **options):
    model.compile(optimizer, loss=lambda _, output: output)
    return model.fit(np.full((1, 1), hvd.rank() + 1.0), np.zeros((1, 1)), verbose=0, **options)


def test_tape_averages():
    tape, loss, model = taped()
    tape = hvd.PartialDistributedGradientTape(tape)
    return numbers(tape.gradient(loss, model.trainable_variables)) == [3.0, 3.0]


def test_tape_averages_in_groups():
    tape, loss, model = taped()
    first, second = model.trainable_variables
    tape = hvd.DistributedGradientTape(tape, groups=[[second, first]])
    return numbers(tape.gradient(loss, [first, second])) == [3.0, 3.0]


def test_tape_leaves_local_gradients():
    tape, loss, model = taped()
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=[model.layers[1]], scale_local_gradients=False)
    local, averaged = tape.get_local_and_global_gradients(loss, model.trainable_variables)
    [(local_variable, own)], [(variable, average)] = local, averaged
    are_theirs = local_variable is model.trainable_variables[1] and variable is model.trainable_variables[0]
    return are_theirs and numbers([own, average]) == [2.0 * (hvd.rank() + 1), 3.0]


def test_optimizer_averages_in_fit():
    model = layers(2.0)
    fitted(model, hvd_keras.DistributedOptimizer(keras.optimizers.SGD(RATE)))
    return numbers(model.trainable_variables) == [2.0 - RATE * 3.0] * 2


def test_optimizer_leaves_local_variables():
    model = layers(2.0)
    optimizer = hvd_keras.DistributedOptimizer(keras.optimizers.SGD(RATE), scale_local_gradients=False)
    optimizer.register_local_var(model.trainable_variables[1])
    fitted(model, optimizer)
    return numbers(model.trainable_variables) == [0.5, 2.0 - RATE * 2.0 * (hvd.rank() + 1)]


def test_optimizer_leaves_adding_up_to_keras():
    try:
        hvd_keras.DistributedOptimizer(keras.optimizers.SGD(RATE), backward_passes_per_step=2)
    except NotImplementedError as error:
        return "gradient_accumulation_steps" in str(error)


def test_callbacks_broadcast_and_average():
    model = layers(2.0 + hvd.rank())
    callbacks = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0), hvd_keras.callbacks.MetricAverageCallback()]
    history = fitted(model, keras.optimizers.SGD(0.0, momentum=0.9), callbacks=callbacks)
    # The first loss is taken before the broadcast: 2 * 2 * 1 and 3 * 3 * 2.
    same = numbers(model.trainable_variables) == [2.0, 2.0]
    return same and history.history["loss"] == [11.0]


def test_batches_are_normalized_together():
    rows = np.random.default_rng(0).normal(size=(4 * hvd.size(), 3)).astype("float32")
    own = np.split(rows, hvd.size())[hvd.rank()]
    together, alone = hvd.SyncBatchNormalization(), keras.layers.BatchNormalization()
    expected = np.split(np.asarray(alone(rows, training=True)), hvd.size())[hvd.rank()]
    found = [np.asarray(together(own, training=True)), together.moving_mean, together.moving_variance]
    return all(
        np.allclose(a, b, atol=1e-5)
        for a, b in zip(found, [expected, alone.moving_mean, alone.moving_variance], strict=True)
    )


def test_a_mask_is_refused():
    try:
        hvd.SyncBatchNormalization()(np.ones((2, 3, 4), "float32"), training=True, mask=np.ones((2, 3), bool))
    except NotImplementedError as error:
        return "equally many" in str(error)


hvd.init()
said = {}
for name, check in [each for each in globals().items() if each[0].startswith("test_")]:
    try:
        said[name] = bool(check())
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print("said", said, flush=True)
hvd.shutdown()
"""


@pytest.mark.grid
def test_all_that_horovod_brings_for_keras_works_on_both_workers():
    status, output = run_command(horovodrun(2, "-c", WORKER), **environment_for(find("horovod_keras"), Task()))
    assert status == 0, output
    said = [ast.literal_eval(line.partition("said ")[2]) for line in output.splitlines() if ">:said {" in line]
    assert [len(answers) for answers in said] == [9, 9]
    assert [{name: answer for name, answer in answers.items() if answer is not True} for answers in said] == [{}, {}]
    assert "| `horovod_tensorflow` | works | works |" in (ROOT / "tf_impl" / "README.md").read_text(encoding="utf-8")
