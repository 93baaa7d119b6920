"""One process with a device for each worker: `shard_map` over its devices, the mean of the gradients by `lax.pmean`.

Without GPUs the devices are parts of the CPU (`jax_num_cpu_devices`), which exchange in the memory that they share.

To start it: `python jax_impl/devices.py --workers 4 --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import DEVICES
from jax_impl.world import replicate, world_of_devices


def main() -> None:
    """Train the model on `--workers` devices of this process, as the command line says."""
    task, options = parse_command_line(DEVICES, __doc__)
    world, mesh = world_of_devices(task)
    _train(Run(DEVICES, task, options, world), mesh)


def _train(run: Run, mesh: Mesh) -> None:
    task, options = run.task, run.options
    parts = NamedSharding(mesh, P(WORKERS))
    state = replicate(mesh, model.begin(task, run.initial_state))
    train_set = replicate(mesh, (run.dataset.train_features, run.dataset.train_labels))

    def train_step(state: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        compute = jax.value_and_grad(partial(model.mean_loss, task))
        loss, gradients = compute(model.parameters_of(task, state), features, labels)
        if options.exchange:
            # The line that makes it distributed: without it each device steps by its own gradients.
            gradients = average(gradients)
        return model.update(task, state, gradients, rate), loss[None]

    # As in data_parallel.py, whose workers are processes.
    distributed_step = jax.shard_map(
        train_step,
        mesh=mesh,
        in_specs=(P(), P(WORKERS), P(), P(), P()),
        out_specs=(P(), P(WORKERS)),
        check_vma=False,
    )
    train_step = jax.jit(distributed_step, donate_argnums=0)
    run.export_with(
        lambda: model.export_state(task, state),
        lambda: model.held_bytes(task, state),
        lambda: [model.export_state(task, state, replica) for replica in range(mesh.size)],
    )

    for batch in run.steps():
        # A copy of the rows' numbers, since JAX may read NumPy's memory later.
        rows = jax.device_put(batch.rows.astype(np.int32), parts)
        state, losses = train_step(state, rows, model.learning_rate(task, batch.step), *train_set)
        run.observe(losses, rows=len(batch.rows))
    run.finish()


def average(gradients: model.Arrays) -> model.Arrays:
    """The mean of each gradient over all devices, which have equally many rows."""
    return lax.pmean(gradients, WORKERS)


if __name__ == "__main__":
    exit_with_one_line(main)
