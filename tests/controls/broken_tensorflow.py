"""What breaks the maths of every TensorFlow strategy with one process, whose script is started after it."""

import dataclasses

import numpy as np
import tensorflow as tf

from common import mlp
from common.run import Run
from tf_impl import model as contract


def summed(config, variables, features, labels, divisor, compute=contract.loss_and_gradients):
    loss, gradients = compute(config, variables, features, labels, divisor)
    return loss, [gradient * config.workers for gradient in gradients]


def rounded(config, variables, features, labels, divisor, compute=contract.loss_and_gradients):
    loss, gradients = compute(config, variables, features, labels, divisor)
    return loss, [tf.cast(tf.cast(gradient, tf.float16), tf.float32) for gradient in gradients]


def whole_batch_for_every_replica(run, calls=Run.calls):
    for batches in calls(run):
        yield [dataclasses.replace(batch, rows=np.tile(batch.rows, run.config.workers)) for batch in batches]


def break_maths(control: str) -> None:
    """Put the control's error in place of what the strategies use. Raises ValueError for one that isn't known here."""
    if control == "sum":
        contract.loss_and_gradients = summed
    elif control == "float16":
        contract.loss_and_gradients = rounded
    elif control == "unsharded":
        Run.calls = whole_batch_for_every_replica
    elif control == "scaled_rate":
        rate = mlp.learning_rate
        mlp.learning_rate = lambda config, step: config.workers * rate(config, step)
    else:
        raise ValueError(control)
