"""Keras 3 `compile` and `fit` with Horovod: Keras's SGD averages the gradients over all workers before it applies them.

Horovod's own way doesn't work with Keras 3. `horovod.tensorflow.keras.DistributedOptimizer` averages in methods that
Keras 3 no longer calls (`_compute_gradients`, `_aggregate_gradients`), so it trains without an error, and every worker
for itself; `BroadcastGlobalVariablesCallback` ends with an error, since a variable of Keras 3 has no `ref()`.

To start it: `horovodrun -np 4 python horovod_impl/train_keras.py --preset digits`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line
from horovod_impl import world

if __name__ == "__main__":
    world.require_horovod("tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras may have been set to another one.

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from common import machine
from common.config import Config, check_world_size, parse_command_line
from common.run import Run
from horovod_impl import tensorflow_fit as fit
from horovod_impl import tensorflow_model as contract


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the MLP in it with Keras, as the command line says."""
    config = parse_command_line(__doc__)
    world.prepare(config)
    # 1. Initialise Horovod: from here on every process knows its rank and its peers.
    hvd.init()
    # 2. Pin one GPU per process by local rank, where there are GPUs. TensorFlow takes no such wish after its first
    # operation, which may be the next line's.
    devices = contract.choose_devices(config, 1, hvd.local_rank(), hvd.local_size())
    config = world.settle(config, hvd)
    check_world_size(config, hvd.size(), "horovodrun")
    placement = machine.pin(config, hvd.local_rank(), hvd.local_size())

    run = Run(
        config,
        strategy="horovod_keras",
        framework="tensorflow",
        placement=placement,
        rank=hvd.rank(),
        world_size=hvd.size(),
        backend=world.carrier_of(hvd, "cpu" if devices[0].startswith("/cpu") else "gpu"),
        device=contract.device_name(devices),
        # Horovod would name the collective after the value's type, and wait for ever where ranks' types differ.
        all_gather=partial(hvd.allgather_object, name="run"),
        synchronize=tf.test.experimental.sync_devices,
    )
    # So a lost worker ends an operation on the others: at once, or after Horovod has been told to stop.
    with world.one_line_when_it_breaks(tf.errors.UnknownError, tf.errors.AbortedError):
        _train(config, run, tf.distribute.OneDeviceStrategy(devices[0]))
    hvd.shutdown()


class AveragingSGD(keras.optimizers.SGD):
    """Keras's SGD of gradients that `average` takes from, and gives to, all workers."""

    def __init__(self, *arguments: object, average: Callable[[tf.Tensor], tf.Tensor], **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self._average = average

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        """One step, by the averages; the names of the arguments are Keras's."""
        # The line that makes it distributed. Horovod sends together what is ready at the same time.
        super().apply([self._average(gradient) for gradient in grads], trainable_variables)


def _train(config: Config, run: Run, one_device: tf.distribute.Strategy) -> None:
    make_optimizer = keras.optimizers.SGD
    if config.exchange:
        # 3. Wrap the optimizer.
        average = partial(
            hvd.allreduce,
            compression=hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none,
            op=hvd.Adasum if config.adasum else hvd.Average,
        )
        make_optimizer = partial(AveragingSGD, average=average)
    model = fit.create_model(config, run.initial_state, run.first_step, make_optimizer)
    # 4. Broadcast parameters and optimizer state from rank 0.
    hvd.broadcast_variables([keeper.value for keeper in (*model.variables, *model.optimizer.variables)], root_rank=0)

    # 5. Checkpoint on rank 0 alone: the others pass through in the clock.
    clock = fit.Clock(config, run, lambda: [fit.export_state(config, model)])
    with world.traced(run, hvd) as facts:
        # Every worker's `fit` gets rows of its own.
        model.fit(fit.create_batches(config, run), epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    held = contract.held_bytes(contract.Variables(*fit.variables_of(model)), one_device)
    examples = hvd.allgather_object(fit.count_examples(model), name="examples")
    run.finish(fit.export_state(config, model), held, examples_by_rank=examples, **facts)


if __name__ == "__main__":
    exit_with_one_line(main)
