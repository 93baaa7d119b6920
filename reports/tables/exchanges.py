"""The exchange of a step replayed alone, beside what the step shows of it: what is left over is overlap or contention.

A replay sends the messages of a step without its computing. Where the step shows less than they take alone, a part of
them is hidden; where it shows more, they take longer beside computing.
"""

import math
import statistics
from collections.abc import Mapping

import pandas as pd

from common.records.collectives import Cell, CollectivesRecord, transfer_seconds
from common.records.trace import STEP
from reports.tables import columns, pairs
from reports.tables.decomposition import Configuration, Steps

OVERLAP, CONTENTION = "overlap", "contention"
_KEYS = ["regime", "strategy", "workers"]
SENT = ("sent_bytes", "step_sent_bytes")


def table(launches: pd.DataFrame, replays: Mapping[str, CollectivesRecord], steps: Steps) -> pd.DataFrame:
    """One row for each regime, strategy and number of workers whose step was replayed, all times in seconds.

    `launches` are those of `summaries`, `steps` those of `decompose`. A replay counts by the median over its calls, a
    trace by the median over its steps.
    """
    found = _measured(launches, replays)
    rows = []
    for key, group in found.groupby(_KEYS):
        rows.append(dict(zip(_KEYS, key, strict=True)) | _row(group, steps[Configuration(*key)].exposed))
    return columns.table("exchanges", rows)


def _measured(launches: pd.DataFrame, replays: Mapping[str, CollectivesRecord]) -> pd.DataFrame:
    """One row for each good replay whose launch was measured."""
    steps, rows = {row["launch"]: row for row in launches.to_dict("records")}, []
    for stem, record in replays.items():
        launch = record.replayed and steps.get(record.replayed.launch)
        if launch is None or trouble(record):
            continue
        cell = _step(record)
        rows.append(
            launch
            | {"step_sent_bytes": launch["wire_bytes"], "sent_bytes": cell.sent_bytes}
            | {"replay": stem, "round": record.repetition, "seconds": statistics.median(transfer_seconds(cell))}
            | {"messages": len(cell.messages), "size_bytes": cell.size_bytes, "library": record.title}
            | {"source": record.replayed.source, "under_way": tuple(record.replayed.under_way_seconds)}
        )
    return pd.DataFrame(rows, columns=None if rows else _KEYS)


def _step(record: CollectivesRecord) -> Cell | None:
    return next((cell for cell in record.cells if cell.collective == STEP), None)


def trouble(record: CollectivesRecord) -> str:
    """Why a replay tells no time; empty where it does."""
    cell = _step(record)
    if record.status != "ok" or cell is None:
        return record.reason or "It ended without having sent anything."
    if cell.status != "ok":
        return cell.reason or "It ended without a reason."
    return "Its ranks were on several hosts, whose clocks aren't one." if len(record.hosts) > 1 else ""


def _row(group: pd.DataFrame, exposed: pd.Series) -> dict[str, object]:
    """The columns on the replays of one cell, beside what its step shows of its exchange by round."""
    # All replays of a trace have what it told.
    traces = {trace for trace in group["under_way"] if trace}
    leftover = pairs.medians("leftover", (exposed - group.groupby("round")["seconds"].median()).dropna())
    ends = [leftover[f"leftover_{name}"] for name in ("low", "high", "n")]
    return {
        **{name: group[name].iloc[0] for name in ("library", "source")},
        **{"oversubscribed": bool(group["oversubscribed"].any()), "replays": tuple(group["replay"])},
        **{"fewest_messages": group["messages"].min(), "most_messages": group["messages"].max()},
        **{"size_bytes": group["size_bytes"].median(), "under_way_steps": sum(map(len, traces))},
        **{name: group[name].astype(float).median() for name in SENT},
        "under_way_seconds": statistics.median(map(statistics.median, traces)) if traces else math.nan,
        **pairs.medians("replay", group["seconds"]),
        **pairs.medians("exposed", exposed),
        **leftover,
        "verdict": pairs.side(*ends, 0, (OVERLAP, CONTENTION)),
    }
