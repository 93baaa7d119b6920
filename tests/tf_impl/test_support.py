"""The table in tf_impl/README.md of what works under TensorFlow's strategies says what TensorFlow and Keras do."""

import os
import re
import subprocess

import pytest

from common.declarations.catalogue import find, strategies
from common.declarations.strategy import CONVENIENCE_OF
from common.launching.launch import python_for
from common.paths import ROOT
from tf_impl.cluster import tasks_of
from tf_impl.strategies import TENSORFLOW

README = (ROOT / "tf_impl" / "README.md").read_text(encoding="utf-8")
HEADER = "| strategy | own loop | Keras 3 `fit` |\n"
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", README.partition(HEADER)[2].partition("\n\n")[0], re.MULTILINE)
"""Of the table: strategy, own loop, fit."""

CLUSTERS = {"tf_multi_worker_mirrored": {"worker": 2}, "tf_parameter_server": {"chief": 1, "worker": 1, "ps": 1}}
"""Tasks by job, of which the first says what happened."""

FIT = """
import math, signal, sys, time
signal.alarm(300)
import keras
import numpy as np
import tensorflow as tf

def make_strategy(name):
    if name == "tf_one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "tf_multi_worker_mirrored":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "tf_parameter_server":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if resolver.task_type != "chief":
            tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
        return tf.distribute.ParameterServerStrategy(resolver)
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    devices = ["/cpu:0", "/cpu:1"]
    if name == "tf_mirrored":
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/cpu:0")

# So many steps that a running mean whose sums double in every step is past the greatest float32.
rows = 200 * 16
try:
    with make_strategy(sys.argv[1]).scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((rows, 8), np.float32), np.zeros(rows, np.int64))).batch(16)
    loss = model.fit(dataset, verbose=0).history["loss"][0]
    print("works" if math.isfinite(loss) else f"trains, but reports a loss of {loss}", flush=True)
except Exception as error:
    print(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}", flush=True)
# What the first task says mustn't depend on whether this one has left already.
time.sleep(300)
"""


def test_the_table_has_every_strategy_with_a_loop_of_its_own():
    """That their loops work is what the contract tests are for; they try the row of Horovod, too."""
    with_own_loop = {
        name
        for name, strategy in strategies().items()
        if strategy.family is TENSORFLOW and CONVENIENCE_OF not in strategy.compared_with
    }
    working = {name for name, own_loop, _ in ROWS if own_loop == "works"}
    assert working - {"horovod_tensorflow"} == with_own_loop


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "outcome"), [row[::2] for row in ROWS if row[0].startswith("tf_")])
def test_the_table_says_what_comes_of_the_plainest_fit(strategy, outcome):
    command = [str(python_for(find(strategy))), "-c", FIT, strategy]
    settings = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}
    tasks = tasks_of(CLUSTERS[strategy]).values() if strategy in CLUSTERS else [{}]
    processes = [
        subprocess.Popen(command, env=settings | variables, stdout=subprocess.PIPE, encoding="utf-8")
        for variables in tasks
    ]
    try:
        assert processes[0].stdout.readline().strip() == outcome.strip("`")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
