"""What a launch by srun costs beside one by ssh, and whether its exchange takes what the link takes.

To start it: `.nox/tools/bin/python -m tests.benchmarks.slurm`. It makes two virtual hosts, joined by links of 100 Mbit
per second, with a Slurm of their own. In one allocation strategies are started over both, by srun and by ssh in turn,
from the command to the end of the first step. Then `hosts_exchange` measures the exchange by srun in rounds.
"""

import dataclasses
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.executor import run_planned
from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import PlannedLaunch
from common.launching.virtual_hosts.description import Cable
from common.measurement import machine
from common.statistics.intervals import median_interval
from tests.benchmarks import hosts_exchange
from tests.slurm.cluster import slurm_cluster

CLAIMED = 1.2
"""How many times as long a start by srun may take as one by ssh: the median of the pairs."""

HOSTS = 2


@dataclass(frozen=True)
class Arguments:
    """Measure what launching in Slurm costs."""

    strategies: tuple[str, ...] = ("torch_ddp", "tf_multi_worker_mirrored", "horovod_torch")
    """Strategies to start."""
    pairs: int = 10
    """Pairs of starts of each."""
    rounds: int = 6
    """Rounds of the exchange of the first strategy; 0: none."""


def main() -> None:
    """Make the hosts with their Slurm, and in an allocation of it measure everything and print a row for each."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140)
    if "SLURM_JOB_ID" not in os.environ:
        words = [sys.executable, "-m", "tests.benchmarks.slurm", *sys.argv[1:]]
        with machine.alone(), slurm_cluster(HOSTS, cores=1, link=Cable(hosts_exchange.BITS_PER_SECOND)) as slurm:
            sys.exit(
                subprocess.run(slurm.command("salloc", f"--nodes={HOSTS}", "--ntasks-per-node=1", *words)).returncode
            )
    by_srun = cluster.find(console, Selection(slurm=True), (HOSTS,))
    by_ssh = cluster.find(
        console, Selection(hosts=",".join(f"{each.host.name}:1" for each in by_srun.members)), (HOSTS,)
    )
    table = Table("strategy", "pairs", "ssh, s", "srun, s", "ratio", "95 % interval", "claimed", "holds")
    for name in arguments.strategies:
        pairs = []
        for _ in range(arguments.pairs):
            seconds = {
                members is by_srun: seconds_to_first_step(name, members)
                for members in random.sample((by_ssh, by_srun), 2)
            }
            pairs.append((seconds[False], seconds[True]))
            console.print(f"{name}: {seconds[False]:.2f} s by ssh, {seconds[True]:.2f} s by srun")
        table.add_row(*row_of(name, pairs))
    console.print(table)
    if arguments.rounds:
        case = arguments.strategies[0], HOSTS
        measured = [hosts_exchange.measure(*case, by_srun) for _ in range(arguments.rounds)]
        titles = (
            "strategy",
            "hosts",
            "rounds",
            "step, ms",
            "computing, ms",
            "exposed, ms",
            "95 % interval",
            "least, ms",
        )
        exchange = Table(*titles, "within 10 %", "bytes over formula", "within 3 %")
        exchange.add_row(*hosts_exchange.row_of(case, measured))
        console.print(exchange)


def seconds_to_first_step(name: str, members: Cluster) -> float:
    """From the command to the end of the slowest rank's first step. Raises LaunchFailedError where there is none."""
    strategy = find(name)
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=HOSTS, deadline_seconds=180.0)
    planned = PlannedLaunch(strategy, HOSTS, "throughput", 1, task, strategy.options(), HOSTS)
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    with tempfile.TemporaryDirectory() as folder:
        record = run_planned(planned, Path(folder), members)
    if record.status != "ok" or record.time_to_first_step_s is None:
        raise LaunchFailedError(f"{planned.name} {record.status}: {record.reason}")
    # All hosts are on this kernel, and so have one clock.
    return max(record.process_start_seconds) - started + record.time_to_first_step_s


def row_of(name: str, pairs: list[tuple[float, float]]) -> list[str]:
    """The medians of both, and of their ratio with its interval beside what is claimed."""
    ssh, srun = (median_interval([pair[place] for pair in pairs]) for place in (0, 1))
    ratio = median_interval([by_srun / by_ssh for by_ssh, by_srun in pairs])
    interval = "" if ratio.low is None else f"{ratio.low:.2f} to {ratio.high:.2f}"
    medians = [f"{each.median:.2f}" for each in (ssh, srun)]
    holds = "yes" if ratio.median <= CLAIMED else "no"
    return [name, str(ratio.n), *medians, f"{ratio.median:.2f}", interval, f"{CLAIMED:g}", holds]


if __name__ == "__main__":
    exit_with_one_line(main)
