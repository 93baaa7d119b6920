"""Try the plainest Keras `compile` and `fit` under one of TensorFlow's strategies, and say what comes of it.

To start it, in TensorFlow's environment: `python tests/tf_impl/keras_fit.py tf_multi_worker_mirrored`. It prints one
line: "works", or the class and the first line of the error that TensorFlow or Keras gives. Strategies of several
processes get them on this machine, and all are ended whatever becomes of them.
"""

import json
import math
import os
import socket
import subprocess
import sys
import threading

STRATEGIES = ("tf_one_device", "tf_mirrored", "tf_multi_worker_mirrored", "tf_central_storage", "tf_parameter_server")
"""The strategies that can be tried, by the names of those that have a loop of their own here."""

CLUSTERS = {
    "tf_multi_worker_mirrored": (("worker", 0), ("worker", 1)),
    "tf_parameter_server": (("chief", 0), ("worker", 0), ("ps", 0)),
}
"""The tasks of the strategies that have several; the first of them says what happened."""

SECONDS = 150
"""How long an attempt, and every process of it, may take."""

STEPS = 200
"""Steps of `fit`: so many that a running mean whose sums double in every step is past the greatest float32."""


def main() -> None:
    """Try the strategy that the command line names, or be one task of its cluster."""
    if len(sys.argv) < 2 or sys.argv[1] not in STRATEGIES:
        sys.exit(f"Name one of {', '.join(STRATEGIES)}.")
    strategy = sys.argv[1]
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}
    if strategy in CLUSTERS and "TF_CONFIG" not in os.environ:
        print(attempt_on_cluster(strategy))
        return
    # TensorFlow's servers ignore SIGTERM and outlive their main thread; nobody may be there any more to kill them.
    threading.Timer(SECONDS, os._exit, [1]).start()
    print(attempt(strategy), flush=True)
    if "TF_CONFIG" in os.environ and json.loads(os.environ["TF_CONFIG"])["task"] != first_task(strategy):
        # What the first task says mustn't depend on whether this one has left already.
        threading.Event().wait()
    os._exit(0)


def first_task(strategy: str) -> dict:
    """The task of TF_CONFIG whose outcome counts."""
    job, index = CLUSTERS[strategy][0]
    return {"type": job, "index": index}


def attempt_on_cluster(strategy: str) -> str:
    """What the first task of a local cluster says, or that it took too long."""
    addresses = {}
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in CLUSTERS[strategy]]
    for (job, _), probe in zip(CLUSTERS[strategy], probes, strict=True):
        addresses.setdefault(job, []).append(f"127.0.0.1:{probe.getsockname()[1]}")
    for probe in probes:
        probe.close()
    processes = []
    try:
        for job, index in CLUSTERS[strategy]:
            place = json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})
            output = subprocess.DEVNULL if processes else subprocess.PIPE
            command = [sys.executable, __file__, strategy]
            processes.append(
                subprocess.Popen(command, env=os.environ | {"TF_CONFIG": place}, stdout=output, encoding="utf-8")
            )
        return processes[0].communicate(timeout=SECONDS)[0].strip() or "The first task ended without a word."
    except subprocess.TimeoutExpired:
        return f"TimeoutError: fit hadn't ended after {SECONDS} s"
    finally:
        for process in processes:
            process.kill()
            process.wait()


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
