"""tf_mirrored with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import dataclasses
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np
import tensorflow as tf

from common import mlp
from common.run import Run
from tf_impl import mirrored
from tf_impl import model as contract


def summed(config, variables, features, labels, divisor, compute=contract.loss_and_gradients):
    loss, gradients = compute(config, variables, features, labels, divisor)
    return loss, [gradient * config.workers for gradient in gradients]


def rounded(config, variables, features, labels, divisor, compute=contract.loss_and_gradients):
    loss, gradients = compute(config, variables, features, labels, divisor)
    return loss, [tf.cast(tf.cast(gradient, tf.float16), tf.float32) for gradient in gradients]


def created_apart(config, state, create=contract.create_variables):
    variables = create(config, state)
    for parameter in variables.parameters:
        second = parameter.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return variables


def whole_batch_for_every_replica(run, steps=Run.steps):
    for batch in steps(run):
        yield dataclasses.replace(batch, rows=np.tile(batch.rows, run.config.workers))


def break_maths(control: str) -> None:
    if control == "sum":
        contract.loss_and_gradients = summed
    elif control == "float16":
        contract.loss_and_gradients = rounded
    elif control == "unsharded":
        Run.steps = whole_batch_for_every_replica
    elif control == "scaled_rate":
        rate = mlp.learning_rate
        mlp.learning_rate = lambda config, step: config.workers * rate(config, step)
    elif control == "skipped_broadcast":
        contract.create_variables = created_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
mirrored.main()
