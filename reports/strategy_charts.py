"""The chart of a strategy's page: its windows, its step divided, its first step, and its processors over time."""

import math
from collections.abc import Collection, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from reports import blocks, chart_parts, scaling_charts
from reports.chart_parts import (
    DOTS,
    FAINT,
    INK,
    NUMBERS_PIXELS,
    PAPER,
    SHAPES,
    SOLID,
    STROKE,
    Chart,
    Key,
    Panel,
    faded,
    lifted,
    number_axis,
    rounded,
    table,
    told,
)
from reports.charts import strategy as strategy_figures
from reports.charts import style as figures

Rows = list[dict[str, object]]

_ROW_PIXELS, _BAR_PIXELS, _USE_PIXELS = 38, 18, 170
_BESIDE_PIXELS = 9  # Of the middle of a row, where it has a bar with exchange and one without.
_POINTS_OF_A_RANK = 200
_WITH, _WITHOUT = "with exchange", "without exchange"
_STARTUP_KEYS = {"imports": "imports", "world": "joining the world", "first_step": "the rest of the start-up"}
_OF_WINDOWS = {
    **{"of": "row", "median": "median", "middle half": "half", "5 % to 95 %": "most"},
    **{"all": "all", "windows (n)": "count", "launches (n)": "n"},
}


def strategy(
    groups: pd.DataFrame,
    windows: pd.DataFrame,
    parts: pd.DataFrame,
    startups: pd.DataFrame,
    processors: pd.DataFrame,
    absent: Mapping[str, str],
    height: float,
) -> Chart:
    """What `strategy_figures.strategy` draws, from the same arguments; the `height` is that of a print.

    Of very many launches some medians are left out; very many windows of a rank are drawn as their means.
    """
    rows = [{"row": _name(group), "color": lifted(group["color"])} for group in groups.to_dict("records")]
    data, notes = {}, []
    panels = [
        _windows(windows, rows, data, notes) if len(windows) else Panel("", None, absent["windows"]),
        _steps(parts, rows, data) if len(parts) else Panel("the step divided", None, absent["parts"]),
        _startups(startups, rows, data) if len(startups) else Panel("the first step", None, absent["startups"]),
    ]
    if len(processors):
        panels += _processors(processors, rows, data, notes, explained=len(startups) > 0)
    else:
        panels.append(Panel("", None, absent["processors"]))
    # Words last, where they leave no hole between plots.
    panels.sort(key=lambda panel: panel.specification is None)
    plots = sum(panel.specification is not None for panel in panels)
    return Chart(panels, [], data, " ".join(notes), columns=2 if plots in (2, 4) else 3)


def _name(group: Mapping[str, object]) -> str:
    """What stands beside a row: the workers, with a dagger where they are crowded, and in a line below the options."""
    workers, *options = group["label"].split("\n")
    return ",\n".join([workers + "\N{DAGGER}" * bool(group["crowded"]), *options])


# The windows


