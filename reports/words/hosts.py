"""The chapter on hosts: what they are, what is between them, and who waited for whom."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from common.launching.virtual_hosts.calibration import PAYLOAD_BYTES, WIRE_BYTES
from common.records.header import Link, Virtual
from common.records.training import Record
from reports import blocks
from reports.tables.hosts import Skew, clock_uncertainty, table
from reports.tables.material import Material

_FACTS = ("name", "cores", "processor", "interface", "address")


def section(material: Material) -> list[blocks.Block]:
    """What was measured between hosts; nothing where no record names any."""
    records = material.results.records
    if not any(record.hosts for record in records.values()):
        return []
    measured = material.launches[material.launches["hosts"] > 1]
    return [
        *_link([records[name] for name in measured["launch"]]),
        *_skew(table(material.launches, records), material.names),
    ]


def about(material: Material) -> list[blocks.Block]:
    """What the hosts are; nothing where no record names any."""
    records = material.results.records
    if not any(record.hosts for record in records.values()):
        return []
    known: dict[tuple, list[float]] = {}
    for record in records.values():
        for host in record.hosts:
            facts = tuple(str(getattr(host, name) or blocks.DASH) for name in _FACTS)
            known.setdefault(facts, []).append(clock_uncertainty(host))
    rows = [
        [*facts, str(len(uncertainties)), _within(pd.Series(uncertainties).max())]
        for facts, uncertainties in known.items()
    ]
    about = (
        "Workers are spread evenly over the hosts, those of a host one after another. Hosts and link stand behind the "
        "strategy's name, and make a curve of their own."
    )
    virtual = {record.virtual.cores_per_host for record in records.values() if record.virtual}
    if virtual:
        cores = ", ".join(f"{count:g}" for count in sorted(filter(None, virtual)))
        about += (
            " These hosts are virtual: each has a network, names and processes of its own, but all share one "
            f"machine's memory, caches and cores{f' ({cores} for each)' if cores else ''}. They show what a link does, "
            "not how fast so many machines would compute."
        )
    columns = ["host", "cores", "processor", "interface", "address", "launches", "clock known to"]
    return [
        blocks.heading("The hosts", level=2),
        blocks.text(about),
        blocks.table(columns, rows, [], left=(0, 2, 3, 4)),
        *_allocations([*records.values()]),
    ]


def _allocations(records: Sequence[Record]) -> list[blocks.Block]:
    """The jobs of Slurm that the launches were steps of; nothing where Slurm gave none."""
    of_job: dict[str, list[Record]] = {}
    for record in records:
        if record.allocation:
            of_job.setdefault(record.allocation.job, []).append(record)
    if not of_job:
        return []
    rows = []
    for job, launches in of_job.items():
        allocation = launches[0].allocation
        binding = {"Slurm" if record.bound_by_slurm else "each worker" for record in launches if record.pinned_cores}
        cores = ", ".join(map(str, allocation.cores_per_node)) or blocks.DASH
        keeper = " or ".join(sorted(binding)) or "nobody"
        rows.append([job, allocation.partition, allocation.nodes, cores, str(len(launches)), keeper])
    explanation = (
        "Every launch was a step of a job of Slurm, on the cores that the job had. A round belongs to one job: one "
        "that a job's end cut off was made anew in the next, and its earlier launches are compared with nothing."
    )
    columns = ["job", "partition", "nodes", "cores of each", "launches", "cores bound by"]
    table = blocks.table(columns, rows, [], left=(0, 1, 2, 3, 5))
    return [blocks.heading("The allocations", level=2), blocks.text(explanation), table]


def _link(records: Sequence[Record]) -> list[blocks.Block]:
    links: dict[tuple[int, float, float], list[Link]] = {}
    for record in records:
        if record.link:
            asked = record.virtual or Virtual()
            limits = (asked.bandwidth_bits_per_second or 0.0, asked.delay_seconds or 0.0)
            links.setdefault((len(record.hosts), *limits), []).append(record.link)
    heading = blocks.heading("The link between them", level=2)
    if not links:
        return [heading, blocks.text("No launch tells what went from one host to another before it.")]
    rows = []
    for (hosts, bandwidth, delay), own in sorted(links.items()):
        rates = [link.bytes_per_second for link in own]
        trips = [link.round_trip_seconds for link in own]
        rows.append(
            [
                *[str(hosts), blocks.link(bandwidth, delay), blocks.megabits(statistics.median(rates))],
                f"{blocks.megabits(min(rates))} to {blocks.megabits(max(rates))}",
                *[_time(statistics.median(trips)), f"{_time(min(trips))} to {_time(max(trips))}"],
                *[str(len(own)), str(len(set(zip(rates, trips, strict=True))))],
            ]
        )
    explanation = (
        "Plain TCP between hosts before a launch: the rate of its payload, and the shortest of many small messages "
        f"there and back. A link of 100 Mbit/s carries {100 * PAYLOAD_BYTES / WIRE_BYTES:.1f} Mbit/s of payload at "
        f"most ({PAYLOAD_BYTES} bytes in {WIRE_BYTES} of a full segment on Ethernet). Medians, least and most are over "
        "launches."
    )
    columns = ["hosts", "asked for", "Mbit/s, median", "range", "round trip, median", "range", "launches", "measured"]
    return [heading, blocks.text(explanation), blocks.table(columns, rows, [], left=(1,))]


def _skew(found: Sequence[Skew], names: Mapping[str, str]) -> list[blocks.Block]:
    heading = blocks.heading("Skew between hosts, and who waited for whom", level=2)
    if not found:
        return [heading, blocks.text("No launch over several hosts tells when each of its ranks started its windows.")]
    groups: dict[tuple[str, str, int], list[Skew]] = {}
    for row in blocks.in_order(found):
        groups.setdefault((row.strategy, row.regime, row.workers), []).append(row)
    rows = []
    for (strategy, regime, workers), own in groups.items():
        windows = sum(row.windows for row in own)
        started = _who([row.started_last for row in own], windows)
        finished = _who([row.finished_last for row in own], windows)
        known = [strategy, str(workers), names[regime], str(len(own)), f"{windows:,}"]
        rows.append([*known, skew_in_words(own), started, finished])
    explanation = (
        "The skew of a window is how much later its last rank started than its first: the median over windows, then "
        "over n launches, and no number where it is below both clocks' uncertainty. How far each host's clock is ahead "
        "was asked before the launch, by many round trips, of which the shortest counts: that is wrong by at most half "
        "of it (Cristian, 1989). How far clocks drift apart during a launch isn't known."
    )
    columns = ["strategy", "workers", "regime", "n", "windows", "skew", "started last", "finished last"]
    return [heading, blocks.text(explanation), blocks.table(columns, rows, [], left=(0, 2))]


def skew_in_words(launches: Sequence[Skew]) -> str:
    """The median skew of these launches: never a number that the clocks can't tell."""
    median = statistics.median(row.seconds for row in launches)
    uncertainty = max(row.uncertainty_seconds for row in launches)
    if median <= uncertainty:
        return f"below the clocks' {_within(uncertainty)}"
    return f"{_time(median)} ({_within(uncertainty)})"


def _who(last: Sequence[Counter[str]], windows: int) -> str:
    """The host that was last most often, and of how many windows that can't be told."""
    counts = sum(last, Counter())
    unknown = 1 - counts.total() / windows
    said = [f"{name} {blocks.percent(count / windows)}" for name, count in counts.most_common(1)]
    return ", ".join([*said, *([f"can't tell {blocks.percent(unknown)}"] if unknown > 0 else [])])


def _time(seconds: float) -> str:
    """Such as `22.9 µs` or `1.20 ms`."""
    if math.isnan(seconds):
        return blocks.DASH
    return f"{blocks.number(1e6 * seconds)} µs" if seconds < 1e-3 else f"{blocks.milliseconds(seconds)} ms"


def _within(seconds: float) -> str:
    return blocks.DASH if math.isnan(seconds) else f"\N{PLUS-MINUS SIGN}{_time(seconds)}"
