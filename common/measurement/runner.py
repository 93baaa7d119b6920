"""What a runner does: a module that a launch starts in place of a script, and that changes what the script calls."""

import runpy
import sys
from pathlib import Path


def run_script() -> None:
    """Run the script that this process's first argument names, with those that follow, as if it had been started
    itself.
    """
    del sys.argv[0]
    runpy.run_path(str(Path(sys.argv[0]).resolve()), run_name="__main__")
