"""horovod_tensorflow with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.tensorflow as hvd
import tensorflow as tf

from common import mlp
from common.run import Run
from horovod_impl import tensorflow_model as contract
from horovod_impl import train_tensorflow


def created_apart(config, state, create=contract.create_variables):
    variables = create(config, state)
    for parameter in variables.parameters:
        parameter.assign_add(0.001 * hvd.rank() * tf.ones_like(parameter))
    return variables


def whole_batch_for_every_worker(run):
    for batches in run._windows_of_batches(whole_batch=True):
        for batch in batches:
            yield [batch]


def scaled_rate(config, step, rate=mlp.learning_rate):
    return hvd.size() * rate(config, step)


def break_maths(control: str) -> None:
    if control == "sum":
        hvd.Average = hvd.Sum
    elif control == "float16":
        hvd.Compression.none = hvd.Compression.fp16
    elif control == "unsharded":
        Run.calls = whole_batch_for_every_worker
    elif control == "scaled_rate":
        mlp.learning_rate = scaled_rate
    elif control == "skipped_broadcast":
        contract.create_variables = created_apart
        hvd.broadcast_variables = lambda *_, **__: None
    elif control == "apart_then_broadcast":
        contract.create_variables = created_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
train_tensorflow.main()
