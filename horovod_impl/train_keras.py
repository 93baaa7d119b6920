"""Keras 3 `compile` and `fit` with Horovod: Keras's SGD averages the gradients over all workers before it applies them.

As published, `horovod.tensorflow.keras.DistributedOptimizer` averages in methods that Keras 3 doesn't call. It trains
without an error, but every worker for itself. The build here mends that optimizer and its broadcast (patches in
horovod_impl/building). The optimizer below shows how little an optimizer takes. It averages by Adasum too, which
Horovod's refuses.

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
    os.environ["KERAS_BACKEND"] = "tensorflow"  # The user may have chosen another backend.

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from horovod_impl.strategies import KERAS
from tf_impl import fit, model


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the model in it with Keras, as it is told."""
    task, options = parse_command_line(KERAS, __doc__)
    world.prepare(task, options)
    # 1. Initialise Horovod: from here on every process knows its rank and its peers.
    with world.one_line_when_nobody_answers():
        hvd.init()
    # 2. Pin one GPU per process by local rank, where there are GPUs. This must precede TensorFlow's first operation,
    # which may be in the next line.
    devices = model.choose_devices(task, 1, hvd.local_rank(), hvd.local_size())
    synchronize = tf.test.experimental.sync_devices
    options, horovod_world = world.join(hvd, task, options, model.device_name(devices), synchronize)

    # A lost worker ends an operation on the others with one of these errors: at once, or after Horovod has stopped.
    with world.one_line_when_it_breaks(tf.errors.UnknownError, tf.errors.AbortedError):
        _train(Run(KERAS, task, options, horovod_world), tf.distribute.OneDeviceStrategy(devices[0]))
    hvd.shutdown()


class AveragingSGD(keras.optimizers.SGD):
    """Keras's SGD, with every gradient averaged over all workers by `average`."""

    def __init__(self, *arguments: object, average: Callable[[tf.Tensor], tf.Tensor], **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self._average = average

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        """Apply one step by the averaged gradients. The names of the arguments are Keras's."""
        # The line that makes it distributed. Horovod sends together what is ready at the same time.
        super().apply([self._average(gradient) for gradient in grads], trainable_variables)


def _train(run: Run, one_device: tf.distribute.Strategy) -> None:
    task, options = run.task, run.options
    make_optimizer = keras.optimizers.SGD
    if options.exchange:
        # 3. Wrap the optimizer, whose bare self would step by this worker's own gradients.
        average = partial(
            hvd.allreduce,
            compression=hvd.Compression.fp16 if options.compression == "fp16" else hvd.Compression.none,
            op=hvd.Adasum if options.adasum else hvd.Average,
        )
        make_optimizer = partial(AveragingSGD, average=average)
    network = fit.create_model(task, run.initial_state, run.first_step, make_optimizer=make_optimizer)
    # 4. Broadcast parameters and optimizer state from rank 0.
    keras_variables = [*network.variables, *network.optimizer.variables]
    hvd.broadcast_variables([variable.value for variable in keras_variables], root_rank=0)
    # 5. Checkpoint on rank 0 alone, which the run does.
    variables = model.Variables(*fit.variables_of(network))
    run.export_with(lambda: fit.export_state(task, network), lambda: model.held_bytes(variables, one_device))
    batches, clock = fit.create_batches(task, run), fit.Clock(run)
    with world.traced(run, hvd) as phases:
        # Every worker's `fit` gets rows of its own.
        network.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    run.finish(examples=fit.count_examples(network), phases=phases)


if __name__ == "__main__":
    exit_with_one_line(main)
