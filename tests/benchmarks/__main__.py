"""What the harness costs: each strategy against a bare loop of the same framework, in turn, on the same rows.

To start it: `nox -s benchmark`. A ratio is the strategy's samples per second over the bare loop's; a claim holds when
the lower end of its 95 % interval is at least what is claimed. The bare loops are in the files `bare_*.py`.
"""

import dataclasses
import itertools
import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS, Task
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find, strategies
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching import executor
from common.launching.processes import exit_on_signals
from common.measurement import machine
from common.paths import ROOT
from common.statistics.intervals import median_interval
from tests.benchmarks.paired import PAIRS

Pairs = list[tuple[float, float]]

BARE_LOOPS = {
    "bare_torch": ("torch_single", "torch_ddp", "horovod_torch"),
    "bare_tensorflow": ("tf_one_device", "tf_mirrored", "tf_multi_worker_mirrored", "horovod_tensorflow"),
    "bare_keras": ("tf_keras_mirrored", "horovod_keras"),
    "bare_jax": ("jax_single", "jax_data_parallel"),
}
"""The strategies that each file here has a bare loop of."""

FILES = {strategy: file for file, names in BARE_LOOPS.items() for strategy in names}
MEASURED = tuple(name for name in strategies() if name in FILES)

EVERY_PRESET = ("digits", "pathway", "wide", "mnist_lenet", "mnist_cnn", "text_gpt")
PRESETS_OF = {"torch_single": EVERY_PRESET}
"""The presets that a bare loop has the model of, where they aren't pathway, wide and mnist_cnn."""

LEAST = 0.98
"""The ratio that is claimed at least."""


@dataclass(frozen=True)
class Arguments:
    """Measure what the harness costs."""

    strategies: tuple[Literal[MEASURED], ...] = MEASURED
    """Strategies to measure."""
    preset: tuple[Literal[EVERY_PRESET], ...] = ("pathway", "wide")
    """Presets to measure them on."""
    workers: tuple[int, ...] = (1, 2)
    """Numbers of workers."""
    launches: int = 5
    """Launches of each case: where the two loops' tensors lie in memory differs from one to the next."""


def main() -> None:
    """Measure every case in shuffled order and print one row for each."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140)
    exit_on_signals()
    cases = list(itertools.product(arguments.strategies, arguments.preset, arguments.workers))
    cases = [case for case in cases if case[2] <= (find(case[0]).most_workers or case[2])]
    cases = [case for case in cases if case[1] in PRESETS_OF.get(case[0], ("pathway", "wide", "mnist_cnn"))]
    pairs: dict[tuple, Pairs] = {case: [] for case in cases}
    launches = cases * arguments.launches
    random.Random(0).shuffle(launches)
    with machine.alone():
        for position, case in enumerate(launches, start=1):
            pairs[case] += measure(*case)
            # What was measured so far is there for whoever interrupts the rest.
            n, _, _, ratio, interval, *_ = row_of(case, pairs[case])
            console.print(f"{position}/{len(launches)} {' '.join(map(str, case))}: {ratio} ({interval}), n = {n}")
    table = Table(
        "strategy", "preset", "workers", "pairs", "ms per step", "bare", "ratio", "95 % interval", f"{LEAST} holds"
    )
    for case in cases:
        table.add_row(*map(str, case), *row_of(case, pairs[case]))
    console.print(table)


def row_of(case: tuple[str, str, int], pairs: Pairs) -> list[str]:
    """One case's cells: n, both medians in milliseconds per step, the ratio with its interval, and the verdict."""
    steps = task_for(case[1], 1).window_steps
    ratio = median_interval([bare / harness for harness, bare in pairs])
    harness, bare = (median_interval(seconds).median * 1000 / steps for seconds in zip(*pairs, strict=True))
    return [
        str(ratio.n),
        f"{harness:.3f}",
        f"{bare:.3f}",
        f"{ratio.median:.3f}",
        f"{ratio.low:.3f} to {ratio.high:.3f}",
        "yes" if ratio.low >= LEAST else "no",
    ]


def task_for(preset: str, workers: int) -> Task:
    """64 rows per worker in 160 windows; on a CPU 512 on wide in 24, and 64 on mnist_cnn in 40."""
    slow = {} if machine.gpu_names() else {"wide": (50, 2, 2), "mnist_cnn": (210, 10, 5)}
    steps, warmup_steps, window_steps = slow.get(preset, (4050, 50, 25))
    lengths = {"steps": steps, "warmup_steps": warmup_steps, "window_steps": window_steps}
    return dataclasses.replace(PRESETS[preset], scaling="weak", workers=workers, **lengths)


def measure(name: str, preset: str, workers: int) -> Pairs:
    """Seconds of each window of the strategy and of the bare loop that followed it, from one launch.

    Raises LaunchFailedError where it doesn't end well.
    """
    with tempfile.TemporaryDirectory() as folder:
        log, pairs = Path(folder, "log"), Path(folder, "pairs.json")
        task = dataclasses.replace(task_for(preset, workers), record=Path(folder, "record.json"))
        launch = ["-m", "common.launching.launch", "--runner", f"tests.benchmarks.{FILES[name]}", name]
        arguments = [*launch, *to_arguments(task, find(name).options())]
        if executor.start(arguments, ROOT, log, task.deadline_seconds, {PAIRS: str(pairs)}):
            text = log.read_text(encoding="utf-8", errors="replace")
            raise LaunchFailedError(f"{name} at {workers} on {preset} failed: {text[-1000:]}")
        return [tuple(pair) for pair in json.loads(pairs.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    exit_with_one_line(main)
