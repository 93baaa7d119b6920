"""Has a strategy's script train the cases of LOCKSTEP_CASES after its own task (`tests/controls/several.py`).

Python imports a module of this name when it starts, where PYTHONPATH names this folder: so the command that joins the
world is a user's own.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from common import errors


def exit_after_all(main, exit_with_one_line=errors.exit_with_one_line):
    """What a script calls last, with its `main`: the training function is another one by then."""
    if train := main.__globals__.get("_train"):
        from tests.controls.several import train_all

        main.__globals__["_train"] = partial(train_all, train)
    exit_with_one_line(main)


errors.exit_with_one_line = exit_after_all
