"""The bare Keras `compile` and `fit` that the strategies with `fit` are measured against.

Starting a `fit` costs as much as tens of small steps, so both sides have one for the whole run. The bare one lives in
a thread of its own and stands still, before its next step, while the other is clocked. Either side's tf.data pipeline
may run a few batches ahead meanwhile.
"""

import os
import threading
import traceback
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from common.contract.task import Task
from common.measurement.run import Run
from tests.benchmarks import bare_tensorflow, paired


class Turns(keras.callbacks.Callback):
    """Lets `fit` go on for so many steps at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._steps, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def take(self, steps: int) -> None:
        """Wait until `fit` has done so many steps more."""
        self._steps.release(steps)
        self.done.acquire()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        if not self._steps.acquire(blocking=False):
            self.done.release()
            self._steps.acquire()

    def on_train_end(self, logs: dict | None = None) -> None:
        self.done.release()


def compile_model(
    task: Task, make_optimizer: Callable[..., keras.optimizers.SGD] = keras.optimizers.SGD
) -> keras.Model:
    """The MLP as a user writes it; to be called in the strategy's scope, if any."""
    inputs, *widths, classes = task.dimensions
    hidden = [keras.layers.Dense(width, task.activation, use_bias=task.bias) for width in widths]
    model = keras.Sequential([keras.Input((inputs,)), *hidden, keras.layers.Dense(classes, use_bias=task.bias)])
    rate = task.learning_rate
    if task.final_learning_rate is not None:
        rate = keras.optimizers.schedules.PolynomialDecay(rate, task.decay_steps, task.final_learning_rate)
    model.compile(make_optimizer(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def make_window(run: Run, model: keras.Model) -> paired.BareWindow:
    """A bare `fit` on this process's rows, fed by the same kind of pipeline."""
    features, labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)
    rows = tf.data.Dataset.from_tensor_slices(np.stack(list(run.rows(run.first_step, run.task.steps))))
    dataset = rows.map(lambda rows: (tf.gather(features, rows), tf.gather(labels, rows))).prefetch(tf.data.AUTOTUNE)
    turns = Turns()

    def fit() -> None:
        try:
            model.fit(dataset, shuffle=False, verbose=0, callbacks=[turns])
        except Exception:
            # The other side would wait for its turn for ever.
            traceback.print_exc()
            os._exit(1)

    threading.Thread(target=fit, daemon=True).start()
    # Until it stands before its first step.
    turns.done.acquire()
    return lambda rows_of_steps: turns.take(len(rows_of_steps))


def mirrored(run: Run) -> paired.BareWindow:
    """A bare `fit` under MirroredStrategy on the same logical devices."""
    with bare_tensorflow.mirrored_strategy(run).scope():
        model = compile_model(run.task)
    return make_window(run, model)


def horovod(run: Run) -> paired.BareWindow:
    """A bare `fit` over Horovod, each worker's on its own rows."""
    import horovod.tensorflow as hvd

    class AveragingSGD(keras.optimizers.SGD):
        """SGD that averages over all workers, in tensors with names of their own."""

        def apply(self, grads: list, trainable_variables: list | None = None) -> None:
            averages = [hvd.allreduce(gradient, name=f"bare.{position}") for position, gradient in enumerate(grads)]
            super().apply(averages, trainable_variables)

    return make_window(run, compile_model(run.task, AveragingSGD))


if __name__ == "__main__":
    paired.main(tf_keras_mirrored=mirrored, horovod_keras=horovod)
