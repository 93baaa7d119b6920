"""Try the plainest Keras `compile` and `fit` under one of TensorFlow's strategies, and say what comes of it.

To start it, in TensorFlow's environment: `python -m tests.tf_impl.keras_fit tf_multi_worker_mirrored`. It prints one
line: "works", or the class and the first line of the error that TensorFlow or Keras gives. Strategies of several
processes get them on this machine, and all are ended whatever becomes of them.
"""

import json
import math
import os
import sys
import threading

from common.launching.processes import run_tasks
from tf_impl.cluster import tasks_of

STRATEGIES = ("tf_one_device", "tf_mirrored", "tf_multi_worker_mirrored", "tf_central_storage", "tf_parameter_server")
"""The strategies that can be tried, by the names of those that have a loop of their own here."""

CLUSTERS = {
    "tf_multi_worker_mirrored": {"worker": 2},
    "tf_parameter_server": {"chief": 1, "worker": 1, "ps": 1},
}
"""The numbers of tasks of the strategies that have several, by job; the first of them says what happened."""

SECONDS = 150
"""How long an attempt may take."""

STEPS = 200
"""Steps of `fit`: so many that a running mean whose sums double in every step is past the greatest float32."""


def main() -> None:
    """Try the strategy that the command line names, or be one task of its cluster."""
    if len(sys.argv) < 2 or sys.argv[1] not in STRATEGIES:
        sys.exit(f"Name one of {', '.join(STRATEGIES)}.")
    strategy = sys.argv[1]
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}
    task = {}
    if strategy in CLUSTERS:
        if "TF_CONFIG" not in os.environ:
            run_tasks(tasks_of(CLUSTERS[strategy]), dict(os.environ), SECONDS, waited_for=1)
        task = json.loads(os.environ["TF_CONFIG"])["task"]
    outcome = attempt(strategy)
    if strategy not in CLUSTERS or task == {"type": next(iter(CLUSTERS[strategy])), "index": 0}:
        print(outcome, flush=True)
        # TensorFlow's servers outlive their main thread.
        os._exit(0)
    # What the first task says mustn't depend on whether this one has left already.
    threading.Event().wait()


def attempt(strategy: str) -> str:
    """What comes of `fit`, in one line."""
    try:
        loss = fit(strategy)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return "works" if math.isfinite(loss) else f"trains, but reports a loss of {loss}"


def fit(strategy: str) -> float:
    """Train a tiny model for one epoch, as Keras's own guides do; returns the epoch's loss that Keras reports."""
    import keras
    import numpy as np
    import tensorflow as tf

    with make_strategy(tf, strategy).scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rows = STEPS * 16
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((rows, 8), np.float32), np.zeros(rows, np.int64))).batch(16)
    return model.fit(dataset, verbose=0).history["loss"][0]


def make_strategy(tf, strategy: str):
    """The strategy, over two logical CPU devices where one process has several; a task that only serves stays here."""
    if strategy == "tf_one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if strategy == "tf_multi_worker_mirrored":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if strategy == "tf_parameter_server":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if resolver.task_type != "chief":
            tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
        return tf.distribute.ParameterServerStrategy(resolver)
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    devices = ["/cpu:0", "/cpu:1"]
    if strategy == "tf_mirrored":
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/cpu:0")


if __name__ == "__main__":
    main()
