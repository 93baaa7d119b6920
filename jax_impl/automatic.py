"""Data parallelism left to the compiler: the single-process step, on arrays that are spread over the workers.

The step is written for the whole batch. `NamedSharding` says that every worker has a part of the rows and all of the
state, and XLA inserts the exchange of the gradients that this takes.

To start it: `python jax_impl/automatic.py --workers 2 --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import jax
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import AUTOMATIC
from jax_impl.world import joined, replicate, split_rows, start_unless_given


def main() -> None:
    """Join the other workers, or start them all, and train the model with them, as the command line says."""
    task, options = parse_command_line(AUTOMATIC, __doc__)
    start_unless_given(AUTOMATIC, task, options)
    with joined(task) as (world, mesh):
        _train(Run(AUTOMATIC, task, options, world), mesh)


def _train(run: Run, mesh: Mesh) -> None:
    task = run.task
    state = broadcast_one_to_all(model.begin(task, run.initial_state))
    if not run.options.exchange:
        # The compiler can't be told to leave the exchange out. So the same program runs on each worker for itself.
        mesh = Mesh(mesh.local_devices, (WORKERS,))
    state = replicate(mesh, state)
    train_set = replicate(mesh, (run.dataset.train_features, run.dataset.train_labels))

    def train_step(state: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)

        def mean_loss(parameters: model.Arrays) -> tuple[jax.Array, jax.Array]:
            losses = model.row_losses(model.forward(task, parameters, features), labels)
            return losses.mean(), losses.reshape(mesh.size, -1).mean(axis=1)

        gradients, shard_losses = jax.grad(mean_loss, has_aux=True)(model.parameters_of(task, state))
        return model.update(task, state, gradients, rate), shard_losses

    # The line that makes it distributed: the state after the step is whole on every worker again, though each of them
    # has a part of the rows. Each shard's loss stays where its rows are. The state's memory is reused.
    whole, parts = NamedSharding(mesh, P()), NamedSharding(mesh, P(WORKERS))
    train_step = jax.jit(train_step, out_shardings=(whole, parts), donate_argnums=0)
    run.export_with(lambda: model.export_state(task, state), lambda: model.held_bytes(task, state))

    for batch in run.steps():
        rows = split_rows(mesh, batch.rows)
        state, losses = train_step(state, rows, model.learning_rate(task, batch.step), *train_set)
        run.observe(partial(losses.addressable_data, 0), rows=len(batch.rows))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
