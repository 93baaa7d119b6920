"""One process per worker, each with a whole replica; MPI averages the gradients after backward.

To start it: `mpirun -np 2 python numpy_impl/data_parallel.py --preset digits`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

import numpy as np

from common.contract import model
from common.declarations.arguments import check_world_size, parse_command_line
from common.errors import exit_with_one_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from numpy_impl.strategies import DATA_PARALLEL


def main() -> None:
    """Join the world that mpirun started and train the model in it, as the command line says."""
    task, options = parse_command_line(DATA_PARALLEL, __doc__)
    from mpi4py import MPI  # Starts MPI.

    workers = MPI.COMM_WORLD
    check_world_size(task, workers.size, "mpirun")
    os.sched_setaffinity(0, set().union(*workers.allgather(os.sched_getaffinity(0))))
    world = World(
        pinning=machine.pin(task, workers.rank, workers.size),
        rank=workers.rank,
        size=workers.size,
        backend="mpi",
        all_gather=workers.allgather,
    )
    _train(Run(DATA_PARALLEL, task, options, world), workers)


def _train(run: Run, workers) -> None:
    state = {name: workers.bcast(value) for name, value in run.initial_state.items()}
    run.export_with(lambda: dict(state))

    for batch in run.steps():
        computed = model.loss_and_gradients(run.task, state, batch.features, batch.labels)
        gradients = computed.gradients
        if run.options.exchange:
            # The line that makes it distributed: every gradient is averaged over all workers.
            names = reversed(gradients) if run.options.last_first else gradients
            gradients = {name: workers.allreduce(gradients[name]) / np.float32(workers.size) for name in names}
        model.update(run.task, state, gradients, batch.step)
        run.observe(computed.loss, rows=len(batch.labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
