"""MultiWorkerMirroredStrategy: one process per worker, each with all variables; collectives sum the gradients.

The collectives are TensorFlow's ring over gRPC, on GPUs NCCL. TensorFlow has no launcher: without a cluster in
TF_CONFIG, or a step of Slurm around it, this program starts its `--workers` itself.

To start it: `python tf_impl/multi_worker_mirrored.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework
from tf_impl.cluster import start_unless_given
from tf_impl.strategies import MULTI_WORKER_MIRRORED

if __name__ == "__main__":
    require_framework("tensorflow")
    # TensorFlow isn't imported yet: a process that only starts the others doesn't need it.
    exit_with_one_line(lambda: start_unless_given(MULTI_WORKER_MIRRORED, __doc__))

import tensorflow as tf

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from tf_impl import inputs, model, world


def main() -> None:
    """Train the model as one worker of the cluster that TF_CONFIG or Slurm names."""
    task, options = parse_command_line(MULTI_WORKER_MIRRORED, __doc__)
    with world.joined(task) as (cluster_world, strategy):
        _train(Run(MULTI_WORKER_MIRRORED, task, options, cluster_world), strategy)


def _train(run: Run, strategy: tf.distribute.Strategy) -> None:
    task, options = run.task, run.options
    with strategy.scope():
        variables = model.create_variables(task, run.initial_state)
    load = inputs.loader(run, strategy)

    def forward_backward(features: tf.Tensor, labels: tf.Tensor) -> tuple:
        return model.loss_and_gradients(task, variables, features, labels, run.global_batch, options.jit_compile)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features, labels = load(rows)
        loss, gradients = strategy.run(forward_backward, args=(features, labels))
        if options.exchange:
            pairs = list(zip(gradients, variables.parameters, strict=True))
            # The line that makes it distributed: each worker gets the sums of all workers' gradients for its own.
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        model.apply_sgd(task, variables, gradients, learning_rate, strategy)
        return model.shard_losses(strategy, loss), model.count_rows(strategy, labels)

    train_steps = model.compile_steps(task, options.steps_per_call, train_step)
    run.export_with(
        lambda: model.export_state(task, variables),
        lambda: model.held_bytes(variables, strategy),
        lambda: model.export_replicas(task, variables),
    )

    for batches in run.grouped_steps(options.steps_per_call):
        losses, rows = train_steps(batches)
        run.observe(losses, rows, steps=len(batches))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
