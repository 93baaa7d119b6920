"""tf_parameter_server with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import dataclasses
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np

from common import cluster
from common.run import Run
from tests.controls.broken_tensorflow import break_maths
from tf_impl import parameter_server


def whole_batch_for_every_worker(run, steps=Run.steps):
    for batch in steps(run):
        yield dataclasses.replace(batch, rows=np.tile(batch.rows, run.world_size))


cluster.start_unless_given("tf_parameter_server", __doc__)
if os.environ["LOCKSTEP_CONTROL"] == "unsharded":
    Run.steps = whole_batch_for_every_worker
else:
    break_maths(os.environ["LOCKSTEP_CONTROL"])
parameter_server.main()
