"""Run tf_parameter_server, where a worker is killed when its part of a step is ready and nobody has copied it yet.

To start it: `python -m tests.tf_impl.lost_part SCRIPT OPTIONS`. The script stays as it is: in the coordinator alone,
what TensorFlow calls when a result is ready first kills the worker that holds it. Who started the workers has to start
that one again.
"""

import itertools
import json
import os
from unittest.mock import patch

import psutil
import tensorflow as tf
from tensorflow.python.distribute.coordinator.values import RemoteValueImpl

from common.measurement.runner import run_script

LOST = 20
"""Which of the parts is lost, counted from 1 over all workers."""
PARTS = itertools.count(1)


def make_ready(result, values, make_ready=RemoteValueImpl._set_values):
    """Make a result ready, without the worker that holds the lost part."""
    # A part is several values; what else becomes ready, a worker's variable or its number, is one.
    if isinstance(values, tuple) and next(PARTS) == LOST:
        kill_worker(tf.DeviceSpec.from_string(values[0].backing_device).task)
    make_ready(result, values)


def kill_worker(index):
    """End this worker of the coordinator's own cluster, and return once it's gone."""
    task = {"type": "worker", "index": index}
    started_together = psutil.Process(os.getppid()).children()
    [worker] = [each for each in started_together if json.loads(each.environ()["TF_CONFIG"])["task"] == task]
    worker.kill()
    worker.wait()


if __name__ == "__main__":
    with patch.object(RemoteValueImpl, "_set_values", make_ready):
        run_script()
