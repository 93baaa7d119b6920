"""What a runner does: a module that a launch starts in place of a script, and that changes what the script calls."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from common.measurement.run import Run
from common.records.files import write_record
from common.records.trace import Trace, trace_path


def run_script() -> None:
    """Run the script that this process's first argument names, with those that follow, as if it had been started
    itself.
    """
    del sys.argv[0]
    runpy.run_path(str(Path(sys.argv[0]).resolve()), run_name="__main__")


def writing_the_trace(observe: Callable[..., None], trace_of: Callable[[Run], Trace]) -> Callable[..., None]:
    """A `Run.observe` before which rank 0, in the first step, writes the messages of a step beside the record."""
    written = False

    def trace_and_observe(run: Run, *arguments: object, **named: object) -> None:
        nonlocal written
        if run.world.rank == 0 and not written:
            write_record(trace_path(run.record_path), trace_of(run))
            written = True
        observe(run, *arguments, **named)

    return trace_and_observe
