"""The chapter on hosts: what they are, and the jobs that they were given to."""

from collections.abc import Sequence

import pandas as pd

from common.records.training import Record
from reports import blocks
from reports.tables.material import Material


def section(material: Material) -> list[blocks.Block]:
    """What the hosts are; nothing where no record names any."""
    records = [*material.results.records.values()]
    facts = ["name", "cores", "processor", "interface", "address"]
    told = [
        [*(str(getattr(host, name) or blocks.DASH) for name in facts), host.clock_uncertainty_seconds]
        for record in records
        for host in record.hosts
    ]
    if not told:
        return []
    clocks = pd.DataFrame(told, columns=[*facts, "clock"]).astype({"clock": float}).groupby(facts, sort=False)["clock"]
    rows = [
        [*host, str(launches), blocks.DASH if pd.isna(worst) else f"±{blocks.number(1e6 * worst)} µs"]
        for host, launches, worst in clocks.agg(["size", "max"]).itertuples(name=None)
    ]
    about = "Workers are spread evenly over the hosts, those of a host one after another."
    virtual = {record.virtual.cores_per_host for record in records if record.virtual}
    if virtual:
        cores = ", ".join(f"{count:g}" for count in sorted(filter(None, virtual)))
        about += (
            " These hosts are virtual: each has a network, names and processes of its own, but all share one "
            f"machine's memory, caches and cores{f' ({cores} for each)' if cores else ''}. They show what a link does, "
            "not how fast so many machines would compute."
        )
    columns = ["host", "cores", "processor", "interface", "address", "launches", "clock known to"]
    hosts = [blocks.heading("The hosts", level=2), blocks.text(about), blocks.table(columns, rows)]
    return [*hosts, *_allocations(records)]


def _allocations(records: Sequence[Record]) -> list[blocks.Block]:
    """The jobs of Slurm that the launches were steps of; nothing where Slurm gave none."""
    jobs: dict[tuple[str, ...], int] = {}
    for record in records:
        if job := record.allocation:
            cores = ", ".join(map(str, job.cores_per_node)) or blocks.DASH
            keeper = "Slurm" if record.bound_by_slurm else "each worker" if record.pinned_cores else "nobody"
            facts = (job.job, job.partition, job.nodes, cores, keeper)
            jobs[facts] = jobs.get(facts, 0) + 1
    if not jobs:
        return []
    explanation = (
        "Every launch was a step of a job of Slurm. A round that a job's end cut off was made anew, and its "
        "earlier launches are compared with nothing."
    )
    columns = ["job", "partition", "nodes", "cores of each", "cores bound by", "launches"]
    table = blocks.table(columns, [[*facts, str(launches)] for facts, launches in jobs.items()])
    return [blocks.heading("The allocations", level=2), blocks.text(explanation), table]
