"""Which fusion threshold and cycle time serve the MLP best under Horovod, and which controller, by measurement.

Every round launches every setting of `horovod_torch` once on pathway with two workers, in shuffled order, so that all
of them meet the same machine.

To start it: `.nox/tools/bin/python -m tests.benchmarks.horovod_settings --launches 6`.
"""

import dataclasses
import itertools
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.declarations.strategy import Options, label
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.executor import run_planned
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.records import metrics
from common.statistics.intervals import median_interval

STRATEGY, WORKERS = find("horovod_torch"), 2

TASK = dataclasses.replace(
    PRESETS["pathway"], scaling="weak", workers=WORKERS, steps=1000, warmup_steps=100, window_steps=25
)

SETTINGS = [
    STRATEGY.options(backend=backend, fusion_megabytes=fusion, cycle_milliseconds=cycle)
    for backend, fusion, cycle in itertools.product(("auto", "mpi"), (None, 0.0, 0.5), (None, 0.0, 0.1, 0.3, 3.0))
]
"""Gloo's and MPI's controller, with Horovod's own threshold of 128 MB and cycle of 1 ms, and with others."""


@dataclass(frozen=True)
class Arguments:
    """Measure Horovod's settings."""

    launches: int = 6
    """Rounds."""


def main() -> None:
    """Measure every setting in shuffled rounds; print milliseconds per step and the ratio to Horovod's own setting."""
    arguments, console, order = tyro.cli(Arguments, description=__doc__), Console(width=140), random.Random(0)
    seconds: dict[Options, list[float]] = {setting: [] for setting in SETTINGS}
    with machine.alone():
        for number in range(arguments.launches):
            for setting in order.sample(SETTINGS, len(SETTINGS)):
                seconds[setting].append(measure(setting))
            console.print(f"round {number + 1} of {arguments.launches} done")
    table = Table("setting", "n", "ms per step", "95 % interval", "samples/s over Gloo's own setting", "95 % interval")
    for setting in sorted(SETTINGS, key=lambda each: statistics.median(seconds[each])):
        ratios = [first / own for first, own in zip(seconds[SETTINGS[0]], seconds[setting], strict=True)]
        own = [1000 * value for value in seconds[setting]]
        table.add_row(label(setting) or "Horovod's own", str(len(own)), *in_words(own), *in_words(ratios))
    console.print(table)


def in_words(values: list[float]) -> tuple[str, str]:
    """The median and its interval, which needs six values."""
    found = median_interval(values)
    interval = "needs 6" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
    return f"{found.median:.3f}", interval


def measure(options: Options) -> float:
    """Seconds per step of one launch. Raises LaunchFailedError when it fails."""
    planned = PlannedLaunch(STRATEGY, WORKERS, "throughput", 1, TASK, options)
    with tempfile.TemporaryDirectory() as folder:
        record = run_planned(planned, Path(folder))
    if record.status != "ok":
        raise LaunchFailedError(f"{planned.name} {record.status}: {record.reason}")
    return metrics.throughput(record).seconds_per_step


if __name__ == "__main__":
    exit_with_one_line(main)