def _windows(windows: pd.DataFrame, rows: Rows, data: dict[str, Rows], notes: list[str]) -> Panel:
    """Bars of quantiles, and in them the medians of the launches."""
    low, high = strategy_figures.range_of_windows(windows)
    most = max(2, chart_parts.MOST_POINTS // len(windows))
    data["windows"], data["medians"] = [], []
    for window in windows.to_dict("records"):
        row, medians = rows[window["group"]], sorted(window["medians"])
        beside = 0 if (windows["group"] == window["group"]).sum() == 1 else _BESIDE_PIXELS
        about = row | {"key": _WITH if window["exchange"] else _WITHOUT}
        about["offset"] = -beside if window["exchange"] else beside
        data["windows"].append(about | _quantiles(window, high))
        if len(medians) > most:
            medians = [medians[place] for place in chart_parts.thinned(len(medians), most)]
            notes.append(f"Of {window['n']} launches of {row['row']} the chart has {len(medians)} medians.")
        data["medians"] += [about | {"at": rounded(at), "median": f"{blocks.number(at)} ms"} for at in medians]
    drawn = {row["key"] for row in data["windows"]}
    return Panel("windows, ms per step", _window_bars([low, high], rows, drawn), keys=_window_keys(drawn, rows))


def _window_keys(drawn: Collection[str], rows: Rows) -> list[Key]:
    """The legend of the windows, which tells those with exchange from those without where both are drawn."""
    color = rows[0]["color"]
    keys = [Key(_WITH, "bar", color)] if drawn == {_WITH, _WITHOUT} else []
    keys += [Key(_WITHOUT, "frame", color)] if _WITHOUT in drawn else [Key("middle half", "bar", color, chooses=False)]
    keys.append(Key("5 % to 95 %", "bar", _paler(color, 0.65), chooses=False))
    return [*keys, Key("a launch's median", "hollow", INK, "D", chooses=False)]


def _quantiles(window: Mapping[str, object], high: float) -> dict[str, object]:
    """The ends of a bar, and how they're written."""
    values, numbers = window["quantiles"], [blocks.number(value) for value in window["quantiles"]]
    return {
        **{f"q{place}": rounded(value) for place, value in enumerate(values)},
        **{"n": window["n"], "count": window["count"], "median": f"{numbers[3]} ms"},
        **{"half": f"{numbers[2]} to {numbers[4]} ms", "most": f"{numbers[1]} to {numbers[5]} ms"},
        **{"all": f"{numbers[0]} to {numbers[6]} ms", "said": f"n = {window['n']}{' »' if values[-1] > high else ''}"},
    }


def _window_bars(ends: Sequence[float], rows: Rows, drawn: Collection[str]) -> dict[str, object]:
    """Layers from the thin line for all windows to the numbers of launches at the right."""
    x = alt.X("q0:Q", title=None, scale=alt.Scale(domain=[*ends], nice=False), axis=number_axis(tickCount=5))
    y, windows, medians = _rows(rows), table("windows"), table("medians")
    opacity, beside = faded(1, [_WITH, _WITHOUT]), alt.ExprRef("datum.offset")
    pale, fill = _paler_by_row(0.65), alt.ExprRef(f"datum.key === '{_WITH}' ? datum.color : '{PAPER}'")
    which = {"windows": "key"} if _WITHOUT in drawn else {}
    of_a_median = told(which | {"of": "row", "a launch's median": "median"})
    line = {"clip": True, "opacity": opacity, "yOffset": beside}
    bar = line | {"size": _BAR_PIXELS / 2, "strokeWidth": 0.6}
    found = windows.mark_bar(**line | {"size": _BAR_PIXELS, "opacity": 0})
    layers = [
        windows.mark_rule(strokeWidth=1.2, **line).encode(x=x, x2=alt.X2("q6:Q"), y=y, stroke=STROKE),
        windows.mark_bar(fill=pale, **bar).encode(x=alt.X("q1:Q"), x2=alt.X2("q5:Q"), y=y, stroke=STROKE),
        windows.mark_bar(fill=fill, **bar).encode(x=alt.X("q2:Q"), x2=alt.X2("q4:Q"), y=y, stroke=STROKE),
        windows.mark_tick(thickness=2, color=INK, size=14, **line).encode(x=alt.X("q3:Q"), y=y),
        # A bar that isn't seen tells the numbers of those that are, and is found more easily.
        found.encode(x=x, x2=alt.X2("q6:Q"), y=y, tooltip=told(which | _OF_WINDOWS)),
        medians.mark_point(
            **{"shape": SHAPES["D"], "size": 30, "fill": PAPER, "stroke": INK, "strokeWidth": 0.8},
            **line | {"yOffset": alt.ExprRef("datum.offset + 7")},
        ).encode(x=alt.X("at:Q"), y=y, tooltip=of_a_median),
        windows.mark_text(align="left", dx=6, fill=FAINT, yOffset=beside, opacity=opacity).encode(
            x=alt.XValue("width"), y=y, text=alt.Text("said:N")
        ),
    ]
    return chart_parts.specification(layers, _ROW_PIXELS * len(rows), right=NUMBERS_PIXELS)


# The step and the first one, in their parts


def _steps(parts: pd.DataFrame, rows: Rows, data: dict[str, Rows]) -> Panel:
    """The ideal step, then what it takes beyond it."""
    data["parts"], data["steps"], ends = [], [], [0.0]
    for group, own in parts.groupby("group"):
        bars, end = scaling_charts.divided(own)
        measured = 1000 * own["measured_seconds"].iloc[0]
        data["parts"] += [rows[group] | bar for bar in bars]
        said = {"said": blocks.number(measured), "milliseconds": f"{blocks.number(measured)} ms"}
        data["steps"].append(rows[group] | said | {"measured": rounded(measured), "n": int(own["measured_n"].iloc[0])})
        ends += [end, measured, *(bar["start"] for bar in bars)]
    of_a_part = {"of": "row"} | scaling_charts.OF_A_PART
    layers = _stack("parts", [1.02 * min(ends), 1.02 * max(ends)], rows, [*figures.PARTS], of_a_part)
    of_a_step = told({"of": "row", "measured step": "milliseconds", "launches (n)": "n"})
    measured = table("steps").mark_tick(thickness=2.5, color=INK, size=_BAR_PIXELS + 8)
    layers.append(measured.encode(x=alt.X("measured:Q"), y=_rows(rows), tooltip=of_a_step))
    keys = [*scaling_charts.part_keys(data["parts"]), Key("measured", "interval", INK, chooses=False)]
    return Panel("the step divided, ms", _bars([*layers, _ends("steps", rows)], rows), keys=keys)


def _startups(startups: pd.DataFrame, rows: Rows, data: dict[str, Rows]) -> Panel:
    """The time up to the end of the first step, in its parts."""
    data["startups"], data["first steps"], longest = [], [], 0.0
    for startup in startups.to_dict("records"):
        row, end = rows[startup["group"]], 0.0
        for part, key in _STARTUP_KEYS.items():
            start, end = end, end + max(0.0, startup[part])
            looks = {"key": key, "color": _paler(row["color"], strategy_figures.STARTUP_LOOKS[part][0])}
            said = {"said": f"{blocks.number(startup[part])} s", "n": startup["n"]}
            data["startups"].append(row | looks | said | {"start": rounded(start), "end": rounded(end)})
        data["first steps"].append(row | {"said": blocks.number(end)})
        longest = max(longest, end)
    of_a_part = {"of": "row", "start-up": "key", "median": "said", "launches (n)": "n"}
    layers = _stack("startups", [0, 1.02 * longest or 1.0], rows, [*_STARTUP_KEYS.values()], of_a_part)
    specification = _bars([*layers, _ends("first steps", rows)], rows)
    return Panel("first step after, s", specification, keys=_startup_keys(rows[0]["color"]))


def _startup_keys(color: str) -> list[Key]:
    return [
        Key(key, "bar", _paler(color, strategy_figures.STARTUP_LOOKS[part][0])) for part, key in _STARTUP_KEYS.items()
    ]


def _stack(
    name: str, ends: Sequence[float], rows: Rows, keys: Sequence[str], tooltip: Mapping[str, str]
) -> list[alt.Chart]:
    """The bars of a table, each from its start to its end, on an axis with these ends."""
    x = alt.X("start:Q", title=None, scale=alt.Scale(domain=[*ends], nice=False), axis=number_axis(tickCount=5))
    bars = table(name).mark_bar(stroke=INK, strokeWidth=0.4, size=_BAR_PIXELS, opacity=faded(1, keys))
    return [bars.encode(x=x, x2=alt.X2("end:Q"), y=_rows(rows), fill=SOLID, tooltip=told(tooltip))]


def _ends(name: str, rows: Rows) -> alt.Chart:
    """What each row of a table comes to, at the right of the plot."""
    return (
        table(name).mark_text(align="left", dx=6).encode(x=alt.XValue("width"), y=_rows(rows), text=alt.Text("said:N"))
    )


def _bars(layers: Sequence[alt.Chart], rows: Rows) -> dict[str, object]:
    return chart_parts.specification(layers, _ROW_PIXELS * len(rows), right=NUMBERS_PIXELS)


def _rows(rows: Rows) -> alt.Y:
    """The rows of a figure, whose names have a line for the workers and one for the options."""
    names = [row["row"] for row in rows]
    offset = -6 if any("\n" in name for name in names) else 0
    lines = {"labelExpr": "split(datum.label, ',\\n')", "labelOffset": offset}
    return chart_parts.rows("row:N", names, grid=False, **lines)


# The processors


def _processors(
    processors: pd.DataFrame, rows: Rows, data: dict[str, Rows], notes: list[str], explained: bool
) -> list[Panel]:
    """Cores that each rank kept busy, a panel for each launch; the parts of the start-up may be `explained` already."""
    counts = processors[processors["part"] == ""].groupby(["group", "rank"]).size()
    most = min(_POINTS_OF_A_RANK, max(2, chart_parts.MOST_POINTS // max(1, len(counts))))
    every = math.ceil(counts.max() / most) if len(counts) else 1
    if every > 1:
        notes.append(f"Of processor use the chart has the mean of every {every} windows of a rank.")
    data["beginnings"], data["ranks"], data["breaks"] = [], [], []
    limit, panels = 1.08 * max(1.0, processors["cores"].max()), []
    for group, own in processors.groupby("group", sort=False):
        group, row = int(group), rows[group]
        beginning, windows = own[own["part"] != ""], own[own["part"] == ""]
        data["beginnings"] += [{"group": group} | _beginning(each, row) for each in beginning.to_dict("records")]
        ranks = [int(rank) for rank in windows["rank"].unique()]
        data["ranks"] += [
            {"group": group} | _look(rank, row, len(ranks)) | _merged(windows[windows["rank"] == rank], every)
            for rank in ranks
        ]
        spans = _spans(beginning, windows)
        data["breaks"] += [{"group": group, "start": rounded(end)} for end in (spans[0][1], spans[-1][0])]
        keys = [] if explained else _startup_keys(row["color"])
        title = f"processor use, {row['row']}".replace("\n", " ")
        panels.append(Panel(title, _use(group, spans, limit, ranks), keys=keys))
    return panels


def _beginning(part: Mapping[str, object], row: Mapping[str, object]) -> dict[str, object]:
    """A part of a start-up."""
    color = _paler(row["color"], strategy_figures.STARTUP_LOOKS[part["part"]][0])
    return {
        **{"key": _STARTUP_KEYS[part["part"]], "color": color, "cores": rounded(part["cores"], 4)},
        **{"start": rounded(part["start"]), "end": rounded(part["end"])},
        "seconds": f"{blocks.number(part['end'] - part['start'])} s",
    }


def _look(rank: int, row: Mapping[str, object], ranks: int) -> dict[str, object]:
    """Wide and pale, thin and dark in turn: one on another, both stay visible."""
    is_dark = rank % 2 == 1 or ranks == 1
    color = row["color"] if is_dark else _paler(row["color"], 0.5)
    return {"key": f"rank {rank}", "color": color, "width": 2 if is_dark else 5}


def _merged(windows: pd.DataFrame, every: int) -> dict[str, list[float | None]]:
    """The windows of a rank in their order, so many in a row as one, with the mean over their time."""
    ordered = windows.sort_values("start")
    starts, ends, cores = (ordered[name].to_numpy() for name in ("start", "end", "cores"))
    firsts = np.arange(0, len(ordered), every)
    lasts = np.minimum(firsts + every, len(ordered)) - 1
    means = np.add.reduceat(cores * (ends - starts), firsts) / np.add.reduceat(ends - starts, firsts)
    columns = {"start": starts[firsts], "end": ends[lasts], "cores": means}
    return {name: [rounded(value, 4 if name == "cores" else 6) for value in column] for name, column in columns.items()}


def _spans(beginning: pd.DataFrame, windows: pd.DataFrame) -> list[tuple[float, float]]:
    """The seconds in which a launch started up, and those of its windows, or one span of all where they overlap."""
    spans = [(own["start"].min(), own["end"].max()) for own in (beginning, windows) if len(own)]
    # Without synchronous steps, windows may start before the slowest rank has done its first step.
    if len(spans) == 2 and spans[0][1] < spans[1][0]:
        return spans
    return [(min(start for start, _ in spans), max(end for _, end in spans))]


def _use(group: int, spans: Sequence[tuple[float, float]], limit: float, ranks: Sequence[int]) -> dict[str, object]:
    """One panel: the parts of the start-up as steps, then a line for each rank, on an axis that is broken between."""
    x, axis = _seconds(spans), number_axis(tickCount=4)
    y = alt.Y("cores:Q", title="cores busy", axis=axis, scale=alt.Scale(domain=[0, limit], nice=False))
    parts, breaks = table("beginnings", group=group), table("breaks", group=group)
    steps = parts.mark_rect(stroke=INK, strokeWidth=0.4, opacity=faded(1, [*_STARTUP_KEYS.values()]))
    windows = table("ranks", group=group).transform_flatten(["start", "end", "cores"])
    opacity = faded(1, [f"rank {rank}" for rank in ranks])
    lines = windows.mark_rule(strokeWidth=alt.ExprRef("datum.width"), opacity=opacity)
    of_a_part = told({"start-up": "key", "took": "seconds"})
    cores = alt.Tooltip("cores:Q", title="cores busy", format=".3~r")
    of_a_window = [*told({"of": "key", "from, s": "start", "to, s": "end"}), cores]
    layers = [
        steps.encode(x=x, x2=alt.X2("end:Q"), y=y, y2=alt.Y2Datum(0), fill=SOLID, tooltip=[*of_a_part, cores]),
        breaks.mark_rule(stroke=FAINT, strokeDash=[*DOTS]).encode(x=x),
        lines.encode(x=x, x2=alt.X2("end:Q"), y=y, stroke=STROKE, tooltip=of_a_window),
    ]
    return chart_parts.specification(layers, _USE_PIXELS)


def _seconds(spans: Sequence[tuple[float, float]]) -> alt.X:
    """The time of a launch: up to the end of the first step, then of the windows, each on a scale of its own."""
    steps = MaxNLocator(3, steps=[1, 2, 2.5, 5, 10])
    values = [float(value) for span in spans for value in steps.tick_values(*span) if span[0] <= value <= span[1]]
    domain = [rounded(end) for span in spans for end in span]
    scale = alt.Scale(domain=domain, nice=False)
    if len(spans) > 1:
        startup, gap = strategy_figures.STARTUP_SHARE, strategy_figures.BREAK_SHARE
        places = (startup, startup + gap, 1)
        ends = [0, *(alt.ExprRef(f"{place} * width") for place in places)]
        scale = alt.Scale(domain=domain, range=ends, nice=False)
    title, axis = "seconds since the start of the process", number_axis(values=values, grid=False, labelOverlap=True)
    return alt.X("start:Q", title=title, scale=scale, axis=axis)


def _paler(color: str, whiteness: float) -> str:
    """The color with so large a share of the ground."""
    return f"color-mix(in oklab, {PAPER} {100 * whiteness:g}%, {color})" if whiteness else color


def _paler_by_row(whiteness: float) -> alt.ExprRef:
    """The color of each row with so large a share of the ground."""
    return alt.ExprRef(f"'color-mix(in oklab, {PAPER} {100 * whiteness:g}%, ' + datum.color + ')'")
