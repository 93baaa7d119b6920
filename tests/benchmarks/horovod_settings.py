"""Which fusion threshold and cycle time serve the MLP best under Horovod, and which controller, by measurement.

Every round launches every setting once, in shuffled order, so that all of them meet the same machine.

To start it: `.nox/tools/bin/python -m tests.benchmarks.horovod_settings --launches 6`.
"""

import dataclasses
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS, Task
from common.declarations.arguments import option_names, to_arguments
from common.declarations.catalogue import find, strategies
from common.declarations.strategy import Options, label, name_of
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.launch import ENDS_WITH
from common.measurement import machine
from common.paths import ROOT
from common.records import metrics
from common.records.files import read_record
from common.records.training import Record
from common.statistics.intervals import median_interval

MEASURED = tuple(name for name, each in strategies().items() if "--fusion-megabytes" in option_names(each.options))
"""The strategies that have these settings."""


@dataclass(frozen=True)
class Arguments:
    """Which settings are measured, on what."""

    strategy: Literal[MEASURED] = MEASURED[0]
    """Strategy to launch."""
    preset: Literal["digits", "pathway", "wide"] = "pathway"
    """Preset to train, in weak scaling."""
    workers: int = 2
    """Number of workers."""
    backend: tuple[Literal["auto", "mpi"], ...] = ("auto", "mpi")
    """Controllers; auto: Gloo."""
    fusion_megabytes: tuple[float | None, ...] = (None, 0.0, 0.5)
    """Fusion thresholds; None: Horovod's own, 128."""
    cycle_milliseconds: tuple[float | None, ...] = (None, 0.0, 0.1, 0.3, 3.0)
    """Cycle times; None: Horovod's own, 1."""
    launches: int = 6
    """Rounds."""


def main() -> None:
    """Measure every setting in shuffled rounds; print milliseconds per step and the ratio to Horovod's own setting."""
    arguments = tyro.cli(Arguments, description=__doc__)
    with machine.alone():
        _measure_all(arguments)


def _measure_all(arguments: Arguments) -> None:
    console = Console(width=140)
    settings = list(itertools.product(arguments.backend, arguments.fusion_megabytes, arguments.cycle_milliseconds))
    seconds: dict[tuple, list[float]] = {setting: [] for setting in settings}
    task, order = task_for(arguments.preset, arguments.workers), random.Random(0)
    for number in range(arguments.launches):
        for setting in order.sample(settings, len(settings)):
            seconds[setting].append(measure(arguments.strategy, task, options_for(arguments.strategy, *setting)))
        console.print(f"round {number + 1} of {arguments.launches} done")
    table = Table("setting", "n", "ms per step", "95 % interval", "samples/s over Gloo's own setting", "95 % interval")
    base = seconds.get(("auto", None, None), seconds[settings[0]])
    for setting in sorted(settings, key=lambda each: statistics.median(seconds[each])):
        name = name_of(arguments.strategy, label(options_for(arguments.strategy, *setting)))
        ratios = [first / own for first, own in zip(base, seconds[setting], strict=True)]
        own = [1000 * value for value in seconds[setting]]
        table.add_row(name, str(len(own)), *in_words(own), *in_words(ratios))
    console.print(table)


def in_words(values: list[float]) -> tuple[str, str]:
    """The median and its interval, which needs six values."""
    found = median_interval(values)
    interval = "needs 6" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
    return f"{found.median:.3f}", interval


def task_for(preset: str, workers: int) -> Task:
    """64 rows per worker on digits and pathway, in 1000 steps; 512 on wide, in its own 30."""
    steps = {} if preset == "wide" else {"steps": 1000, "warmup_steps": 100, "window_steps": 25}
    return dataclasses.replace(PRESETS[preset], scaling="weak", workers=workers, **steps)


def options_for(strategy: str, backend: str, fusion: float | None, cycle: float | None) -> Options:
    """The strategy's options with one of the settings."""
    return find(strategy).options(backend=backend, fusion_megabytes=fusion, cycle_milliseconds=cycle)


def measure(strategy: str, task: Task, options: Options) -> float:
    """Seconds per step of one launch. Raises LaunchFailedError when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.json")
        arguments = [*to_arguments(task, options), "--record", str(path)]
        command = [sys.executable, "-m", "common.launching.launch", strategy, *arguments]
        environment = os.environ | {ENDS_WITH: str(os.getpid())}
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if ended.returncode:
            name = name_of(strategy, label(options))
            raise LaunchFailedError(f"{name} ended with {ended.returncode}: {ended.stderr}")
        return metrics.throughput(read_record(path, Record)).seconds_per_step


if __name__ == "__main__":
    exit_with_one_line(main)
