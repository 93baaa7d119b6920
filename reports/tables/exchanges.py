"""The exchange of a step replayed alone, beside what the step shows of it: what is left over is overlap or contention.

A replay sends the messages of a step without its computing. Where the step shows less than they take alone, a part of
them is hidden; where it shows more, they take longer beside computing.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from common.records.collectives import Cell, CollectivesRecord, Replayed, transfer_seconds
from common.records.trace import STEP
from reports.tables import columns, pairs
from reports.tables.decomposition import StepKey, Steps, configuration

OVERLAP, CONTENTION = "overlap", "contention"


def table(launches: pd.DataFrame, replays: Mapping[str, CollectivesRecord], steps: Steps) -> pd.DataFrame:
    """One row for each configuration whose step was replayed, then one for each reason of replays that tell no time.

    `launches` are those of `summaries`, `steps` those of `decompose`. A replay counts by the median over its calls.
    """
    measured = {row["launch"]: row for row in launches.to_dict("records")}
    groups: dict[StepKey, list[str]] = {}
    refused: dict[tuple[str, int, str], list[str]] = {}
    for stem, record in replays.items():
        replayed = record.replayed or Replayed(strategy=record.title, launch="", source="")
        launch = measured.get(replayed.launch)
        step = f"Its launch {replayed.launch} of the whole step wasn't measured."
        if reason := trouble(record) or ("" if launch else step):
            refused.setdefault((replayed.strategy, record.world_size, reason), []).append(stem)
        else:
            groups.setdefault(configuration(launch), []).append(stem)
    rows = []
    for key in sorted(groups):
        records = [replays[stem] for stem in groups[key]]
        own = pd.DataFrame([measured[record.replayed.launch] for record in records])
        rows.append(_exchange(records, own, steps[key].exposed) | {"replays": groups[key]} | key._asdict())
    for (strategy, workers, reason), stems in sorted(refused.items()):
        about = {"regime": "", "strategy": strategy, "workers": workers, "reason": reason}
        rows.append(about | {"replays": stems, "messages": []})
    return columns.table("exchanges", rows)


def trouble(record: CollectivesRecord) -> str:
    """Why a replay tells no time; empty where it does."""
    cell = _step(record)
    if record.status != "ok" or cell is None:
        return record.reason or "It ended without having sent anything."
    if cell.status != "ok":
        return cell.reason or "It ended without a reason."
    return "Its ranks were on several hosts, whose clocks aren't one." if len(record.hosts) > 1 else ""


def _step(record: CollectivesRecord) -> Cell | None:
    return next((cell for cell in record.cells if cell.collective == STEP), None)


def _exchange(records: Sequence[CollectivesRecord], launches: pd.DataFrame, exposed: pd.Series) -> dict[str, object]:
    cells = [_step(record) for record in records]
    seconds = pd.Series([statistics.median(transfer_seconds(cell)) for cell in cells])
    in_rounds = seconds.groupby([record.repetition for record in records]).median()
    leftover = (exposed - in_rounds).dropna()
    # All replays of a trace have what it told.
    traces = {tuple(record.replayed.under_way_seconds) for record in records} - {()}
    return {
        "oversubscribed": bool(launches["oversubscribed"].any()),
        "library": records[0].title,
        "source": records[0].replayed.source,
        "messages": sorted({len(cell.messages) for cell in cells}),
        "size_bytes": statistics.median(cell.size_bytes for cell in cells),
        "sent_bytes": pd.Series([cell.sent_bytes for cell in cells], dtype=float).median(),
        "step_sent_bytes": launches["wire_bytes"].median(),
        **pairs.columns_of("exposed_seconds", exposed),
        **pairs.columns_of("replay_seconds", seconds),
        **pairs.columns_of("leftover_seconds", leftover),
        "under_way_seconds": statistics.median(map(statistics.median, traces)) if traces else math.nan,
        "under_way_steps": sum(map(len, traces)),
        "verdict": pairs.side(pairs.interval(leftover), 0, (OVERLAP, CONTENTION)),
        "reason": "",
    }
