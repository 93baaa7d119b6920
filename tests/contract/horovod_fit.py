"""Try Horovod's own way to Keras's `fit` on Keras 3, and say what comes of it.

To start it, in Horovod's environment: `horovodrun -np 2 python tests/contract/horovod_fit.py`. Rank 0 prints a line for
its optimizer and one for its broadcast: "works", what it does instead, or the error's class and first line.
"""

import os

if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras may have been set to another one.

import horovod.tensorflow as tensorflow_hvd
import horovod.tensorflow.keras as hvd
import keras
import numpy as np


def main() -> None:
    """Try both on the workers that horovodrun has started."""
    hvd.init()
    said = [attempt(optimize), attempt(broadcast)]
    if hvd.rank() == 0:
        print("optimizer:", said[0])
        print("broadcast:", said[1], flush=True)
    hvd.shutdown()


def attempt(way) -> str:
    """What comes of it, in one line: whether all workers have the same weights at the end."""
    try:
        weights = way()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    everyones = tensorflow_hvd.allgather_object(weights, name=way.__name__)
    alike = all(np.array_equal(mine, theirs) for mine, theirs in zip(everyones[0], everyones[-1], strict=True))
    return "works" if alike else "trains, but every worker for itself"


def optimize() -> list:
    """Workers that begin alike train on different rows with Horovod's optimizer."""
    return fit(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), seed=0, feature=1.0 + hvd.rank())


def broadcast() -> list:
    """Workers that begin apart train on the same rows after Horovod's broadcast."""
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    return fit(keras.optimizers.SGD(0.1), seed=hvd.rank(), feature=1.0, callbacks=[callback])


def fit(optimizer, seed, feature, callbacks=()) -> list:
    """The weights of a small layer after an epoch on rows that all have this feature."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile(optimizer, "mse")
    model.fit(np.full((32, 8), feature), np.ones((32, 4)), verbose=0, callbacks=list(callbacks))
    return model.get_weights()


if __name__ == "__main__":
    main()
