"""tf_central_storage in turn with a bare CentralStorageStrategy loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common.measurement.run import Run
from tests.benchmarks import bare_tensorflow, paired
from tf_impl import central_storage


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare custom loop on the same logical devices, with the variables on the host."""
    devices = bare_tensorflow.logical_devices(run)
    strategy = tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/cpu:0")
    return bare_tensorflow.make_window(run, strategy)


if __name__ == "__main__":
    paired.main(central_storage, make_bare_window)
