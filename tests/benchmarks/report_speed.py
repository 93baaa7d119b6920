"""How long a report of many records takes: `python -m reports` as a whole process, on two cores.

To start it: `.nox/tools/bin/python -m tests.benchmarks.report_speed`. The records are made up, as many and as long as
those of a comparison of all strategies with 1, 2 and 4 workers on digits and pathway. Their losses are those of the
contract in float32, so the report computes the oracles and finds that they are followed. Few records are of the quick
profile, many of the full one, with weak and strong scaling and every variant.
"""

import dataclasses
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from safetensors.numpy import save_file

from common.contract.model import Trajectory, parameter_bytes
from common.contract.rows import global_batch
from common.contract.task import Task
from common.declarations.catalogue import strategies
from common.declarations.strategy import has_exchange
from common.errors import exit_with_one_line
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.measurement.record import declared
from common.paths import ROOT
from common.records.files import from_json, write_record
from common.records.training import Record
from common.sessions.comparison_scope import Scope, plan_table, whole_round
from common.sessions.session import Stage
from tests.reports.records import measured, trained

CORES = 2

LIMITS_SECONDS = {88: 4.0, 1_000: 8.0, 10_000: 90.0}
"""What a report of so many records may take."""

MOST_QUICK_RECORDS = 3_000
"""A comparison of more records than these is one of the full profile."""

FAILED_SHARE = 0.01


@dataclass(frozen=True)
class Arguments:
    """Measure how long reports take."""

    records: tuple[int, ...] = tuple(LIMITS_SECONDS)
    """How many records each folder has."""
    repetitions: int = 3
    """Reports of each folder."""
    keep: Path | None = None
    """Make the folders here and leave them, and take those that are here; none: they are temporary."""


def main() -> None:
    """Make every folder, write its reports, and print what each took beside what it may take."""
    arguments = tyro.cli(Arguments, description=__doc__)
    table = Table("records", "megabytes", "seconds of each report", "may take", "holds")
    with machine.alone(), tempfile.TemporaryDirectory() as temporary:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        for number in arguments.records:
            folder = (arguments.keep or Path(temporary)) / f"{number}-records"
            if not (folder / "plan.csv").exists():
                make_folder(folder, number)
            megabytes = sum(path.stat().st_size for path in folder.glob("*.json")) / 1e6
            seconds = [seconds_of_report(folder) for _ in range(arguments.repetitions)]
            limit = LIMITS_SECONDS.get(number)
            verdict = ["", ""] if limit is None else [f"{limit:.0f} s", "yes" if max(seconds) <= limit else "no"]
            each = ", ".join(f"{value:.1f}" for value in seconds)
            table.add_row(f"{number:,}", f"{megabytes:,.0f}", each, *verdict)
    Console(width=140).print(table)


def seconds_of_report(folder: Path) -> float:
    """What a report of the folder takes, from the start of its process to its end."""
    command = [sys.executable, "-m", "reports", "--results", str(folder), "--out", str(folder / "report.pdf")]
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def make_folder(folder: Path, number: int) -> None:
    """Write so many records into a new folder, with the weights that they name and the plan."""
    folder.mkdir(parents=True)
    stages = list(stages_of(number))
    for index, stage in enumerate(stages):
        # Every round meets a machine of another speed.
        slowness = np.random.default_rng(index).uniform(0.95, 1.1)
        for launch in stage.launches:
            write_launch(folder, launch, slowness)
    plan_table(stages, order_seed=0, margin=0.05).to_csv(folder / "plan.csv", index=False)


def stages_of(number: int) -> Iterator[Stage]:
    """Rounds of everything, as a comparison makes them, until there are so many launches: the last one is cut."""
    profile = "quick" if number <= MOST_QUICK_RECORDS else "full"
    scope = Scope(profile=profile, strategies=tuple(strategies()), preset=("digits", "pathway"))
    order = random.Random(0)
    for repetition in count(1):
        stage = whole_round(scope, repetition, order)
        yield dataclasses.replace(stage, launches=stage.launches[:number])
        number -= len(stage.launches)
        if number <= 0:
            return


