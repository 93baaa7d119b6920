"""horovod_keras with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import dataclasses
import os
import sys
from functools import partialmethod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.tensorflow as hvd
import tensorflow as tf

from common.run import Run
from horovod_impl import tensorflow_fit as fit
from horovod_impl import train_keras


def created_apart(*arguments, create=fit.create_model):
    model = create(*arguments)
    for parameter in model.trainable_variables:
        parameter.value.assign_add(0.001 * hvd.rank() * tf.ones_like(parameter.value))
    return model


def created_with_scaled_rate(config, *arguments, create=fit.create_model):
    return create(dataclasses.replace(config, learning_rate=hvd.size() * config.learning_rate), *arguments)


def break_maths(control: str) -> None:
    if control == "sum":
        hvd.Average = hvd.Sum
    elif control == "float16":
        hvd.Compression.none = hvd.Compression.fp16
    elif control == "unsharded":
        Run.rows = partialmethod(Run.rows, whole_batch=True)
    elif control == "scaled_rate":
        fit.create_model = created_with_scaled_rate
    elif control == "skipped_broadcast":
        fit.create_model = created_apart
        hvd.broadcast_variables = lambda *_, **__: None
    elif control == "apart_then_broadcast":
        fit.create_model = created_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
train_keras.main()
