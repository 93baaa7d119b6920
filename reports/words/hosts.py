"""The chapter on hosts: what they are, what is between them, what they sent, and who waited for whom."""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from common.launching.virtual_hosts.calibration import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record
from reports import blocks
from reports.blocks import Block
from reports.tables import summaries
from reports.tables.hosts import clock_uncertainty
from reports.tables.material import Material

_MOST_HOSTS_LISTED = 4
_FACTS = ("name", "cores", "processor", "interface", "address")


def section(material: Material) -> list[Block]:
    """What was measured between hosts; nothing where no record names any."""
    if not any(record.hosts for record in material.results.records.values()):
        return []
    between = material.hosts[material.hosts["hosts"] > 1]
    return [*_link(between), *_bytes(between, material.names), *_skew(between, material.names)]


def about(material: Material) -> list[Block]:
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
        "Workers are spread evenly over the hosts, those of a host one after another. How many workers, on how many "
        "hosts, over which link: each of these is a curve and a row of its own, and stands behind the strategy's name."
    )
    virtual = {record.virtual.cores_per_host for record in records.values() if record.virtual}
    if virtual:
        cores = ", ".join(f"{count:g}" for count in sorted(filter(None, virtual)))
        about += (
            " These hosts are virtual: each has a network, names and processes of its own, but all share one "
            f"machine's memory, caches and cores{f' ({cores} for each)' if cores else ''}. They show what a link of a "
            "known bandwidth does, not how fast so many machines would compute, and never share a curve with real ones."
        )
    columns = ["host", "cores", "processor", "interface", "address", "launches", "clock known to"]
    return [
        blocks.heading("The hosts", level=2),
        blocks.text(about),
        blocks.table(columns, rows, [], left=(0, 2, 3, 4)),
        *_allocations([*records.values()]),
    ]


def _allocations(records: Sequence[Record]) -> list[Block]:
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
        "Every launch was a step of a job of Slurm, on the cores that the job had. All launches of a complete round "
        "belong to one job: another job may get other nodes, so a round that a job's end cut off was made anew in the "
        "next one, and its earlier launches are compared with nothing."
    )
    columns = ["job", "partition", "nodes", "cores of each", "launches", "cores bound by"]
    table = blocks.table(columns, rows, [], left=(0, 1, 2, 3, 5))
    return [blocks.heading("The allocations", level=2), blocks.text(explanation), table]


def _link(found: pd.DataFrame) -> list[Block]:
    """What was measured between hosts before launches, by what was asked for."""
    launches = found.drop_duplicates("launch").dropna(subset=["link_bytes_per_second"])
    heading = blocks.heading("The link between them", level=2)
    if launches.empty:
        return [heading, blocks.text("No launch tells what went from one host to another before it.")]
    rows = []
    asked = launches["bandwidth_bits_per_second"].fillna(math.inf)
    for (hosts, bandwidth, delay), group in launches.groupby(["hosts", asked, "delay_seconds"]):
        rates, trips = group["link_bytes_per_second"], group["round_trip_seconds"]
        measured = len(group.drop_duplicates(["link_bytes_per_second", "round_trip_seconds"]))
        rows.append(
            [
                *[str(hosts), _asked(bandwidth, delay), blocks.megabits(rates.median())],
                *[f"{blocks.megabits(rates.min())} to {blocks.megabits(rates.max())}"],
                *[_time(trips.median()), f"{_time(trips.min())} to {_time(trips.max())}"],
                *[str(len(group)), str(measured)],
            ]
        )
    explanation = (
        "Plain TCP between hosts before a launch: the rate of its payload, and the shortest of many small messages "
        f"there and back. A full segment has {PAYLOAD_BYTES} bytes of payload in {WIRE_BYTES} on Ethernet, so a link "
        f"of 100 Mbit/s carries {100 * PAYLOAD_BYTES / WIRE_BYTES:.1f} Mbit/s of it at most. Medians over launches, "
        "with the least and the most."
    )
    columns = ["hosts", "asked for", "Mbit/s, median", "range", "round trip, median", "range", "launches", "measured"]
    real = launches["virtual"]
    notes = [] if real.all() else ["A real link is measured once, before the first launch."]
    return [heading, blocks.text(explanation), blocks.table(columns, rows, notes, left=(1,))]


