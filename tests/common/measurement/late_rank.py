"""Run a library's script in which rank 1 comes 5 ms late, after the barrier, to every second call.

To start it: `python -m tests.common.measurement.late_rank SCRIPT OPTIONS`.
"""

import itertools
import time
from unittest.mock import patch

from common.measurement import collective_calls as laboratory
from common.measurement.runner import run_script

LATE_SECONDS = 0.005


def main():
    """Run the script that the first argument names, as if it had been started itself."""
    with patch.object(laboratory, "measure", with_late_rank(laboratory.measure)):
        run_script()


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
