"""Data parallelism by hand: one process per worker, `shard_map` over them, the mean of the gradients by `lax.pmean`.

What `shard_map` wraps is what one worker computes, with its own rows and its own copy of the state. `lax.pmean` of all
gradients is one all-reduce for each array; with `--one-buffer` it is one for all, which waits for the others only once.

To start it: `python jax_impl/data_parallel.py --workers 2 --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import jax
from jax import lax
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import DATA_PARALLEL
from jax_impl.world import joined, replicate, split_rows, start_unless_given


def main() -> None:
    """Join the other workers, or start them all, and train the model with them, as the command line says."""
    task, options = parse_command_line(DATA_PARALLEL, __doc__)
    start_unless_given(DATA_PARALLEL, task, options)
    with joined(task) as (world, mesh):
        _train(Run(DATA_PARALLEL, task, options, world), mesh)


def _train(run: Run, mesh: Mesh) -> None:
    task, options = run.task, run.options
    # Rank 0's weights, on every worker.
    state = replicate(mesh, broadcast_one_to_all(model.begin(task, run.initial_state)))
    train_set = replicate(mesh, (run.dataset.train_features, run.dataset.train_labels))

    def train_step(state: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        compute = jax.value_and_grad(partial(model.mean_loss, task))
        loss, gradients = compute(model.parameters_of(task, state), features, labels)
        if options.exchange:
            # The line that makes it distributed: without it each worker steps by its own gradients.
            gradients = average_in_one_buffer(gradients) if options.one_buffer else average(gradients)
        return model.update(task, state, gradients, rate), loss[None]

    # The state is whole on every worker (P()), rows and losses are one part each (P(WORKERS)). With `check_vma` JAX
    # would sum the gradients by itself, and refuse states that differ, as they do without exchange.
    distributed_step = jax.shard_map(
        train_step,
        mesh=mesh,
        in_specs=(P(), P(WORKERS), P(), P(), P()),
        out_specs=(P(), P(WORKERS)),
        check_vma=False,
    )
    # The state's memory is reused for the state after the step.
    train_step = jax.jit(distributed_step, donate_argnums=0)
    run.export_with(lambda: model.export_state(task, state), lambda: model.held_bytes(task, state))

    for batch in run.steps():
        rows = split_rows(mesh, batch.rows)
        state, losses = train_step(state, rows, model.learning_rate(task, batch.step), *train_set)
        run.observe(partial(losses.addressable_data, 0), rows=len(batch.rows))
    run.finish()


def average(gradients: model.Arrays) -> model.Arrays:
    """The mean of each gradient over all workers.

    Each worker's loss is the mean over its rows, and all workers have equally many rows. So the mean of the gradients
    is the gradient of the mean over the global batch.
    """
    return lax.pmean(gradients, WORKERS)


def average_in_one_buffer(gradients: model.Arrays) -> model.Arrays:
    """The same by a single all-reduce, of all gradients one after another in one array."""
    buffer, unravel = ravel_pytree(gradients)
    return unravel(lax.pmean(buffer, WORKERS))


if __name__ == "__main__":
    exit_with_one_line(main)