def _bytes(found: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """What each host sent to the others in a step, beside what all send by formula."""
    told = found[found["exchange"] & found["sent_bytes"].notna()]
    heading = blocks.heading("Bytes from host to host", level=2)
    if told.empty:
        return [heading, blocks.text("No launch over several hosts counted what these sent.")]
    rows = []
    for (strategy, regime, workers), group in _in_order(told):
        by_host = group.groupby("host", sort=False)["sent_bytes"].median()
        every = group.groupby("launch")["sent_bytes"].sum()
        ends = by_host if len(by_host) <= _MOST_HOSTS_LISTED else pd.Series([by_host.min(), by_host.max()])
        between = ", " if len(by_host) <= _MOST_HOSTS_LISTED else " to "
        formula = group["formula_bytes"].iloc[0]
        rows.append(
            [
                *[strategy, str(workers), names[regime], str(len(every)), between.join(map(_megabytes, ends))],
                *[_megabytes(every.median()), _megabytes(formula)],
                f"{every.median() / formula:,.3f}" if formula > 0 else blocks.DASH,
            ]
        )
    explanation = (
        "Megabytes that each host sent to the others in a step, in the hosts' order, packet headers included, by the "
        "counters of its interface around the clocked windows, of many hosts the least and the most; medians over n "
        "launches. Beside them what all hosts send by the formula of the algorithm, which has no headers: on "
        f"Ethernet these add {blocks.percent(WIRE_BYTES / PAYLOAD_BYTES - 1, 1)} to full segments, and less where the "
        "system hands whole buffers to the interface, which counts their headers once. The formulas are in the section "
        "on exchange."
    )
    columns = ["strategy", "workers", "regime", "n", "each host, MB", "all, MB", "by formula", "ratio"]
    return [heading, blocks.text(explanation), blocks.table(columns, rows, [], left=(0, 2))]


def _skew(found: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """How far the hosts' windows are apart, and who came last."""
    told = found[found["exchange"] & (found["windows"] > 0)]
    heading = blocks.heading("Skew between hosts, and who waited for whom", level=2)
    if told.empty:
        return [heading, blocks.text("No launch over several hosts tells when each of its ranks started its windows.")]
    rows = []
    for (strategy, regime, workers), group in _in_order(told):
        launches = group.drop_duplicates("launch")
        rows.append(
            [
                *[strategy, str(workers), names[regime], str(len(launches)), f"{launches['windows'].sum():,}"],
                *[skew(launches), *(_who(group, edge) for edge in ("started_last", "finished_last"))],
            ]
        )
    explanation = (
        "When each rank started its clocked windows, by one clock. Each host's clock that counts from boot was asked "
        "before the launch how far it is ahead, by many round trips, of which the shortest counts; it is wrong by at "
        "most half of that trip (Cristian, 1989). The skew of a window is how much later its last rank started than "
        "its first, and its uncertainty that of both hosts' clocks together; given is the median over windows, then "
        "over n launches, and no number where it is below the uncertainty. How far real clocks drift apart during a "
        "launch isn't known, and no part of the uncertainty."
    )
    columns = ["strategy", "workers", "regime", "n", "windows", "skew", "started last", "finished last"]
    return [heading, blocks.text(explanation), blocks.table(columns, rows, [], left=(0, 2))]


def skew(launches: pd.DataFrame) -> str:
    """The median skew of these launches, a row each, in words: never a number that the clocks can't tell."""
    median, uncertainty = launches["skew_seconds"].median(), launches["skew_uncertainty_seconds"].max()
    if not median > uncertainty:
        return f"below the clocks' {_within(uncertainty)}"
    return f"{_time(median)} ({_within(uncertainty)})"


def _who(group: pd.DataFrame, edge: str) -> str:
    """The host that was last most often, and how much can't be told."""
    windows = group.drop_duplicates("launch")["windows"].sum()
    counts = group.groupby("host", sort=False)[edge].sum()
    unknown = 1 - counts.sum() / windows
    said = [f"{counts.idxmax()} {blocks.percent(counts.max() / windows)}"] if counts.sum() else []
    return ", ".join([*said, *([f"can't tell {blocks.percent(unknown)}"] if unknown > 0 else [])])


def _in_order(found: pd.DataFrame) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """The rows of each strategy, regime and number of workers, by strategy, then workers, hosts and bandwidth."""
    own, speed = summaries.without_hosts(found), found["bandwidth_bits_per_second"].fillna(math.inf)
    ordered = found.assign(own=own, speed=speed).sort_values(["own", "regime", "workers", "hosts", "speed", "launch"])
    yield from ordered.groupby(["strategy", "regime", "workers"], sort=False)


def _megabytes(count: float) -> str:
    return blocks.DASH if math.isnan(count) else f"{count / 1e6:,.3f}"


def _asked(bandwidth: float, delay: float) -> str:
    words = [] if math.isinf(bandwidth) else [f"{bandwidth / 1e6:g} Mbit/s"]
    words += [f"{1000 * delay:g} ms delay"] if delay else []
    return ", ".join(words) or "nothing"


def _time(seconds: float) -> str:
    """Such as `22.9 µs` or `1.20 ms`."""
    if math.isnan(seconds):
        return blocks.DASH
    return f"{blocks.number(1e6 * seconds)} µs" if seconds < 1e-3 else f"{blocks.milliseconds(seconds)} ms"


def _within(seconds: float) -> str:
    return blocks.DASH if math.isnan(seconds) else f"\N{PLUS-MINUS SIGN}{_time(seconds)}"
