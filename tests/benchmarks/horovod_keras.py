"""horovod_keras in turn with a bare Keras `compile` and `fit` over Horovod."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.tensorflow as hvd
import keras

from common.measurement.run import Run
from horovod_impl import train_keras
from tests.benchmarks import bare_keras, paired


class BareSGD(keras.optimizers.SGD):
    """SGD that averages over all workers, in tensors with names of their own."""

    def apply(self, grads: list, trainable_variables: list | None = None) -> None:
        """One step, by the averages."""
        averages = [hvd.allreduce(gradient, name=f"bare.{position}") for position, gradient in enumerate(grads)]
        super().apply(averages, trainable_variables)


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare `fit`, each worker's on its own rows."""
    return bare_keras.make_window(run, bare_keras.compile_model(run.task, BareSGD))


if __name__ == "__main__":
    paired.main(train_keras, make_bare_window)
