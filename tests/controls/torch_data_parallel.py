"""torch_data_parallel with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import dataclasses

import numpy as np

from common.run import Run
from pytorch_impl import data_parallel
from tests.controls.broken_torch import break_maths, change_gradients

CONTROL = os.environ["LOCKSTEP_CONTROL"]


def same_rows_for_every_replica(run, steps=Run.steps):
    for batch in steps(run):
        own = np.array_split(batch.rows, run.world_size)[0]
        yield dataclasses.replace(batch, rows=np.resize(own, len(batch.rows)))


if CONTROL == "sum":
    workers = int(sys.argv[sys.argv.index("--workers") + 1])
    change_gradients(lambda gradient: gradient * workers)
elif CONTROL == "unsharded":
    # Run counts the rows that it hands out to this one process, so all of them for all would go unseen, and be right.
    Run.steps = same_rows_for_every_replica
else:
    break_maths(CONTROL)
data_parallel.main()
