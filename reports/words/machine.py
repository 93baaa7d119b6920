"""What launches ran on and with, and what it takes to repeat them: the same facts in every report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from common.records import manifest, variables
from common.records.header import Header, Machine
from reports import blocks
from reports.tables.material import Material
from reports.tables.results import Origin

Kind = TypeVar("Kind", bound=Header)


def ended_ok(records: Iterable[Kind]) -> list[Kind]:
    """The launches that ended ok, or all where none did."""
    told = list(records)
    return [record for record in told if record.status == "ok"] or told


def facts(records: Sequence[Header]) -> dict[str, str]:
    """By what it is, in words, what these launches ran on."""
    known = [record.host for record in records if record.host != Machine()]
    started = sorted(record.started_at[:16].replace("T", " ") for record in records)
    return {
        "processor": distinct(
            f"{host.processor or '?'}, {host.cores or '?'} cores"
            + (f", a quota of {host.core_limit:g}" if host.core_limit else "")
            for host in known
        ),
        "memory": distinct(f"{host.memory_bytes / 2**30:.1f} GiB" for host in known if host.memory_bytes),
        "GPUs": distinct(", ".join(host.gpus) or "none" for host in known),
        "system": distinct(host.system or "?" for host in known),
        "computed on": distinct("cpu" if "cpu" in record.device.lower() else record.device for record in records),
        "threads per worker": distinct(str(record.threads_per_worker) for record in records),
        "kept on their cores": blocks.share_of_launches(bool(record.pinned_cores) for record in records),
        "private network": blocks.share_of_launches(record.private_network for record in records),
        "commit": distinct(record.git_commit or "unknown" for record in records),
        "measured": " to ".join(dict.fromkeys([*started[:1], *started[-1:]])) + " UTC" if started else blocks.DASH,
    }


def to_repeat(origin: Origin, records: Sequence[Header]) -> dict[str, str]:
    """By what it is, in words, what it takes to make the same session again, and to know that it's the same."""
    packages = {f"{package} {version}" for record in ended_ok(records) for package, version in record.versions.items()}
    return {
        "all records, SHA-256": origin.digest,
        "digests of all files": manifest.summary(origin.differences),
        "variables that frameworks obey": variables.in_words(origin.variables, any(record.hosts for record in records)),
        "to repeat it": origin.command or "unknown: the folder has no command.txt",
        "versions": distinct(sorted(packages), ", "),
    }


def table(told: Mapping[str, str]) -> blocks.Block:
    """The facts, a row each."""
    return blocks.table(["", ""], [[name, fact] for name, fact in told.items()], wide={1: 1})


def section(material: Material) -> list[blocks.Block]:
    """What the launches of a comparison ran on, with which versions, settings and order."""
    results = material.results
    records = [*results.records.values()]
    ok = ended_ok(records)
    seeds = sorted({record.task.seed for record in ok})
    named = ((f"{each.task.preset} ({each.data})" if each.data else each.task.preset, each.data_sha256) for each in ok)
    backends: dict[str, set[str]] = {}
    for record in ok:
        backends.setdefault(record.strategy, set()).add(record.backend or "none")
    order = "no plan: launched one by one"
    if results.plan is not None:
        order_seeds = sorted(set(results.plan.get("order_seed", ["unknown"])))
        order = f"shuffled across strategies, seed {', '.join(map(str, order_seeds))}"
    carried = (f"{name}: {', '.join(sorted(own))}" for name, own in sorted(backends.items()))
    told = facts(ok) | {
        "order of the launches": order,
        "schema of the records": distinct(str(record.schema_version) for record in records),
        "seeds": distinct(map(str, seeds)),
        "rows of the datasets, SHA-256": distinct(sorted(f"{name} {digest}" for name, digest in named if digest)),
        **to_repeat(results.origin, records),
        "carried by": distinct(carried),
    }
    return [blocks.heading("Machine, versions and settings", level=2), table(told)]


def distinct(values: Iterable[str], between: str = "; ") -> str:
    """Each value once, in order."""
    return between.join(dict.fromkeys(filter(None, values))) or blocks.DASH
