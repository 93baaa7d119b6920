"""tf_one_device in turn with a bare OneDeviceStrategy loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common.measurement.run import Run
from tests.benchmarks import bare_tensorflow, paired
from tf_impl import one_device


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare custom loop on the same device."""
    return bare_tensorflow.make_window(run, tf.distribute.OneDeviceStrategy("/cpu:0"))


if __name__ == "__main__":
    paired.main(one_device, make_bare_window)
