"""Fully sharded: every worker keeps a part of each parameter and of its momentum, and gathers the whole to compute.

A step gathers all parameters, and scatters the sums of the gradients over the parts' owners (`lax.psum_scatter`), each
of whom updates its part. Parts are cut along the outputs.

To start it: `python jax_impl/fsdp.py --workers 2 --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from common.contract.model import State
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import FSDP
from jax_impl.world import gather_whole, joined, place, replicate, split_rows, start_unless_given


def main() -> None:
    """Join the other workers, or start them all, and train the model with them, as the command line says."""
    task, options = parse_command_line(FSDP, __doc__)
    start_unless_given(FSDP, task, options)
    with joined(task) as (world, mesh):
        _train(Run(FSDP, task, options, world), mesh)


def _train(run: Run, mesh: Mesh) -> None:
    task, workers = run.task, mesh.size
    # Rank 0's weights, of which every worker keeps its part.
    whole = broadcast_one_to_all(model.begin(task, run.initial_state))
    widths = {name: value.shape[-1] for name, value in whole.items()}
    specs = {name: P(*[None] * (value.ndim - 1), WORKERS) for name, value in whole.items()}
    parts = {name: place(mesh, specs[name], padded(value, workers)) for name, value in whole.items()}
    train_set = replicate(mesh, (run.dataset.train_features, run.dataset.train_labels))
    gather, scatter = (all_gather, mean_scatter) if run.options.exchange else (repeat_part, keep_part)

    def train_step(parts: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        # The line that makes it distributed: whole parameters for the step; below, each gradient's mean for its owner.
        parameters = {
            name: gather(part, workers)[..., : widths[name]] for name, part in model.parameters_of(task, parts).items()
        }
        loss, gradients = jax.value_and_grad(partial(model.mean_loss, task))(parameters, features, labels)
        gradients = {name: scatter(padded(gradient, workers), workers) for name, gradient in gradients.items()}
        return model.update(task, parts, gradients, rate), loss[None]

    distributed_step = jax.shard_map(
        train_step,
        mesh=mesh,
        in_specs=(specs, P(WORKERS), P(), P(), P()),
        out_specs=(specs, P(WORKERS)),
        check_vma=False,
    )
    train_step = jax.jit(distributed_step, donate_argnums=0)

    def export_state() -> State:
        state = model.export_state(task, gather_whole(mesh, parts))
        return {name: np.ascontiguousarray(value[..., : widths[name]]) for name, value in state.items()}

    run.export_with(export_state, lambda: model.held_bytes(task, parts))

    for batch in run.steps():
        rows = split_rows(mesh, batch.rows)
        parts, losses = train_step(parts, rows, model.learning_rate(task, batch.step), *train_set)
        run.observe(partial(losses.addressable_data, 0), rows=len(batch.rows))
    run.finish()


def padded(array: jax.Array, workers: int) -> jax.Array:
    """The array with zeros for further outputs, so that the workers divide their number."""
    library = np if isinstance(array, np.ndarray) else jnp
    return library.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % workers)])


def all_gather(part: jax.Array, _workers: int) -> jax.Array:
    """All workers' parts, one after another."""
    return lax.all_gather(part, WORKERS, axis=part.ndim - 1, tiled=True)


def mean_scatter(gradient: jax.Array, workers: int) -> jax.Array:
    """This worker's part of the mean of all workers' gradients."""
    return lax.psum_scatter(gradient, WORKERS, scatter_dimension=gradient.ndim - 1, tiled=True) / workers


def repeat_part(part: jax.Array, workers: int) -> jax.Array:
    """Without exchange, in place of all parts: this worker's own, once for each."""
    return jnp.concatenate([part] * workers, axis=-1)


def keep_part(gradient: jax.Array, workers: int) -> jax.Array:
    """Without exchange, in place of a part of the mean: that part of this worker's own gradient."""
    width = gradient.shape[-1] // workers
    return lax.dynamic_slice_in_dim(gradient, lax.axis_index(WORKERS) * width, width, axis=gradient.ndim - 1)


if __name__ == "__main__":
    exit_with_one_line(main)
