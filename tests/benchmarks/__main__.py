"""What the harness costs: each strategy against a bare loop of the same framework, in turn, on the same rows.

To start it: `nox -s benchmark`. A ratio is the strategy's samples per second over the bare loop's; a claim holds when
the lower end of its 95 % interval is at least what `claimed` says. Two of the bare loops are another strategy's:
torch_hook_ddp and torch_sync_sgd (over MPI's shared memory) run beside DistributedDataParallel over Gloo.
"""

import dataclasses
import itertools
import json
import os
import random
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from common import metrics
from common.config import PRESETS, Config, to_arguments
from common.errors import exit_with_one_line
from common.launch import ROOT, UNDISTRIBUTED, command_for, environment_for, strategies

Pairs = list[tuple[float, float]]

Measured = Literal[
    "torch_ddp",
    "torch_hook_ddp",
    "torch_sync_sgd",
    "horovod_torch",
    "horovod_tensorflow",
    "horovod_keras",
    "tf_one_device",
    "tf_mirrored",
    "tf_multi_worker_mirrored",
    "tf_central_storage",
    "tf_parameter_server",
    "tf_keras_mirrored",
]
"""The strategies that have a bare loop beside this file."""


@dataclass(frozen=True)
class Arguments:
    """Measure what the harness costs."""

    strategies: tuple[Measured, ...] = get_args(Measured)
    """Strategies to measure."""
    preset: tuple[Literal["pathway", "wide"], ...] = ("pathway", "wide")
    """Presets to measure them on."""
    workers: tuple[int, ...] = (1, 2)
    """Numbers of workers."""
    horovod_backend: Literal["auto", "mpi"] = "auto"
    """Horovod's controller, of both its loops; auto: Gloo."""
    launches: int = 5
    """Launches of each case: where the two loops' tensors lie in memory differs from one to the next."""


def main() -> None:
    """Measure every case in shuffled order and print one row for each."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = Console(width=140)
    cases = list(itertools.product(arguments.strategies, arguments.preset, arguments.workers))
    cases = [case for case in cases if case[2] == 1 or case[0] not in UNDISTRIBUTED]
    pairs: dict[tuple, Pairs] = {case: [] for case in cases}
    launches = cases * arguments.launches
    random.Random(0).shuffle(launches)
    for position, case in enumerate(launches, start=1):
        console.print(f"{position}/{len(launches)} {' '.join(map(str, case))}")
        pairs[case] += measure(*case, backend_for(case[0], arguments))
    table = Table(
        "strategy", "preset", "workers", "pairs", "ms per step", "bare", "ratio", "95 % interval", "claimed", "holds"
    )
    for case in cases:
        table.add_row(*map(str, case), *row_of(case, pairs[case]))
    console.print(table)


def claimed(strategy: str, preset: str, workers: int) -> float | None:
    """The ratio that is claimed at least: 0.98 of a bare loop of the same strategy; None: nothing is claimed."""
    if strategy == "torch_hook_ddp":
        return 0.9
    if strategy == "torch_sync_sgd":
        return 1.25 if (preset, workers) == ("pathway", 2) else None
    return 0.98


def row_of(case: tuple[str, str, int], pairs: Pairs) -> list[str]:
    """One case's cells: n, both medians in milliseconds per step, the ratio with its interval, claim and verdict."""
    steps = config_for(case[1], 1).window_steps
    ratio = metrics.median_interval([bare / harness for harness, bare in pairs])
    harness, bare = (metrics.median_interval(seconds).median * 1000 / steps for seconds in zip(*pairs, strict=True))
    claim = claimed(*case)
    return [
        str(ratio.n),
        f"{harness:.3f}",
        f"{bare:.3f}",
        f"{ratio.median:.3f}",
        f"{ratio.low:.3f} to {ratio.high:.3f}",
        "" if claim is None else f"{claim}",
        "" if claim is None else ("yes" if ratio.low >= claim else "no"),
    ]


def config_for(preset: str, workers: int) -> Config:
    """64 rows per worker on pathway in 160 windows, 512 on wide in 24."""
    steps = {"steps": 4050, "warmup_steps": 50, "window_steps": 25}
    if preset == "wide":
        steps = {"steps": 50, "warmup_steps": 2, "window_steps": 2}
    return dataclasses.replace(PRESETS[preset], scaling="weak", workers=workers, **steps)


def backend_for(strategy: str, arguments: Arguments) -> str:
    """The `--backend` of the strategy's launches."""
    if strategy == "torch_sync_sgd":
        return "mpi"
    return arguments.horovod_backend if strategy.startswith("horovod_") else "auto"


def measure(strategy: str, preset: str, workers: int, backend: str) -> Pairs:
    """Seconds of each window of the strategy and of the bare loop that followed it, from one launch."""
    with tempfile.TemporaryDirectory() as folder:
        config = dataclasses.replace(config_for(preset, workers), record=Path(folder, "record.json"), backend=backend)
        script = str(strategies()[strategy].relative_to(ROOT))
        command = command_for(strategy, workers, to_arguments(config), 29410, backend)
        command = [f"tests/benchmarks/{strategy}.py" if part == script else part for part in command]
        pairs = Path(folder, "pairs.json")
        environment = environment_for(config) | {"LOCKSTEP_PAIRS": str(pairs), "PYTHONPATH": os.fspath(ROOT)}
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=config.deadline_seconds
        )
        return [tuple(pair) for pair in json.loads(pairs.read_text())]


if __name__ == "__main__":
    exit_with_one_line(main)
