"""The chapter on hosts: what they are, and the jobs that they were given to."""

import math
from collections.abc import Sequence

import pandas as pd

from common.records.training import Record
from reports import blocks
from reports.tables.hosts import clock_uncertainty
from reports.tables.material import Material

_FACTS = ("name", "cores", "processor", "interface", "address")


def section(material: Material) -> list[blocks.Block]:
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
        blocks.table(columns, rows),
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
    return [blocks.heading("The allocations", level=2), blocks.text(explanation), blocks.table(columns, rows)]


def _within(seconds: float) -> str:
    """Such as `±22.9 µs` or `±1.20 ms`."""
    if math.isnan(seconds):
        return blocks.DASH
    return f"±{blocks.number(1e6 * seconds)} µs" if seconds < 1e-3 else f"±{blocks.milliseconds(seconds)} ms"
