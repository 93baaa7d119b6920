"""The exchange of a step replayed alone, beside what the step shows of it: what is left over is overlap or contention.

A replay sends the messages of a step without its computing. Where the step shows less than they take alone, a part of
them is hidden; where it shows more, they take longer beside computing.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from common.records.collectives import Cell, CollectivesRecord, transfer_seconds
from common.records.trace import STEP
from common.statistics.intervals import Interval
from reports.tables import pairs
from reports.tables.decomposition import Configuration, Steps, configuration

OVERLAP, CONTENTION = "overlap", "contention"


@dataclass(frozen=True)
class Exchange:
    """The step of one configuration beside its replays, all times in seconds."""

    regime: str
    strategy: str
    workers: int
    oversubscribed: bool
    library: str
    """What carried the messages in their replay."""
    source: str
    """What told these messages."""
    messages: tuple[int, ...]
    """Of a step, in each replay."""
    size_bytes: float
    """Of the messages of a step together, the median over replays."""
    sent_bytes: float
    """That all ranks sent in a replayed step, packet headers included, the median over replays; NaN: not counted."""
    step_sent_bytes: float
    """The same in a whole step."""
    exposed: Interval | None
    """Exposed communication of the step, over rounds."""
    replay: Interval | None
    """What the messages take alone, over launches."""
    leftover: Interval | None
    """The first less the second, over rounds."""
    under_way_seconds: float
    """That at least one message was under way in a traced step; NaN where no tracer tells."""
    under_way_steps: int
    verdict: str
    replays: tuple[str, ...]
    """The stems of their records."""


def table(launches: pd.DataFrame, replays: Mapping[str, CollectivesRecord], steps: Steps) -> list[Exchange]:
    """One row for each configuration whose step was replayed.

    `launches` are those of `summaries`, `steps` those of `decompose`. A replay counts by the median over its calls.
    """
    measured = {row["launch"]: row for row in launches.to_dict("records")}
    groups: dict[Configuration, list[str]] = {}
    for stem, record in replays.items():
        launch = record.replayed and measured.get(record.replayed.launch)
        if launch and not trouble(record):
            groups.setdefault(configuration(launch), []).append(stem)
    found = []
    for key in sorted(groups):
        records = [replays[stem] for stem in groups[key]]
        own = pd.DataFrame([measured[record.replayed.launch] for record in records])
        found.append(_exchange(key, tuple(groups[key]), records, own, steps[key].exposed))
    return found


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


def _exchange(
    key: Configuration,
    stems: tuple[str, ...],
    records: Sequence[CollectivesRecord],
    launches: pd.DataFrame,
    exposed: pd.Series,
) -> Exchange:
    cells = [_step(record) for record in records]
    seconds = pd.Series([statistics.median(transfer_seconds(cell)) for cell in cells])
    in_rounds = seconds.groupby([record.repetition for record in records]).median()
    leftover = pairs.interval((exposed - in_rounds).dropna())
    # All replays of a trace have what it told.
    traces = {tuple(record.replayed.under_way_seconds) for record in records} - {()}
    return Exchange(
        *key,
        oversubscribed=bool(launches["oversubscribed"].any()),
        library=records[0].title,
        source=records[0].replayed.source,
        messages=tuple(len(cell.messages) for cell in cells),
        size_bytes=statistics.median(cell.size_bytes for cell in cells),
        sent_bytes=pd.Series([cell.sent_bytes for cell in cells], dtype=float).median(),
        step_sent_bytes=launches["wire_bytes"].median(),
        exposed=pairs.interval(exposed),
        replay=pairs.interval(seconds),
        leftover=leftover,
        under_way_seconds=statistics.median(map(statistics.median, traces)) if traces else math.nan,
        under_way_steps=sum(map(len, traces)),
        verdict=pairs.side(leftover, 0, (OVERLAP, CONTENTION)),
        replays=stems,
    )
