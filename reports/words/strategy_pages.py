"""A page for each strategy: what makes it distributed, how its launches went, and what they were set to."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from common.records import metrics
from common.records.training import Record
from reports import blocks
from reports.blocks import Block
from reports.charts import style
from reports.charts.style import DAGGER, Style
from reports.charts.windows import WINDOW_QUANTILES, Bar, Quantiles, windows
from reports.tables import summaries
from reports.tables.decomposition import REST
from reports.tables.material import Material
from reports.words import decomposition

_MOST_ROWS = 8  # Of a figure.
_MOST_QUOTED = 14  # Lines of source.


@dataclass(frozen=True)
class _Shared:
    """What all pages are made from."""

    material: Material
    looks: Mapping[str, Style]
    limits: Mapping[str, Mapping[tuple[str, int], str]]
    """Of each regime, `decomposition.limits`."""
    everywhere: set[str]
    """The packages that the launches of every family have; none where there is one family."""


def section(material: Material) -> list[Block]:
    """A part for each strategy that was measured, with all of its labels, in the order of their names.

    A figure shows the first regime in which its strategy was measured.
    """
    if material.launches.empty:
        return []
    shared = _Shared(
        material=material,
        looks=style.styles(material.colors),
        limits={name: decomposition.limits(rows) for name, rows in material.scaling.groupby("regime")},
        everywhere=_everywhere(_records_of(material, material.launches)),
    )
    parts: list[Block] = []
    for strategy, launches in material.launches.groupby("bare_strategy"):
        parts += _page(shared, str(strategy), launches)
    return parts


def _records_of(material: Material, launches: pd.DataFrame) -> list[Record]:
    return [material.results.records[name] for name in launches["launch"]]


def _page(shared: _Shared, strategy: str, launches: pd.DataFrame) -> list[Block]:
    regime = next(name for name in shared.material.names if (launches["regime"] == name).any())
    records = _records_of(shared.material, launches)
    head = [blocks.heading(strategy, level=2), blocks.text(_about(shared, records, launches, regime))]
    head += _quotations(records)
    return [*head, _figure(shared, strategy, launches, regime), _settings(shared, records)]


def _about(shared: _Shared, records: Sequence[Record], launches: pd.DataFrame, regime: str) -> str:
    """Say what the strategy is, and what limits it with most workers that have cores of their own."""
    first = records[0]
    said = f"A strategy of {first.family}" if first.family else "A strategy"
    said += f"; {first.framework} computes." if first.framework else "."
    if first.base:
        said += f" Its speed-ups are over {first.base}, which distributes nothing."
    else:
        said += " It distributes nothing: strategies that do are set beside it."
    asynchronous = launches.loc[~launches["synchronous"].astype(bool), "strategy"].unique()
    if len(asynchronous):
        whose = (
            f"The updates of {blocks.listed(sorted(asynchronous))}" if launches["synchronous"].any() else "Its updates"
        )
        said += f" {whose} are asynchronous: a step is one worker's."
    workers, name, words = _limit(shared, launches, regime)
    if words:
        label = f" ({name})" if name != first.strategy else ""
        said += f" On {shared.material.names[regime]} with {blocks.workers(workers)}{label}, {words}."
    return said


def _limit(shared: _Shared, launches: pd.DataFrame, regime: str) -> tuple[int, str, str]:
    """What limits a strategy with most workers that have cores of their own: how many, its name with label, and what.

    Nothing is said, with 0 workers, where no such world was measured beside its base.
    """
    found = shared.material.scaling
    found = found[(found["regime"] == regime) & found["strategy"].isin(launches["strategy"])]
    found = found[~found["oversubscribed"].astype(bool) & (found["part"] != REST)]
    if found.empty:
        return 0, "", ""
    workers = int(found["workers"].max())
    rows = found[found["workers"] == workers].sort_values("strategy")
    name = rows["strategy"].iloc[0]
    counts = blocks.span(rows.loc[rows["strategy"] == name, "n"])
    return workers, name, f"{shared.limits[regime][name, workers]}; n = {counts}"


def _quotations(records: Sequence[Record]) -> list[Block]:
    """The lines by which the newest record that has any says what distributes."""
    told = [record for record in records if record.distributed_by]
    if not told:
        return []
    newest = max(told, key=lambda record: record.started_at)
    quoted, left = [], _MOST_QUOTED
    for each in newest.distributed_by:
        lines = each.code.splitlines()
        shown = lines if len(lines) <= left else [*lines[: max(0, left - 1)], "…"]
        quoted.append(blocks.code(newest.script, each.line, shown))
        left -= len(shown)
        if left <= 1:
            break
    return quoted


# The figure


def _bars(shared: _Shared, launches: pd.DataFrame) -> tuple[list[Bar], int]:
    """The bars of the figure, and how many configurations it has no room for.

    Launches without a label come first. Where there are too many, other labels have only their largest world with a
    core for each thread.
    """
    known = launches.groupby(["label", "workers"], as_index=False).agg(
        strategy=("strategy", "first"), oversubscribed=("oversubscribed", "any")
    )
    drawn = known
    if len(known) > _MOST_ROWS:
        first = known["label"] == known["label"].iloc[0]
        fitting = known[~first & ~known["oversubscribed"]]
        largest = fitting.loc[fitting.groupby("label")["workers"].idxmax()]
        drawn = pd.concat([known[first].head(math.ceil(_MOST_ROWS / 2)), largest]).head(_MOST_ROWS)
    plain = "one host" if launches["placement"].any() else "defaults"
    bars = []
    for row in drawn.to_dict("records"):
        own = launches[(launches["strategy"] == row["strategy"]) & (launches["workers"] == row["workers"])]
        options = row["label"] or (plain if drawn["label"].nunique() > 1 else "")
        workers = blocks.workers(int(row["workers"])) + DAGGER * row["oversubscribed"]
        name, color = f"{workers}\n{options}".strip(), shared.looks[row["strategy"]].color
        for exchange, same in sorted(own.groupby("exchange"), reverse=True):
            bars.append(_bar(name, color, bool(exchange), same, _records_of(shared.material, same)))
    return bars, len(known) - len(drawn)


def _bar(name: str, color: str, exchange: bool, launches: pd.DataFrame, records: Sequence[Record]) -> Bar:
    values = [1000 * value for record in records for value in metrics.window_seconds_per_step(record)]
    quantiles = Quantiles(*np.quantile(values, WINDOW_QUANTILES).tolist())
    return Bar(name, color, exchange, len(values), quantiles, (1000 * launches["seconds"]).tolist())


def _figure(shared: _Shared, strategy: str, launches: pd.DataFrame, regime: str) -> Block:
    bars, left_out = _bars(shared, summaries.over_fastest_links(launches[launches["regime"] == regime]))
    counts, configuration = blocks.span(pd.Series([bar.windows for bar in bars])), shared.material.names[regime]
    caption = (
        f"{blocks.capitalized(configuration)}. A bar has all windows of n launches ({counts}), each by its "
        "slowest rank: thick is the middle half, pale 5 % to 95 %, a thin line reaches to the ends (» farther), the "
        "median stands across."
    )
    if left_out:
        caption += f" {left_out} more combinations of options and workers are in the tables alone."
    medians = [
        f"{bar.title}{'' if bar.exchange else ' without exchange'} "
        f"{blocks.number(bar.quantiles.median)} ms per step (n = {len(bar.medians)})"
        for bar in bars
    ]
    alternative = f"Windows of {strategy}, {configuration}: medians are {blocks.listed(medians)}."
    return blocks.figure("windows", partial(windows, bars), caption, alternative)


# The settings


def _settings(shared: _Shared, records: Sequence[Record]) -> Block:
    labels = sorted({record.label for record in records if record.label})
    defaults = any(not record.label for record in records)
    options = [*(["all at their defaults"] if defaults else []), *labels]
    carried: dict[str, list[str]] = {}
    for record in records:
        carried.setdefault(record.backend or "nothing told", []).append(record.label or "defaults")
    carriers = [
        f"{backend} ({'; '.join(dict.fromkeys(using))})" if len(carried) > 1 else backend
        for backend, using in carried.items()
    ]
    beside = sorted({record.processes_beside for record in records if record.processes_beside})
    versions = {
        f"{package} {version}"
        for record in records
        for package, version in record.versions.items()
        if package not in shared.everywhere
    }
    rows = [
        ["launches", f"{len(records)} measured: {_measured(records)}"],
        ["options", "; ".join(options)],
        ["threads per worker", _distinct(str(record.threads_per_worker) for record in records)],
        ["carried by", "; ".join(carriers)],
        ["kept on their cores", blocks.share_of_launches(bool(each.pinned_cores) for each in records)],
        ["private network", blocks.share_of_launches(each.private_network for each in records)],
        ["spread over", "; ".join(sorted({each.placement for each in records if each.placement}, key=blocks.natural))],
        ["processes beside the workers", ", ".join(map(str, beside))],
        ["versions", ", ".join(sorted(versions))],
        ["script", _distinct(record.script for record in records if record.script)],
    ]
    return blocks.table(["", ""], [row for row in rows if row[1]], [], left=(0, 1), wide={1: 1})


def _measured(records: Sequence[Record]) -> str:
    with_exchange = sum(record.exchange for record in records)
    return f"{with_exchange} with exchange, {len(records) - with_exchange} without"


def _everywhere(records: Sequence[Record]) -> set[str]:
    by_family: dict[str, set[str]] = {}
    for record in records:
        by_family.setdefault(record.family, set()).update(record.versions)
    return set.intersection(*by_family.values()) if len(by_family) > 1 else set()


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
