"""Any strategy, trained on one task after another in a world that is joined once.

Joining a world takes seconds of every process, and training one of the contract's tasks hardly one. The script that
LOCKSTEP_SCRIPT names is run with the arguments of this one; once its `_train` has trained the task that they say, it is
called again, with a fresh Run, for each list of arguments in LOCKSTEP_TASKS.
"""

import json
import os
import runpy
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from common import errors
from common.contract.task import parse_command_line
from common.measurement.run import Run


def train_all(train, run, *others):
    """Train the run's own task, then the others with all that it was trained with."""
    train(run, *others)
    for arguments in json.loads(os.environ["LOCKSTEP_TASKS"]):
        task, options = parse_command_line(run.strategy, __doc__, arguments)
        train(Run(run.strategy, task, options, run.world), *others)


def exit_after_all(main, exit_with_one_line=errors.exit_with_one_line):
    """What a script calls last, with its `main`: the training function is another one by then."""
    if train := main.__globals__.get("_train"):
        main.__globals__["_train"] = partial(train_all, train)
    exit_with_one_line(main)


if __name__ == "__main__":
    errors.exit_with_one_line = exit_after_all
    runpy.run_path(os.environ["LOCKSTEP_SCRIPT"], run_name="__main__")
