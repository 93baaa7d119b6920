"""A page for each strategy: what makes it distributed, how its launches went, and what they were set to."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from common.records import metrics
from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.charts import strategy as strategy_charts
from reports.charts import style
from reports.charts.style import Style
from reports.tables import summaries
from reports.tables.decomposition import REST
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import decomposition

_MOST_GROUPS = 8  # Rows of a figure.
_MOST_WORLDS = 3  # Launches whose processor use is drawn.
_MOST_QUOTED = 14  # Lines of source.
_MOST_ROWS = 12  # Of all tables of a strategy.


@dataclass(frozen=True)
class _Shared:
    """What all pages are made from."""

    material: Material
    looks: Mapping[str, Style]
    records: Mapping[str, Record]
    names: Mapping[str, str]
    """The short names of the regimes, in the order in which they are shown."""
    limits: Mapping[str, Mapping[tuple[str, int], str]]
    """Of each regime, `decomposition.limits`."""
    everywhere: set[str]
    """The packages that the launches of every family have; none where there is one family."""
    exposed: Mapping[tuple, Mapping[str, object]]
    held: Mapping[tuple, Mapping[str, object]]
    """By regime, strategy and workers, the rows of `Material.split` and `Material.memory`."""


def section(material: Material, results: Results, regimes: Sequence[str]) -> list[Block]:
    """A part for each strategy that was measured, with all of its labels, in the order of their names.

    `regimes` are in the order in which they are shown: a figure shows the first in which its strategy was measured.
    Nothing where nothing was measured.
    """
    if material.launches.empty:
        return []
    names = material.names
    shared = _Shared(
        material=material,
        looks=style.styles(material.colors),
        records=results.records,
        names={name: names[name] for name in dict.fromkeys([*regimes, *names])},
        limits={name: decomposition.limits(rows) for name, rows in material.scaling.groupby("regime")},
        everywhere=_everywhere([results.records[name] for name in material.launches["launch"]]),
        exposed=_by_cell(material.split),
        held=_by_cell(material.memory),
    )
    parts = [blocks.new_page(), blocks.heading("Strategy by strategy")]
    for strategy, launches in material.launches.groupby("bare_strategy"):
        parts += _page(shared, str(strategy), launches)
    return parts


def _regime(shared: _Shared, launches: pd.DataFrame) -> str:
    """The first regime, of those that are shown, in which a strategy was measured."""
    return next(name for name in shared.names if (launches["regime"] == name).any())


def _page(shared: _Shared, strategy: str, launches: pd.DataFrame) -> list[Block]:
    regime = _regime(shared, launches)
    records = [shared.records[name] for name in launches["launch"]]
    head = [blocks.heading(strategy, level=2), blocks.text(_about(shared, records, launches, regime))]
    head += _quotations(records)
    settings = _settings(shared, records)
    here = summaries.over_fastest_links(launches[launches["regime"] == regime])
    groups, left_out = _groups(here)
    drawn = _drawn(shared, groups, here, regime)
    caption = _caption(shared.names[regime], drawn, left_out)
    height = sum(strategy_charts.heights(len(groups), len(drawn["processors"]) > 0)) / 2
    rows = _rows(shared, groups)
    draw = partial(strategy_charts.strategy, rows, **drawn, height=round(height, 1))
    figure = blocks.figure("strategy", draw, caption, _alternative(strategy, shared.names[regime], rows, drawn))
    return [*head, figure, *_tables(shared, launches), settings]


def _about(shared: _Shared, records: Sequence[Record], launches: pd.DataFrame, regime: str) -> str:
    """What it is, and what limits it with most workers that have cores of their own."""
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
        said += f" On {shared.names[regime]} with {blocks.workers(workers)}{label}, {words}."
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


def _groups(launches: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows of the figure with label, workers, strategy, oversubscribed; and how many more there would be.

    Without a label first. Where there are too many, other labels have only their largest world with
    a core for each thread.
    """
    known = launches.groupby(["label", "workers"], as_index=False).agg(
        strategy=("strategy", "first"), placement=("placement", "first"), oversubscribed=("oversubscribed", "any")
    )
    shown = known
    if len(known) > _MOST_GROUPS:
        first = known["label"] == known["label"].iloc[0]
        fitting = known[~first & ~known["oversubscribed"]]
        largest = fitting.loc[fitting.groupby("label")["workers"].idxmax()]
        shown = pd.concat([known[first].head(math.ceil(_MOST_GROUPS / 2)), largest]).head(_MOST_GROUPS)
    return shown.reset_index(drop=True), len(known) - len(shown)


