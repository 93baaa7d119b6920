"""Whether the exchange between hosts takes what the link takes: each strategy with and without it, in rounds.

To start it: `.nox/tools/bin/python -m tests.benchmarks.hosts_exchange`. It makes virtual hosts with links of 100 Mbit
per second, one worker on each, and trains `pathway` on them as a comparison does, in shuffled order. The exposed
exchange is the step's time less that of the same step without exchange in the same round. It stands beside the least
that a ring's bytes need on the link; a claim holds where the whole interval is within 10 % of that, and where the bytes
that the hosts sent are within 3 % of the formula's.
"""

import dataclasses
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.model import parameter_bytes
from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.executor import run_planned
from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import PlannedLaunch
from common.records import metrics
from common.records.metrics import ring_bound
from common.records.training import Record
from common.statistics.intervals import median_interval

BANDWIDTH, BITS_PER_SECOND = "100mbit", 100e6
TIME_CLAIMED, BYTES_CLAIMED = 0.10, 0.03
"""By which shares the exposed exchange may miss the link's least, and the bytes the formula's."""

STRATEGIES, HOSTS = ("torch_ddp", "tf_multi_worker_mirrored", "horovod_torch"), (2, 4)

Case = tuple[str, int]
"""A strategy and a number of hosts."""


@dataclass(frozen=True)
class Arguments:
    """Measure the exchange between hosts."""

    rounds: int = 10
    """Launches of each with exchange, and of each without."""


@dataclass(frozen=True)
class Round:
    """What the two launches of a round measured."""

    step_seconds: float
    computing_seconds: float
    sent_bytes: float
    """What all hosts sent in a step."""
    formula_bytes: float


def main() -> None:
    """Make the hosts, and on their head measure every case in rounds and print a row for it."""
    arguments = tyro.cli(Arguments, description=__doc__)
    selection = Selection(virtual_hosts=max(HOSTS), bandwidth=(BANDWIDTH,))
    console = Console(width=150)
    cluster.move_to_virtual_hosts(selection, "tests.benchmarks.hosts_exchange")
    members = cluster.find(console, selection, (1,))
    rounds: dict[Case, list[Round]] = {(name, hosts): [] for name in STRATEGIES for hosts in HOSTS}
    for number in range(arguments.rounds):
        for case in random.Random(number).sample([*rounds], len(rounds)):
            rounds[case].append(measure(*case, members))
            last = rounds[case][-1]
            exposed = 1e3 * (last.step_seconds - last.computing_seconds)
            console.print(f"round {number + 1}: {case[0]} over {case[1]} hosts: {exposed:.1f} ms exposed")
    table = Table(
        *("strategy", "hosts", "rounds", "step, ms", "computing, ms", "exposed, ms", "95 % interval", "least, ms"),
        *(f"within {TIME_CLAIMED:.0%}", "bytes over formula", f"within {BYTES_CLAIMED:.0%}"),
    )
    for case, measured in rounds.items():
        table.add_row(*row_of(case, measured))
    console.print(table)


def measure(name: str, hosts: int, members: Cluster) -> Round:
    """A launch with exchange and one without, in an order that chance decides."""
    found = {}
    for exchange in random.sample((True, False), 2):
        with tempfile.TemporaryDirectory() as folder:
            found[exchange] = launch(name, hosts, exchange, members, Path(folder))
    seconds = {exchange: metrics.throughput(record).seconds_per_step for exchange, record in found.items()}
    sent = sum(found[True].host_bytes_per_step)
    return Round(seconds[True], seconds[False], sent, found[True].formula_bytes_per_step)


def launch(name: str, hosts: int, exchange: bool, members: Cluster, folder: Path) -> Record:
    """One worker on each host. Raises LaunchFailedError where that doesn't end well."""
    strategy, task = find(name), PRESETS["pathway"]
    lengths = {"warmup_steps": 5, "window_steps": 5 if exchange else 25, "steps": 45 if exchange else 205}
    task = dataclasses.replace(task, scaling="weak", workers=hosts, deadline_seconds=180.0, **lengths)
    options = strategy.options(exchange=exchange)
    planned = PlannedLaunch(strategy, hosts, "throughput", 1, task, options, hosts, BITS_PER_SECOND)
    record = run_planned(planned, folder, members)
    if record.status != "ok":
        raise LaunchFailedError(f"{planned.name} {record.status}: {record.reason}")
    return record


def row_of(case: Case, rounds: list[Round]) -> list[str]:
    """The medians over rounds, beside what is claimed."""
    exposed = median_interval([each.step_seconds - each.computing_seconds for each in rounds])
    least = ring_bound(parameter_bytes(PRESETS["pathway"]), case[1], BITS_PER_SECOND)
    interval, holds = "", ""
    if exposed.low is not None:
        interval = f"{1e3 * exposed.low:.1f} to {1e3 * exposed.high:.1f}"
        within = (1 - TIME_CLAIMED) * least <= exposed.low and exposed.high <= (1 + TIME_CLAIMED) * least
        holds = "yes" if within else "no"
    ratios = [each.sent_bytes / each.formula_bytes for each in rounds]
    bytes_hold = "yes" if all(abs(ratio - 1) <= BYTES_CLAIMED for ratio in ratios) else "no"
    step = statistics.median(each.step_seconds for each in rounds)
    computing = statistics.median(each.computing_seconds for each in rounds)
    medians = [f"{1e3 * seconds:.1f}" for seconds in (step, computing, exposed.median)]
    sent = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return [case[0], str(case[1]), str(exposed.n), *medians, interval, f"{1e3 * least:.1f}", holds, sent, bytes_hold]


if __name__ == "__main__":
    exit_with_one_line(main)
