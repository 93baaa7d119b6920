"""How the numbers came about, and what the launches ran on."""

from collections.abc import Iterable

import pandas as pd

from common.records import manifest
from common.records.training import Record
from common.sessions import calibration
from common.sessions.folder import variables_in_words
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.tables.material import Material


def section(material: Material) -> list[Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers", level=2),
        blocks.items(
            [
                "Every launch is a fresh process. Windows of many steps are clocked, after a warm-up; the slowest rank "
                "of each window sets its cost, and a launch counts by its median window.",
                "A number is the median over n launches. Its interval goes from one launch to another (order "
                f"statistics) and covers the true median in at least 95 % of experiments; below n = {FEWEST_LAUNCHES} "
                "no such interval exists, and none is printed. No launch is dropped; those that stopped on the way to "
                "save checkpoints serve the certificate and the accuracy, and are no part of the throughput.",
                "Who is faster, or alike, is said by tests of pairs within rounds, corrected for how many there are. "
                "Two of the intervals above, apart or not, decide nothing. Exposed communication is the median over "
                "rounds of the difference between the launch with exchange and the one without.",
                "Weak scaling keeps the batch of each worker; strong scaling keeps the global batch. Launches of "
                "different scaling, preset or task never share a curve. A strategy's own options stand beside its "
                "name where they aren't at their default, and make a curve of their own; so do the hosts and the link "
                "between them where workers are on several, and virtual hosts never share one with real ones. Options "
                "that compute other maths are shown and not ranked.",
                "Speed-up is samples per second over the framework's undistributed base (the tables of speed name it), "
                "with the same batch per worker (weak) or the same global batch (strong); "
                "\u201cover own 1\u201d is that over one worker of the same strategy. Ratios are those of medians and "
                "carry no interval of their own. Efficiency is the speed-up per worker.",
                "Time to first step runs from the start of the process to the end of its first step and is no part of "
                "the throughput.",
                "The oracle is float64 NumPy on the same rows; see the section on the same maths. Asynchronous "
                "launches are held to it with one worker only: with more, a step is one worker's update, and the "
                "order of the updates isn't repeatable.",
                calibration.for_report(material.results.folder),
            ]
        ),
    ]


def machine(material: Material) -> list[Block]:
    """What the launches ran on, with which versions, settings and order."""
    results = material.results
    records = list(results.records.values())
    ok = [record for record in records if record.status == "ok"] or records
    rows = [
        [
            "processor",
            _values(f"{record.host.processor or '?'}, {record.host.cores or '?'} cores" for record in ok),
        ],
        ["memory", _values(f"{record.host.memory_bytes / 2**30:.1f} GiB" for record in ok if record.host.memory_bytes)],
        ["GPUs", _values(", ".join(record.host.gpus) or "none" for record in ok)],
        ["system", _values(record.host.system or "?" for record in ok)],
        ["computed on", _values(record.device for record in ok)],
        ["threads per worker", _values(str(record.threads_per_worker) for record in ok)],
        ["kept on their cores", blocks.share_of_launches(bool(record.pinned_cores) for record in ok)],
        ["private network", blocks.share_of_launches(record.private_network for record in ok)],
        ["commit", _values(record.git_commit or "unknown" for record in ok)],
        ["measured", _values(sorted(record.started_at[:16].replace("T", " ") + " UTC" for record in ok), ends=True)],
        ["order of the launches", _order(results.plan)],
    ]
    rows.append(["schema of the records", _values(str(record.schema_version) for record in records)])
    rows.append(["seeds", _values(str(seed) for seed in sorted({record.task.seed for record in ok}))])
    rows.append(
        ["rows of the datasets, SHA-256", _values(sorted(_data(record) for record in ok if record.data_sha256))]
    )
    rows.append(["all records, SHA-256", results.digest])
    rows.append(["digests of all files", manifest.summary(results.differences)])
    over_hosts = any(record.hosts for record in records)
    rows.append(["variables that frameworks obey", variables_in_words(results.variables, over_hosts)])
    rows.append(["to repeat it", results.command or "unknown: the folder has no command.txt"])
    versions = {f"{package} {version}" for record in ok for package, version in record.versions.items()}
    rows.append(["versions", ", ".join(sorted(versions))])
    backends: dict[str, set[str]] = {}
    for record in ok:
        backends.setdefault(record.strategy, set()).add(record.backend or "none")
    rows.append(["carried by", "; ".join(f"{name}: {', '.join(sorted(backends[name]))}" for name in sorted(backends))])
    return [
        blocks.heading("Machine, versions and settings", level=2),
        blocks.table(["", ""], rows, [], left=(0, 1), wide={1: 1}),
    ]


def _values(values: Iterable[str], ends: bool = False) -> str:
    """Distinct values in order; with `ends` only the first and the last."""
    distinct = list(dict.fromkeys(values))
    if ends and len(distinct) > 1:
        return f"{distinct[0]} to {distinct[-1]}"
    return "; ".join(distinct) or blocks.DASH


def _data(record: Record) -> str:
    return f"{record.task.preset} {record.data_sha256}"


def _order(plan: pd.DataFrame | None) -> str:
    if plan is None:
        return "no plan: launched one by one"
    seeds = ", ".join(str(seed) for seed in sorted(set(plan["order_seed"]))) if "order_seed" in plan else "unknown"
    return f"shuffled across strategies, seed {seeds}"
