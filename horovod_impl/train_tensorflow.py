"""Horovod for TensorFlow: one process per worker; the gradient tape averages every gradient over all workers.

A step is one tf.function, and the exchange is a part of its graph: each gradient leaves as soon as it is computed.

To start it: `horovodrun -np 4 python horovod_impl/train_tensorflow.py --preset digits`.
"""

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

from common import machine
from common.config import Config, check_world_size, parse_command_line
from common.run import Run
from horovod_impl import tensorflow_inputs as inputs
from horovod_impl import tensorflow_model as contract


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the MLP in it, as the command line says."""
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
        strategy="horovod_tensorflow",
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


def _train(config: Config, run: Run, one_device: tf.distribute.Strategy) -> None:
    with one_device.scope():
        variables = contract.create_variables(config, run.initial_state)
    take = inputs.prepare(run, one_device)

    def mean_loss(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = contract.forward(config, variables.parameters, features)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    if config.jit_compile:
        # The gradient of what XLA compiles is compiled by XLA as well. The exchange stays outside: this build of
        # Horovod has no operation for XLA.
        mean_loss = tf.function(mean_loss, jit_compile=True, autograph=False)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        features, labels = take(rows)
        with tf.GradientTape() as tape:
            loss = mean_loss(features, labels)
        if config.exchange:
            # 3. Wrap the tape. The line that makes it distributed: gradient() returns the averages over all workers.
            tape = hvd.DistributedGradientTape(
                tape,
                compression=hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none,
                op=hvd.Adasum if config.adasum else hvd.Average,
            )
        gradients = tape.gradient(loss, variables.parameters)
        contract.apply_sgd(config, variables, gradients, learning_rate, one_device)
        return loss

    # 4. Broadcast parameters and optimizer state from rank 0.
    hvd.broadcast_variables([*variables.parameters, *variables.momenta], root_rank=0)

    train_steps = contract.compile_steps(config, train_step)
    with world.traced(run, hvd) as facts:
        for batches in run.calls():
            losses = train_steps(batches)
            if config.check_replicas:
                # Of the steps in one call only what the last one left can be seen.
                run.check_replicas(contract.export_state(config, variables), steps=len(batches))
            run.observe(losses, steps=len(batches))
            # 5. Checkpoint on rank 0 alone: the others pass through.
            if run.checkpoint_due:
                run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables), contract.held_bytes(variables, one_device), **facts)


if __name__ == "__main__":
    exit_with_one_line(main)
