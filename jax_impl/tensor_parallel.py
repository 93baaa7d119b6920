"""Tensor parallelism: every layer's weights are split over the workers, by its outputs and by its inputs in turn.

A layer split by its outputs gives each worker some of the features. The next layer, split by its inputs, multiplies
them to a partial product. The sum of all workers' partial products is that layer's output (Shoeybi et al.,
"Megatron-LM", 2019, section 3). The sums on the way back are JAX's: `shard_map` knows which values differ by worker.

To start it: `python jax_impl/tensor_parallel.py --workers 2 --preset digits`.
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
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from common.contract.split_layers import split_axis
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import TENSOR_PARALLEL
from jax_impl.world import gather_whole, joined, place, replicate, start_unless_given


def main() -> None:
    """Join the other workers, or start them all, and train the model with them, as the command line says."""
    task, options = parse_command_line(TENSOR_PARALLEL, __doc__)
    start_unless_given(TENSOR_PARALLEL, task, options)
    with joined(task) as (world, mesh):
        _train(Run(TENSOR_PARALLEL, task, options, world), mesh)


def _train(run: Run, mesh: Mesh) -> None:
    task = run.task
    whole = broadcast_one_to_all(model.begin(task, run.initial_state))
    specs = {name: spec_of(task, name) for name in whole}
    parts = {name: place(mesh, specs[name], value) for name, value in whole.items()}
    train_set = replicate(mesh, (run.dataset.train_features, run.dataset.train_labels))

    def train_step(parts: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)

        def mean_loss(parameters: model.Arrays) -> jax.Array:
            return model.row_losses(forward(task, parameters, features), labels).mean()

        loss, gradients = jax.value_and_grad(mean_loss)(model.parameters_of(task, parts))
        return model.update(task, parts, gradients, rate), loss

    distributed_step = jax.shard_map(
        train_step, mesh=mesh, in_specs=(specs, P(), P(), P(), P()), out_specs=(specs, P())
    )
    train_step = jax.jit(distributed_step, donate_argnums=0)
    run.export_with(lambda: model.export_state(task, gather_whole(mesh, parts)), lambda: model.held_bytes(task, parts))

    for batch in run.steps():
        parts, loss = train_step(parts, batch.rows, model.learning_rate(task, batch.step), *train_set)
        run.observe(partial(loss.addressable_data, 0), rows=len(batch.rows))
    run.finish()


def forward(task: Task, parameters: model.Arrays, features: jax.Array) -> jax.Array:
    """Logits, (rows, classes), of features, (rows, inputs), by this worker's parts of the layers."""
    layers = len(task.dimensions) - 1
    activate = jax.nn.relu if task.activation == "relu" else jax.numpy.tanh
    values = features
    if split_axis(0, layers) == 0:
        width = parameters["layer0.weight"].shape[0]
        values = lax.dynamic_slice_in_dim(features, lax.axis_index(WORKERS) * width, width, axis=1)
    for layer in range(layers):
        values = activate(values) if layer else values
        compute = split_by_outputs if split_axis(layer, layers) else split_by_inputs
        values = compute(values, parameters[f"layer{layer}.weight"], parameters.get(f"layer{layer}.bias", 0.0))
    return values


def split_by_outputs(features: jax.Array, weight: jax.Array, bias: jax.Array | float) -> jax.Array:
    """A part of a layer's outputs, computed from all of its inputs."""
    return features @ weight + bias


def split_by_inputs(features: jax.Array, weight: jax.Array, bias: jax.Array | float) -> jax.Array:
    """All of a layer's outputs, computed from a part of its inputs."""
    # The line that makes it distributed: the partial products of all workers are summed.
    return lax.psum(features @ weight, WORKERS) + bias


def spec_of(task: Task, name: str) -> P:
    """How the array of this name is split: a weight along its layer's axis, a bias with the outputs or not at all."""
    layer, kind, *_ = name.removeprefix("layer").split(".")
    axis = split_axis(int(layer), len(task.dimensions) - 1)
    if kind == "weight":
        return P(None, WORKERS) if axis else P(WORKERS, None)
    return P(WORKERS) if axis else P()


if __name__ == "__main__":
    exit_with_one_line(main)
