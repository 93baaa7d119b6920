"""What reading beside a clocked window costs: everything that is read there, and the processor time alone.

To start it: `.nox/tools/bin/python -m tests.benchmarks.window_readings`. None of it is in any window's time, and
nothing is read while one lasts: what it takes, it takes from the run as a whole.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.table import Table

from common.measurement import machine
from common.measurement.disturbance import Meter
from common.records.training import Window
from common.statistics.intervals import median_interval


@dataclass(frozen=True)
class Arguments:
    """Measure what reading beside a window costs."""

    readings: int = 2_000
    """How often each is measured."""
    steps: int = 50
    """Steps of the window that a reading is set beside."""
    step_milliseconds: float = 1.0
    """What one of them takes."""


def main() -> None:
    """Measure and print each kind of reading, and its share of the window."""
    arguments = tyro.cli(Arguments, description=__doc__)
    window = arguments.steps * arguments.step_milliseconds / 1000
    table = Table("read before and after a window", "n", "µs", "95 % interval", f"of {1000 * window:g} ms")
    with machine.alone():
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [core])
        meter = Meter([core])
        clocked = Window(rank=0, step=0, steps=arguments.steps, seconds=window)
        readings = {"everything": lambda: (meter.start(), meter.stop(clocked)), "processor time": _processor}
        for name, read in readings.items():
            interval = median_interval([1e6 * seconds_of(read) for _ in range(arguments.readings)])
            cells = [f"{interval.median:.2f}", f"{interval.low:.2f} to {interval.high:.2f}"]
            table.add_row(name, str(interval.n), *cells, f"{interval.median / 1e6 / window:.4%}")
    Console(width=100).print(table)


def seconds_of(read: Callable[[], object]) -> float:
    """What one call takes."""
    started = time.perf_counter()
    read()
    return time.perf_counter() - started


def _processor() -> None:
    time.process_time()
    time.process_time()


if __name__ == "__main__":
    main()
