"""Any strategy, trained on one task after another in a world that is joined once, each with what is broken for it.

Joining a world takes seconds of every process, and training one of the contract's tasks hardly one. The script that
LOCKSTEP_SCRIPT names is run with the arguments of this one; once its `_train` has trained the task that they say, it is
called again, with a fresh Run, for each of LOCKSTEP_CASES: a list of arguments, and the name of a control or none. A
case that the run itself stops leaves why beside its record, in a file whose name ends in `.failed`.
"""

import importlib
import json
import os
import runpy
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from common import errors
from common.contract.task import parse_command_line
from common.measurement.run import Run
from tests.controls import generic


def breaking(control, strategy, names):
    """The context in which this is broken; `names` are those of the strategy's script, where it finds what it calls."""
    if not control:
        return nullcontext()
    if control in generic.CONTROLS:
        return generic.CONTROLS[control]()
    return importlib.import_module(f"tests.controls.{strategy.name}").CONTROLS[control](names)


def train_all(train, run, *others):
    """Train the run's own task, then the others, with all that it was trained with."""
    names = train.__globals__
    train(run, *others)
    for case in json.loads(os.environ["LOCKSTEP_CASES"]):
        with breaking(case["control"], run.strategy, names):
            task, options = parse_command_line(run.strategy, __doc__, case["arguments"])
            try:
                train(Run(run.strategy, task, options, run.world), *others)
            except errors.LaunchFailedError as error:
                task.record.with_suffix(".failed").write_text(str(error))


def exit_after_all(main, exit_with_one_line=errors.exit_with_one_line):
    """What a script calls last, with its `main`: the training function is another one by then."""
    if train := main.__globals__.get("_train"):
        main.__globals__["_train"] = partial(train_all, train)
    exit_with_one_line(main)


if __name__ == "__main__":
    errors.exit_with_one_line = exit_after_all
    runpy.run_path(os.environ["LOCKSTEP_SCRIPT"], run_name="__main__")
