"""Run a library's script in which rank 1 comes 5 ms late, after the barrier, to every second call.

To start it: `python -m tests.common.laboratory.late_rank SCRIPT OPTIONS`.
"""

import itertools
import runpy
import sys
import time
from pathlib import Path
from unittest.mock import patch

from common.laboratory import measure as laboratory

LATE_SECONDS = 0.005


def main():
    """Run the script that the first argument names, as if it had been started itself."""
    del sys.argv[0]
    with patch.object(laboratory, "measure", with_late_rank(laboratory.measure)):
        runpy.run_path(str(Path(sys.argv[0]).resolve()), run_name="__main__")


def with_late_rank(measure):
    """`measure`, whose barrier holds rank 1 for longer than the others before every second call."""

    def measured(library, sweep, world, prepare, barrier, facts):
        calls = itertools.count()

        def late():
            barrier()
            if next(calls) % 2 and world.rank == 1:
                time.sleep(LATE_SECONDS)

        measure(library, sweep, world, prepare, late, facts)

    return measured


if __name__ == "__main__":
    main()
