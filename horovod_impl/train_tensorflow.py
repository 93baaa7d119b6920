"""Horovod for TensorFlow: one process per worker; the gradient tape averages every gradient over all workers.

A step is one tf.function, and the exchange is a part of its graph: each gradient leaves as soon as it is computed.

To start it: `horovodrun -np 4 python horovod_impl/train_tensorflow.py --preset digits`.
"""

import dataclasses
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line
from horovod_impl import world

if __name__ == "__main__":
    world.require_horovod("tensorflow")

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.common.elastic import ObjectState

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from horovod_impl.strategies import TENSORFLOW
from tf_impl import inputs, model


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the model in it, as the command line says."""
    task, options = parse_command_line(TENSORFLOW, __doc__)
    world.prepare(task, options)
    # 1. Initialise Horovod: from here on every process knows its rank and its peers.
    with world.one_line_when_nobody_answers():
        hvd.init()
    # 2. Pin one GPU per process by local rank, where there are GPUs. This must precede TensorFlow's first operation,
    # which may be in the next line.
    devices = model.choose_devices(task, 1, hvd.local_rank(), hvd.local_size())
    synchronize = tf.test.experimental.sync_devices
    options, horovod_world = world.join(hvd, task, options, model.device_name(devices), synchronize)

    one_device = tf.distribute.OneDeviceStrategy(devices[0])

    def train(committed: ObjectState) -> None:
        # Elastic workers may have another rank by now, and be fewer or more.
        joined = dataclasses.replace(horovod_world, rank=hvd.rank(), size=hvd.size())
        _train(Run(TENSORFLOW, task, options, joined, committed.checkpoint), one_device, committed)

    # The line that makes it elastic: when a worker was lost or has come, training begins again, from what is committed.
    begin = hvd.elastic.run(train) if options.commit_steps else train
    # A lost worker ends an operation on the others with one of these errors: at once, or after Horovod has stopped.
    with world.one_line_when_it_breaks(tf.errors.UnknownError, tf.errors.AbortedError):
        begin(world.committed(hvd))
    hvd.shutdown()


def _train(run: Run, one_device: tf.distribute.Strategy, committed: ObjectState) -> None:
    task, options = run.task, run.options
    with one_device.scope():
        variables = model.create_variables(task, run.initial_state)
    load = inputs.loader(run, one_device)

    def mean_loss(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = model.forward(task, variables.parameters, features)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    if options.jit_compile:
        # XLA also compiles the gradient of a compiled function. The exchange stays outside: this build of Horovod has
        # no operation for XLA.
        mean_loss = tf.function(mean_loss, jit_compile=True, autograph=False)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features, labels = load(rows)
        with tf.GradientTape() as tape:
            loss = mean_loss(features, labels)
        if options.exchange:
            # 3. Wrap the tape. The line that makes it distributed: gradient() returns the averages over all workers,
            # where the bare one returns this worker's own gradients.
            tape = hvd.DistributedGradientTape(
                tape,
                compression=hvd.Compression.fp16 if options.compression == "fp16" else hvd.Compression.none,
                op=hvd.Adasum if options.adasum else hvd.Average,
            )
        gradients = tape.gradient(loss, variables.parameters)
        model.apply_sgd(task, variables, gradients, learning_rate, one_device)
        return loss, tf.shape(labels)[0]

    # 4. Broadcast parameters and optimizer state from rank 0.
    hvd.broadcast_variables([*variables.parameters, *variables.momenta], root_rank=0)

    train_steps = model.compile_steps(task, options.steps_per_call, train_step)
    # 5. Checkpoint on rank 0 alone, which the run does.
    run.export_with(partial(model.export_state, task, variables), lambda: model.held_bytes(variables, one_device))

    with world.traced(run, hvd) as phases:
        for batches in run.grouped_steps(options.steps_per_call):
            losses, rows = train_steps(batches)
            run.observe(losses, rows, steps=len(batches))
            world.commit(committed, run, batches[-1].step + 1)
    run.finish(phases=phases)


if __name__ == "__main__":
    exit_with_one_line(main)