def _rows(shared: _Shared, groups: pd.DataFrame) -> pd.DataFrame:
    """The rows of the figure with their colors, and with labels that say workers and, where they differ, options."""
    words = [blocks.workers(int(count)) for count in groups["workers"]]
    several = groups["label"].nunique() > 1
    plain = "one host" if groups["placement"].any() else "defaults"
    options = groups["label"].where(groups["label"] != "", plain) if several else groups["label"]
    return groups.assign(
        label=[f"{count}\n{option}" if option else count for count, option in zip(words, options, strict=True)],
        color=[shared.looks[name].color for name in groups["strategy"]],
    )


def _drawn(shared: _Shared, groups: pd.DataFrame, launches: pd.DataFrame, regime: str) -> dict[str, object]:
    """The tables of `strategy_charts.strategy`, and why those are empty that are."""
    place_of = {key: place for place, key in enumerate(zip(groups["strategy"], groups["workers"], strict=True))}
    windows, startups, middle = [], [], {}
    for (name, workers, exchange), own in launches.groupby(["strategy", "workers", "exchange"], sort=False):
        place = place_of.get((name, workers))
        if place is None:
            continue
        own_records = [shared.records[launch] for launch in own["launch"]]
        windows.append({"group": place, "exchange": bool(exchange)} | _distribution(own, own_records))
        if exchange:
            startups += _startup(place, own_records)
            ordered = own.sort_values(["seconds", "launch"])["launch"]
            middle[place] = shared.records[ordered.iloc[(len(ordered) - 1) // 2]]
    uses = [row for place in _worlds(groups, middle) for row in _processor_use(place, middle[place])]
    return {
        "windows": pd.DataFrame(windows).sort_values(["group", "exchange"], ascending=[True, False]),
        "parts": _parts(shared, place_of, regime),
        "startups": pd.DataFrame(startups),
        "processors": pd.DataFrame(uses, columns=["group", "part", "rank", "start", "end", "cores"]),
        "absent": {
            "parts": _undivided(shared.records[launches["launch"].iloc[0]], launches),
            "startups": "Not told.",
            "processors": "Processor use over time: the records don't tell when a window started, or what it computed.",
        },
    }


def _parts(shared: _Shared, place_of: Mapping[tuple[str, int], int], regime: str) -> pd.DataFrame:
    """The steps of a regime in their parts, with the `group` of the figure to which each belongs."""
    found = shared.material.scaling
    found = found[found["regime"] == regime]
    places = [place_of.get(key) for key in zip(found["strategy"], found["workers"], strict=True)]
    return found.assign(group=places).dropna(subset=["group"]).astype({"group": int})


def _distribution(launches: pd.DataFrame, records: Sequence[Record]) -> dict[str, object]:
    values = [1000 * value for record in records for value in metrics.window_seconds_per_step(record)]
    quantiles = np.quantile(values, strategy_charts.WINDOW_QUANTILES).tolist()
    medians = (1000 * launches["seconds"]).tolist()
    return {"n": len(records), "count": len(values), "quantiles": quantiles, "medians": medians}


def _startup(place: int, records: Sequence[Record]) -> list[dict[str, object]]:
    """The medians of the parts of the start-up, of those records that tell them."""
    names = strategy_charts.STARTUP_PARTS
    told = [record.startup_seconds for record in records if record.startup_seconds]
    if not told:
        return []
    return [
        {"group": place, "n": len(told)}
        | {name: float(np.median([getattr(each, name) for each in told])) for name in names}
    ]


def _worlds(groups: pd.DataFrame, middle: Mapping[int, Record]) -> list[int]:
    """The rows whose processor use is drawn: of the first label, the smallest world and the largest ones."""
    of_first = [place for place in groups.index[groups["label"] == groups["label"].iloc[0]] if place in middle]
    told = [place for place in of_first if _processor_use(place, middle[place])]
    return told if len(told) <= _MOST_WORLDS else [told[0], *told[1 - _MOST_WORLDS :]]


def _processor_use(place: int, record: Record) -> list[dict[str, object]]:
    """How many cores the process of each rank kept busy: in each part of the start-up, of one rank, and each window."""
    rows, start = [], 0.0
    if record.startup_seconds and record.startup_processor_seconds:
        for part in strategy_charts.STARTUP_PARTS:
            seconds = getattr(record.startup_seconds, part)
            if seconds > 0:
                cores = getattr(record.startup_processor_seconds, part) / seconds
                rows.append({"part": part, "rank": math.nan, "start": start, "end": start + seconds, "cores": cores})
            start += seconds
    for window in record.windows:
        if window.started_seconds is not None and window.own_seconds is not None:
            start, cores = window.started_seconds, window.own_seconds / window.seconds
            about = {"part": "", "rank": window.rank, "start": start, "end": start + window.seconds}
            rows.append(about | {"cores": cores})
    return [{"group": place} | row for row in rows] if any(row["part"] == "" for row in rows) else []


def _undivided(record: Record, launches: pd.DataFrame) -> str:
    if record.base is None:
        return "Nothing to divide: it distributes nothing, so its step is the ideal one."
    if not launches["exchange"].any():
        return "Not divided: no launch here exchanged gradients."
    if not launches["synchronous"].any():
        return "Not divided: the updates are asynchronous, and each belongs to one worker."
    return f"Not divided: {record.base} wasn't measured on the same work."


def _caption(regime: str, drawn: Mapping[str, object], left_out: int) -> str:
    windows, startups, processors = drawn["windows"], drawn["startups"], drawn["processors"]
    sentences = [
        f"{blocks.capitalized(regime)}.",
        f"Windows: all of n launches, {blocks.span(windows['count'])} in a bar, of each the slowest rank; thick the "
        "middle half, pale up to 5 % and 95 %, a thin line up to the ends (» farther), the median across.",
    ]
    if len(drawn["parts"]):
        n = blocks.span(drawn["parts"]["n"])
        sentences.append(f"Step: medians over rounds (n = {n}), as in \u201cWhy not N times\u201d.")
    if len(startups):
        n = blocks.span(startups["n"])
        sentences.append(f"First step: of the slowest rank, medians over launches (n = {n}).")
    if len(processors):
        several = processors.dropna(subset=["rank"]).groupby("group")["rank"].nunique().max() > 1
        lines = "a line for each rank (even ones wide and pale)" if several else "the only process with a clock"
        sentences += [
            f"Processor use: the launch in the middle (n = 1 each), the slowest rank's start-up, then {lines}.",
            "It has all threads of those processes and nothing of others, such as servers or loaders; the warm-up "
            "isn't read.",
        ]
    if left_out:
        sentences.append(f"{left_out} more combinations of options and workers are in the tables alone.")
    return " ".join(sentences)


def _alternative(strategy: str, regime: str, groups: pd.DataFrame, drawn: Mapping[str, object]) -> str:
    """What the figure says to who can't see it: the medians of its bars."""
    told = []
    for row in drawn["windows"].to_dict("records"):
        group = groups.iloc[row["group"]]
        name = group["label"].replace("\n", ", ")
        without = "" if row["exchange"] else " without exchange"
        told.append(f"{name}{without} {blocks.number(row['quantiles'][3])} ms per step (n = {row['n']})")
    more = ["the step in its parts"] if len(drawn["parts"]) else []
    more += ["the time to the first step"] if len(drawn["startups"]) else []
    more += ["processor use over time"] if len(drawn["processors"]) else []
    return (
        f"Windows of {strategy}, {regime}: medians are {blocks.listed(told)}. Also {blocks.listed([*more, 'a key'])}."
    )


# The table and the settings


def _tables(shared: _Shared, launches: pd.DataFrame) -> list[Block]:
    """The cells with exchange in numbers, a table for each regime, as long as there is room for a whole one."""
    cells = shared.material.cells
    own = cells[cells["strategy"].isin(launches["strategy"]) & cells["exchange"].astype(bool)]
    tables, left_out, room = [], 0, _MOST_ROWS
    for regime in shared.names:
        rows = own[own["regime"] == regime]
        rows = rows.assign(order=rows["label"].map(blocks.natural)).sort_values(["order", "workers"])
        if rows.empty:
            continue
        if tables and len(rows) > room:
            left_out += len(rows)
            continue
        tables.append(_table(shared, rows.head(_MOST_ROWS), launches, is_first=not tables))
        left_out += len(rows) - len(rows.head(_MOST_ROWS))
        room -= len(rows)
    if left_out:
        tables[-1]["notes"].append(f"{left_out} more of its rows are in the tables of all strategies.")
    return tables


def _table(shared: _Shared, cells: pd.DataFrame, launches: pd.DataFrame, is_first: bool) -> Block:
    """The cells of one regime; columns that no cell has a number for are left out."""
    regime = cells["regime"].iloc[0]
    trained = launches[launches["exchange"].astype(bool) & (launches["regime"] == regime)]
    peaks = trained.groupby(["strategy", "workers"])["peak_bytes"].max().to_dict()
    plain = "one host" if cells["placement"].any() else "defaults"
    rows = [_row(shared, cell, peaks, plain) for cell in cells.to_dict("records")]
    # Broken where they may be, so that no number has to be.
    is_spread = bool(cells["placement"].any())
    columns = [
        "options, hosts" if is_spread else "options",
        "workers",
        "n",
        "ms per\nstep",
        "95 %\ninterval",
        "samples/s",
        "speed-up",
    ]
    columns += ["exposed,\nms (n)", "95 %\ninterval", "MB\nsent", "by\nformula", "process,\nMB", "holds,\nMB"]
    columns += ["first\nstep, s"]
    kept = [place for place in range(len(columns)) if any(row[place] != blocks.DASH for row in rows)]
    if not cells["label"].any():
        kept.remove(0)
    shown = [[row[place] for place in kept] for row in rows]
    named = {columns[place].replace("\n", " ") for place in kept}
    notes = _notes(shared.names[regime], cells, named if is_first else set())
    return blocks.table([columns[place] for place in kept], shown, notes, left=(0,) if 0 in kept else ())


def _row(shared: _Shared, cell: Mapping[str, object], peaks: Mapping[tuple, float], plain: str) -> list[str]:
    """A cell in numbers, named by its label, or by what is `plain`."""
    world = (cell["strategy"], cell["workers"])
    key = (cell["regime"], *world)
    exposed, held = shared.exposed.get(key, {}), shared.held.get(key, {})
    known = exposed.get("exposed_n", 0) > 0
    difference = f"{blocks.milliseconds(exposed['exposed_seconds'])} ({exposed['exposed_n']})" if known else blocks.DASH
    return [
        cell["label"] or plain,
        *[f"{cell['workers']}{'†' if cell['oversubscribed'] else ''}", str(cell["n"])],
        *[
            blocks.milliseconds(cell["seconds"]),
            blocks.interval_in_milliseconds(cell["low_seconds"], cell["high_seconds"]),
        ],
        *[f"{cell['samples_per_second']:,.0f}", blocks.ratio(cell["speed_up"])],
        *[
            difference,
            blocks.interval_in_milliseconds(*(exposed.get(f"exposed_{end}", math.nan) for end in ("low", "high"))),
        ],
        *[blocks.megabytes(cell["wire_bytes"]), blocks.megabytes(cell["formula_bytes"])],
        *[blocks.megabytes(peaks.get(world) or math.nan), blocks.megabytes(held.get("held", math.nan))],
        blocks.number(cell["first_step_seconds"]),
    ]


def _notes(regime: str, cells: pd.DataFrame, explained: set[str]) -> list[str]:
    terms = {
        "exposed, ms (n)": "exposed: communication that isn't hidden behind computing, over n pairs of launches",
        "MB sent": "MB sent: in a step, by all processes",
        "process, MB": "process: the largest, resident",
        "holds, MB": "holds: parameters, gradients and optimizer state of the process that has most",
    }
    said = [text for name, text in terms.items() if name in explained]
    marks = [f"no interval is given for n < {FEWEST_LAUNCHES}"] if (cells["n"] < FEWEST_LAUNCHES).any() else []
    marks += ["† more threads than cores"] if cells["oversubscribed"].any() else []
    return [f"{'; '.join([blocks.capitalized(regime), *said, *marks])}."]


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


def _by_cell(table: pd.DataFrame) -> dict[tuple, dict[str, object]]:
    return {(row["regime"], row["strategy"], row["workers"]): row for row in table.to_dict("records")}


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
