"""What launches ran on and with, machine by machine and host by host, and what it takes to repeat them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from common.records import manifest, variables
from common.records.header import Header, Machine
from common.records.training import Record
from reports import blocks
from reports.tables.material import Material
from reports.tables.results import Origin

_DIGITS = 20  # Of a digest: enough to tell any two.


def ended_ok(records: Sequence[Header]) -> list[Header]:
    """The launches that ended ok, or all where none did."""
    return [record for record in records if record.status == "ok"] or [*records]


def facts(records: Sequence[Header]) -> dict[str, str]:
    """By what it is, in words, what these launches ran on."""
    hosts = [record.host for record in records if record.host != Machine()]
    started = sorted(record.started_at[:16].replace("T", " ") for record in records)
    processors = distinct(
        f"{host.processor or '?'}, {host.cores or '?'} cores"
        + (f", a quota of {host.core_limit:g}" if host.core_limit else "")
        for host in hosts
    )
    memory = distinct(f"{host.memory_bytes / 2**30:.1f} GiB" for host in hosts if host.memory_bytes)
    gpus = distinct(", ".join(host.gpus) or "none" for host in hosts)
    devices = distinct("cpu" if "cpu" in record.device.lower() else record.device for record in records)
    threads = distinct(str(record.threads_per_worker) for record in records)
    pinned = sum(bool(record.pinned_cores) for record in records)
    private = sum(record.private_network for record in records)
    times = " to ".join(dict.fromkeys([*started[:1], *started[-1:]])) + " UTC" if started else blocks.DASH
    return {
        "hardware": f"{processors}; memory {memory}; GPUs {gpus}; {distinct(host.system or '?' for host in hosts)}",
        "workers": f"on {devices}, {threads} threads each; of {len(records)} launches {pinned} on cores of their own, "
        f"{private} in a private network",
        "measured": f"{times}, commit {distinct(record.git_commit or 'unknown' for record in records)}",
    }


def to_repeat(origin: Origin, records: Sequence[Header]) -> dict[str, str]:
    """By what it is, in words, what it takes to make the same session again, and to know that it's the same."""
    packages = {f"{package} {version}" for record in ended_ok(records) for package, version in record.versions.items()}
    obeyed = variables.in_words(origin.variables, any(record.hosts for record in records))
    return {
        "records, SHA-256": f"{origin.digest[:_DIGITS]}; digests of files: {manifest.summary(origin.differences)}",
        **({"variables that frameworks obey": obeyed} if origin.variables != {} else {}),
        "to repeat it": origin.command or "unknown: the folder has no command.txt",
        "versions": distinct(sorted(packages), ", "),
    }


def table(told: Mapping[str, str]) -> blocks.Block:
    """The facts, a row each."""
    return blocks.table(["", ""], [[name, fact] for name, fact in told.items()], wide={1: 1})


def of_comparison(material: Material) -> blocks.Block:
    """What the launches of a comparison ran on, with which versions, settings and order."""
    results = material.results
    records = [*results.records.values()]
    ok = ended_ok(records)
    data = (
        f"{each.task.preset}{f' ({each.data})' if each.data else ''} {each.data_sha256[:_DIGITS]}"
        for each in ok
        if each.data_sha256
    )
    backends: dict[str, set[str]] = {}
    for record in ok:
        backends.setdefault(record.backend or "none", set()).add(record.strategy)
    order = "launched one by one, without a plan"
    if results.plan is not None:
        shuffled = distinct(map(str, results.plan["order_seed"]))
        order = f"order of launches shuffled with seed {shuffled}"
    schemas = distinct(map(str, sorted({each.schema_version for each in records})))
    seeds = distinct(map(str, sorted({each.task.seed for each in ok})))
    return table(
        facts(ok)
        | {
            "carried by": distinct(
                f"{name}: {blocks.some([*map(blocks.shortened, sorted(own))], 8)}"
                for name, own in sorted(backends.items())
            ),
            "seeds": f"of the task {seeds}; {order}; schema of the records {schemas}",
            "rows of the datasets, SHA-256": distinct(sorted(data)),
        }
        | to_repeat(results.origin, records)
    )


def distinct(values: Iterable[str], between: str = "; ") -> str:
    """Each value once, in order."""
    return between.join(dict.fromkeys(filter(None, values))) or blocks.DASH


def hosts(material: Material) -> list[blocks.Block]:
    """The chapter on hosts: what they are, and the jobs that gave them; nothing where no record names any."""
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
    chapter = [blocks.heading("The hosts", level=2), blocks.text(about), blocks.table(columns, rows)]
    return [*chapter, *_allocations(records)]


def _allocations(records: Sequence[Record]) -> list[blocks.Block]:
    """The jobs of Slurm that the launches were steps of; nothing where Slurm gave none."""
    jobs = Counter[tuple[str, ...]]()
    for record in records:
        if job := record.allocation:
            cores = ", ".join(map(str, job.cores_per_node)) or blocks.DASH
            keeper = "Slurm" if record.bound_by_slurm else "each worker" if record.pinned_cores else "nobody"
            jobs[job.job, job.partition, job.nodes, cores, keeper] += 1
    if not jobs:
        return []
    explanation = (
        "Every launch was a step of a job of Slurm. A round that a job's end cut off was made anew, and its "
        "earlier launches are compared with nothing."
    )
    columns = ["job", "partition", "nodes", "cores of each", "cores bound by", "launches"]
    table = blocks.table(columns, [[*facts, str(launches)] for facts, launches in jobs.items()])
    return [blocks.heading("The allocations", level=2), blocks.text(explanation), table]
