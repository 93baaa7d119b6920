"""What a step consists of, run by itself: its messages replayed, and a framework's own products and transport.

A replay sends the messages of a step without its computing, and stands beside what the step shows of its exchange.
Where the step shows less than they take alone, a part of them is hidden; where it shows more, they take longer beside
computing.
"""

import math
import statistics

import pandas as pd

from common.observations import answers
from common.observations.launches import CONFIGURATION, NAMES
from common.records import ceiling
from common.records.collective_times import Cell, CollectivesRecord, Replayed, transfer_seconds
from common.records.trace import STEP
from reports.tables import columns
from reports.tables.decomposition import EXPOSED
from reports.tables.results import Results

OVERLAP, CONTENTION = "overlap", "contention"

_STEP = ["regime", "preset", "strategy", "family", "framework", "backend", "workers", "rows", "is_base"]


def table(launches: pd.DataFrame, results: Results, steps: pd.DataFrame) -> pd.DataFrame:
    """One row for each configuration whose step was replayed, then one for each reason why others weren't.

    `launches` are those of `summaries`, `steps` those of `decomposition`. A replay counts by the median over its calls.
    """
    measured, good = {*launches["launch"]}, []
    refused = [
        (record.strategy, record.world_size, record.reason, stem)
        for stem, record in results.traces.items()
        if record.status != "ok"
    ]
    for stem, record in results.replays.items():
        replayed = record.replayed or Replayed(strategy=record.title, launch="", source="")
        cell = next((cell for cell in record.cells if cell.collective == STEP), None)
        reason = _trouble(record, cell)
        if not reason and replayed.launch not in measured:
            reason = f"Its launch {replayed.launch} of the whole step wasn't measured."
        if reason:
            refused.append((replayed.strategy, record.world_size, reason, stem))
            continue
        traced = replayed.under_way_seconds
        good.append(
            {
                "replays": stem,
                "launch": replayed.launch,
                "round": record.repetition,
                "replay_seconds": statistics.median(transfer_seconds(cell)),
                "library": record.title,
                "source": replayed.source,
                "messages": len(cell.messages),
                "size_bytes": cell.size_bytes,
                "sent_bytes": math.nan if cell.sent_bytes is None else cell.sent_bytes,
                "trace": tuple(traced),
                "under_way_seconds": statistics.median(traced) if traced else math.nan,
                "under_way_steps": len(traced),
            }
        )
    tables = [_exchanges(pd.DataFrame(good).merge(launches, on="launch"), steps)] if good else []
    keys = ["strategy", "workers", "reason"]
    refusals = pd.DataFrame(refused, columns=[*keys, "replays"]).groupby(keys)["replays"].agg(list).reset_index()
    tables.append(refusals.assign(regime="", messages=[[] for _ in range(len(refusals))]))
    return columns.table("exchanges", pd.concat(tables))


def _trouble(record: CollectivesRecord, cell: Cell | None) -> str:
    """Why a replay with this cell of the whole step tells no time; empty where it does."""
    if record.status != "ok" or cell is None:
        return record.reason or "It ended without having sent anything."
    if cell.status != "ok":
        return cell.reason or "It ended without a reason."
    return "Its ranks were on several hosts, whose clocks aren't one." if len(record.hosts) > 1 else ""


def _exchanges(replays: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """The rows of the `replays` that tell times, each with the columns of its launch."""
    by_round = [*NAMES, "round"]
    exposed = steps[steps["measure"] == EXPOSED].set_index(by_round)["value"]
    seconds = replays.set_index([*CONFIGURATION, "round"])["replay_seconds"].rename_axis(by_round)
    times = {EXPOSED: exposed, "replay_seconds": seconds}
    times["leftover_seconds"] = exposed - seconds.groupby(level=by_round).median()
    medians = answers.in_columns(answers.medians(answers.of_rounds(times)), [*times])
    exchanges = replays.groupby(CONFIGURATION).agg(
        oversubscribed=("oversubscribed", "any"),
        library=("library", "first"),
        source=("source", "first"),
        messages=("messages", lambda counts: sorted({*counts})),
        size_bytes=("size_bytes", "median"),
        sent_bytes=("sent_bytes", "median"),
        step_sent_bytes=("wire_bytes", "median"),
        replays=("replays", list),
    )
    # All replays of a trace have what it told.
    traces = replays.drop_duplicates([*CONFIGURATION, "trace"]).groupby(CONFIGURATION)
    exchanges = exchanges.join(traces.agg({"under_way_seconds": "median", "under_way_steps": "sum"})).reset_index()
    exchanges = exchanges.join(medians, on=CONFIGURATION).sort_values(["regime", "strategy", "workers"])
    return exchanges.assign(verdict=answers.sides(exchanges, "leftover_seconds", 0, OVERLAP, CONTENTION), reason="")


def ceilings(results: Results, launches: pd.DataFrame) -> pd.DataFrame:
    """Each base, and each strategy that was measured without exchange too, beside the ceiling of its framework."""
    # With the framework left as it is.
    good = [each for each in results.ceilings if each.status == "ok" and not each.variables]
    computing = {(each.framework, each.preset, each.rows): ceiling.step_seconds(each) for each in good if each.products}
    exchanging = {
        (each.family, each.preset, each.world_size, each.backend): ceiling.seconds_of(each.exchange)
        for each in good
        if each.exchange
    }
    undistributed = launches["bare_strategy"] == launches["named_base"]
    backends = launches["launch"].map({name: record.backend for name, record in results.records.items()})
    # A base has the rows of the whole batch; with weak scaling that is one worker's share as well.
    rows = launches["batch"].where(launches["scaling"] == "weak", launches["batch"] // launches["workers"])
    known = launches.assign(rows=rows, is_base=undistributed, backend=backends)
    groups = known[~known["exchange"] | undistributed].groupby(_STEP)["seconds"]
    measured = groups.agg(n="count", step_seconds="median").reset_index()
    products = zip(measured["framework"], measured["preset"], measured["rows"], strict=True)
    transports = zip(measured["family"], measured["preset"], measured["workers"], measured["backend"], strict=True)
    measured["products_seconds"] = [computing.get(key, math.nan) for key in products]
    measured["exchange_seconds"] = [exchanging.get(key, math.nan) for key in transports]
    return columns.table("ceilings", measured.dropna(subset=["products_seconds"]))
