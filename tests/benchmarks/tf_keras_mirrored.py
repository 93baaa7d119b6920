"""tf_keras_mirrored in turn with a bare Keras `compile` and `fit` under MirroredStrategy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common.measurement.run import Run
from tests.benchmarks import bare_keras, bare_tensorflow, paired
from tf_impl import keras_mirrored


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare `fit` on the same logical devices."""
    across_devices = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(bare_tensorflow.logical_devices(run), cross_device_ops=across_devices)
    with strategy.scope():
        model = bare_keras.compile_model(run.task)
    return bare_keras.make_window(run, model)


if __name__ == "__main__":
    paired.main(keras_mirrored, make_bare_window)
