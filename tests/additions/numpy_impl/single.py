"""One process, no distribution: the base that NumPy's other strategies are compared with.

To start it: `python numpy_impl/single.py --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.contract import model
from common.declarations.arguments import check_world_size, parse_command_line
from common.errors import exit_with_one_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from numpy_impl.strategies import SINGLE


def main() -> None:
    """Train the model in this process, as the command line says."""
    task, options = parse_command_line(SINGLE, __doc__)
    check_world_size(task, 1, SINGLE.name)
    _train(Run(SINGLE, task, options, World(pinning=machine.pin(task))))


def _train(run: Run) -> None:
    state = dict(run.initial_state)
    run.export_with(lambda: dict(state))

    for batch in run.steps():
        computed = model.loss_and_gradients(run.task, state, batch.features, batch.labels)
        model.update(run.task, state, computed.gradients, batch.step)
        run.observe(computed.loss, rows=len(batch.labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
