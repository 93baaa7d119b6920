"""Any strategy, trained on one task after another in a world that is joined once, each with what is broken for it.

Joining a world takes seconds of every process, and training one of the contract's tasks hardly one. Once a strategy's
`_train` has trained the task of its command line, it is called again, with a fresh Run, for each of LOCKSTEP_CASES: a
list of arguments, and the name of a control or none. A case that the run itself stops leaves why beside its record, in
a file whose name ends in `.failed`. `joined/sitecustomize.py` puts this into the script.
"""

import importlib
import json
import os
from contextlib import nullcontext
from pathlib import Path

from common import errors
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from tests.controls import generic


def breaking(control, strategy, names):
    """The context in which this is broken; `names` are those of the strategy's script, where it finds what it calls."""
    if not control:
        return nullcontext()
    if control in generic.CONTROLS:
        return generic.CONTROLS[control]()
    module = importlib.import_module(f"tests.controls.{Path(strategy.script).parts[0]}")
    return module.CONTROLS[strategy.name][control](names)


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