def write_launch(folder: Path, launch: PlannedLaunch, slowness: float) -> None:
    """Write the record of the launch, and its weights where it keeps any."""
    task = dataclasses.replace(launch.task, record=folder / f"{launch.name}.json")
    batch = task.batch
    if launch.strategy.is_synchronous(launch.options):
        batch = global_batch(task, launch.strategy.work, launch.workers)
    trajectory = trained(task.seed, batch, task.steps, task.preset)
    record = record_of(launch, task, trajectory, batch, slowness)
    write_record(folder / f"{launch.name}.json", record)
    if record.checkpoint:
        save_file(trajectory.state, folder / record.checkpoint)


def record_of(launch: PlannedLaunch, task: Task, trajectory: Trajectory, batch: int, slowness: float) -> Record:
    """What the launch would have left on a machine that was so many times as slow as usual; one in 100 failed."""
    strategy, workers = launch.strategy, launch.workers
    noise = np.random.default_rng(list(launch.name.encode()))
    started = datetime.fromtimestamp(1.8e9 + 1e6 * noise.random(), UTC).isoformat(timespec="milliseconds")
    known = declared(strategy, task, launch.options, workers) | measured(task, batch, workers) | {"started_at": started}
    if noise.random() < FAILED_SHARE:
        nothing = {"host": {}, "losses": [], "accuracies": [], "final_accuracy": None, "time_to_first_step_s": None}
        return from_json(known | nothing | {"status": "failed", "reason": "It ended with status 1."}, Record)
    ranks = 1 if strategy.work.is_one_process else workers
    # Every strategy has a speed of its own; more rows take longer, exchange as well.
    own = 1 + 0.05 * list(strategies()).index(strategy.name)
    exchange = 1.2 if has_exchange(launch.options) else 1.0
    seconds = 2e-3 * own * exchange * slowness * (batch / 64) ** 0.6
    sent = known["formula_bytes_per_step"]
    held = dict.fromkeys(("parameters", "gradients", "above_import"), parameter_bytes(task)) | {"optimizer_state": 0}
    facts = {"windows": windows_of(task, ranks, seconds, noise), "memory_bytes": [held] * ranks}
    facts |= {"pinned_cores": [0] if workers <= CORES else [], "private_network": True}
    facts["wire_bytes_per_step"] = 1.01 * sent if sent else None
    facts["shard_losses"] = trajectory.shard_losses(known["shards"]).tolist()
    facts["staleness"] = [] if known["synchronous"] else noise.integers(0, 2 * workers, task.steps).tolist()
    facts["checkpoint"] = f"{launch.name}.safetensors" if task.checkpoint else None
    if task.checkpoint_steps:
        facts["accuracies"] = accuracies_of(task, seconds)
    return from_json(known | facts, Record)


def accuracies_of(task: Task, seconds: float) -> list[dict[str, float]]:
    """The accuracies that a launch saw on the way, a step of which takes so many seconds."""
    steps = range(task.checkpoint_steps, task.steps + 1, task.checkpoint_steps)
    return [{"step": step, "accuracy": step / (step + 20), "training_seconds": step * seconds} for step in steps]


def windows_of(task: Task, ranks: int, seconds: float, noise: np.random.Generator) -> list[dict[str, float]]:
    """The clocked windows of every rank, a step of which takes about so many seconds, with what else happened."""
    windows: list[dict[str, float]] = []
    for rank, step in product(range(ranks), range(task.warmup_steps, task.steps, task.window_steps)):
        steps = min(task.window_steps, task.steps - step)
        before = windows[-1] if step > task.warmup_steps else {"started_seconds": 2.0, "seconds": 0.0}
        took = steps * seconds * float(np.exp(0.02 * noise.standard_normal()))
        windows.append(
            {
                **{"rank": rank, "step": step, "steps": steps, "seconds": took, "input_seconds": 0.01 * took},
                "started_seconds": before["started_seconds"] + before["seconds"] + 1e-3,
                **{"involuntary_switches": int(noise.integers(200)), "core_seconds": took, "steal_seconds": 0.0},
                **{"busy_seconds": 0.9 * took, "own_seconds": 0.9 * took},
                "spin_seconds": 1e-4 * float(np.exp(0.02 * noise.standard_normal())),
            }
        )
    return windows


if __name__ == "__main__":
    exit_with_one_line(main)
