"""tf_mirrored in turn with a bare MirroredStrategy loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common.measurement.run import Run
from tests.benchmarks import bare_tensorflow, paired
from tf_impl import mirrored


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare custom loop on the same logical devices."""
    across_devices = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(bare_tensorflow.logical_devices(run), cross_device_ops=across_devices)
    return bare_tensorflow.make_window(run, strategy)


if __name__ == "__main__":
    paired.main(mirrored, make_bare_window)
