"""`common.launch`, but that in place of the strategy's script `several.py` trains with it on several cases."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from common import launch
from common.errors import exit_with_one_line


def prepare(arguments, prepare=launch.prepare):
    """What the launcher prepares, with the other script in the command."""
    strategy, task, command = prepare(arguments)
    os.environ["LOCKSTEP_SCRIPT"] = strategy.script
    return strategy, task, ["tests/controls/several.py" if part == strategy.script else part for part in command]


if __name__ == "__main__":
    launch.prepare = prepare
    exit_with_one_line(launch.main)
