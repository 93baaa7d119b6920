"""What starting a cell over hosts costs: the same strategy and workers on this machine and over two hosts, in turn.

To start it: `.nox/tools/bin/python -m tests.benchmarks.hosts_start`. It makes two virtual hosts and starts cells as a
comparison does, over both, which have half of the cores each, and here, with all of them. Starting is all of a launch
but its training: from where the comparison turns to the cell until its record is there, without the seconds from the
first clocked window to the last.
"""

import dataclasses
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS
from common.declarations.catalogue import find, strategies
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.executor import HERE, run_planned
from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import PlannedLaunch
from common.statistics.intervals import median_interval

CLAIMED = 1.5
"""How many times as long a start over two hosts may take as here: the median of the pairs."""

HOSTS = 2
SPANNING = tuple(name for name, strategy in strategies().items() if strategy.launcher.across_hosts)


@dataclass(frozen=True)
class Arguments:
    """Measure what starting over hosts costs."""

    strategies: tuple[Literal[SPANNING], ...] = ("torch_ddp", "tf_multi_worker_mirrored", "horovod_torch")
    """Strategies to start."""
    pairs: int = 10
    """Pairs of starts of each."""


def main() -> None:
    """Make the hosts, and on their head measure every strategy and print a row for it."""
    arguments = tyro.cli(Arguments, description=__doc__)
    selection, console = Selection(virtual_hosts=HOSTS), Console(width=140)
    cluster.move_to_virtual_hosts(selection, "tests.benchmarks.hosts_start")
    members = cluster.find(console, selection, (HOSTS,))
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in arguments.strategies}
    turns = [name for name in arguments.strategies for _ in range(arguments.pairs)]
    random.Random(0).shuffle(turns)
    for name in turns:
        pairs[name].append(pair_of(name, members))
        console.print(f"{name}: {pairs[name][-1][0]:.1f} s here, {pairs[name][-1][1]:.1f} s over {HOSTS}")
    table = Table("strategy", "pairs", "here, s", f"{HOSTS} hosts, s", "ratio", "95 % interval", "claimed", "holds")
    for name, measured in pairs.items():
        table.add_row(*row_of(name, measured))
    console.print(table)


def pair_of(name: str, members: Cluster) -> tuple[float, float]:
    """Seconds of a start here and of one over the hosts, in an order that chance decides."""
    seconds = {}
    for hosts in random.sample((None, HOSTS), 2):
        with tempfile.TemporaryDirectory() as folder:
            seconds[hosts] = seconds_of_start(name, hosts, members, Path(folder))
    return seconds[None], seconds[HOSTS]


def seconds_of_start(name: str, hosts: int | None, members: Cluster, folder: Path) -> float:
    """What a launch takes beside its training. Raises LaunchFailedError where it doesn't end well."""
    strategy = find(name)
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=HOSTS, deadline_seconds=180.0)
    planned = PlannedLaunch(strategy, HOSTS, "throughput", 1, task, strategy.options(), hosts)
    started = time.perf_counter()
    record = run_planned(planned, folder, members if hosts else HERE)
    seconds = time.perf_counter() - started
    if record.status != "ok":
        raise LaunchFailedError(f"{planned.name} {record.status}: {record.reason}")
    last = record.windows[-1]
    first = next(window for window in record.windows if window.rank == last.rank)
    return seconds - (last.started_seconds + last.seconds - first.started_seconds)


def row_of(name: str, pairs: list[tuple[float, float]]) -> list[str]:
    """The medians of both, and of their ratio with its interval beside what is claimed."""
    one, several = (median_interval([pair[place] for pair in pairs]) for place in (0, 1))
    ratio = median_interval([over / alone for alone, over in pairs])
    interval = "" if ratio.low is None else f"{ratio.low:.2f} to {ratio.high:.2f}"
    holds = "yes" if ratio.median <= CLAIMED else "no"
    medians = [f"{each.median:.1f}" for each in (one, several)]
    return [name, str(ratio.n), *medians, f"{ratio.median:.2f}", interval, f"{CLAIMED:g}", holds]


if __name__ == "__main__":
    exit_with_one_line(main)
