"""One process, no distribution: the baseline of every speed-up of JAX's strategies.

To start it: `python jax_impl/single.py --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import jax

from common.declarations.arguments import check_world_size, parse_command_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from jax_impl import model
from jax_impl.strategies import SINGLE


def main() -> None:
    """Train the model in this process, as the command line says."""
    task, options = parse_command_line(SINGLE, __doc__)
    check_world_size(task, 1, SINGLE.name)
    pinning = machine.pin(task)
    world = World(pinning=pinning, device=model.choose_devices(task), synchronize=model.synchronize)
    _train(Run(SINGLE, task, options, world))


def _train(run: Run) -> None:
    task = run.task
    state = jax.tree.map(jax.numpy.array, model.begin(task, run.initial_state))
    train_features, train_labels = jax.device_put((run.dataset.train_features, run.dataset.train_labels))

    # The state's memory is reused for the state after the step.
    @partial(jax.jit, donate_argnums=0)
    def train_step(state: model.Arrays, rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        compute = jax.value_and_grad(partial(model.mean_loss, task))
        loss, gradients = compute(model.parameters_of(task, state), features, labels)
        return model.update(task, state, gradients, rate), loss

    run.export_with(lambda: model.export_state(task, state), lambda: model.held_bytes(task, state))

    for batch in run.steps():
        # JAX may read the memory of NumPy's arrays later, so it gets the rows' numbers alone, which nothing overwrites.
        state, loss = train_step(state, batch.rows, model.learning_rate(task, batch.step), train_features, train_labels)
        run.observe(loss, rows=len(batch.rows))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
