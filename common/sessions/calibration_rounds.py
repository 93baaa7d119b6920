"""The rounds of a calibration: in each, one strategy is launched under three names, in shuffled order."""

import random
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from common.declarations.strategy import Strategy
from common.errors import UserError
from common.launching import supervision
from common.launching.planned import PlannedLaunch
from common.records import manifest, metrics
from common.records.files import read_record
from common.records.training import Record
from common.sessions.plan import Scope, main_worlds, throughput

LAUNCHERS = {
    "first": "common.launching.launch",
    "second": "common.launching.launch",
    "busy": "common.launching.busy_launch",
}
"""By alias the module that launches the strategy."""


def planned(strategy: Strategy, repetition: int) -> PlannedLaunch:
    """The launch that a round of the quick comparison has of the strategy."""
    scope = Scope(strategies=(strategy.name,))
    [launch] = throughput(scope, strategy, main_worlds(scope)[strategy.name], repetition, alone=False)
    return launch


def run_rounds(
    console: Console, strategy: Strategy, rounds: int, folder: Path, order_seed: int
) -> dict[str, np.ndarray]:
    """Samples per second of each alias, (rounds,). Launches that have a good record in the folder aren't made again.

    Each alias has a folder of its own in `folder`. Raises UserError where a launch measures nothing.
    """
    order = random.Random(order_seed)
    rates: dict[str, list[float]] = {alias: [] for alias in LAUNCHERS}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # Drawn between launches alone, which have the machine for themselves.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=rounds * len(LAUNCHERS))
        for repetition in range(1, rounds + 1):
            launch = planned(strategy, repetition)
            for alias in order.sample([*LAUNCHERS], len(LAUNCHERS)):
                title = f"round {repetition} of {rounds}, {alias}"
                progress.update(task, description=title, refresh=True)
                rates[alias].append(_rate(launch, alias, folder / alias))
                progress.advance(task)
            said = ", ".join(f"{alias} {rates[alias][-1]:,.0f}" for alias in LAUNCHERS)
            console.print(f"round {repetition} of {rounds}: {said} samples/s")
    return {alias: np.array(each) for alias, each in rates.items()}


def _rate(launch: PlannedLaunch, alias: str, folder: Path) -> float:
    """Samples per second of one launch, which is made unless `folder` holds its record."""
    path = folder / f"{launch.name}.json"
    known = read_record(path, Record) if path.exists() else None
    if known is None or known.status != "ok":
        known = supervision.run_planned(launch, folder, launcher=LAUNCHERS[alias])
        manifest.note(folder.parent, manifest.files_of(folder, launch.name))
    if known.status != "ok":
        raise UserError(
            f"Round {launch.repetition} has no measurement of {alias}, since its launch is {known.status} "
            f"({known.reason.rstrip('.')}; log: {folder / known.log}): mend that, start it again, and it goes on there."
        )
    return metrics.throughput(known).samples_per_second
