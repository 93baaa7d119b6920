"""Charts of how fast strategies are: the rates of one regime by strategy, and rates and ratios by workers."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from reports import blocks, chart_parts
from reports.chart_parts import (
    DASHES,
    DOTS,
    FAINT,
    INK,
    NUMBERS_PIXELS,
    PANEL_PIXELS,
    PAPER,
    ROW_PIXELS,
    SHAPES,
    SOLID,
    STROKE,
    Chart,
    Key,
    Panel,
    dashes,
    faded,
    lifted,
    number_axis,
    rounded,
    style_key,
    table,
    told,
)
from reports.charts import speed as speed_figures
from reports.charts.style import Style
from reports.findings import crowded

_MARGIN = 0.25  # Octaves of workers left free on either side of a plot.
_MEASURES = {
    "rate": "samples per second",
    "speed_up": "speed-up over the undistributed base",
    "efficiency": "efficiency: that speed-up per worker",
    "own_speed_up": "speed-up over one worker of the same strategy",
}
_OF_A_LAUNCH = {
    **{"strategy": "key", "workers": "world", "launch (n = 1)": "launch"},
    **{"samples/s": "said", "ms per step": "milliseconds"},
}
_OF_A_MEDIAN = {
    **{"strategy": "key", "workers": "world", "samples/s, median": "said", "95 % interval": "interval"},
    **{"ms per step": "milliseconds", "speed-up": "speed_up_said", "efficiency": "efficiency_said"},
    **{"over own 1": "own_said", "launches (n)": "n"},
}
_HOLLOW = alt.ExprRef(f"indexof(datum.world, '\N{DAGGER}') < 0 ? datum.color : '{PAPER}'")


def headline(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, Style]) -> Chart:
    """Samples per second of one regime: a row for each strategy, a panel for each number of workers."""
    launches, note = _thinned(launches)
    bases = _bases(cells)
    keys = [Key(f"ideal: N times {base}", "line", _base(base, looks)["color"], "", DOTS, False) for base in bases]
    keys += [Key("one launch", "mark", FAINT, "o", chooses=False), *_explained(cells)]
    counts = sorted(cells["workers"].unique().tolist())
    data = {"medians": _medians(cells, looks), "launches": _launches(launches, cells, looks)}
    data["ideals"] = [
        {"workers": count, "ideal": rounded(count * rate), "said": f"{count * rate:,.0f}"} | _base(base, looks)
        for base, rate in bases.items()
        for count in counts
    ]
    names, panels = speed_figures.in_order_of_speed(cells), []
    for count in counts:
        fastest = launches.loc[launches["workers"] == count, "samples_per_second"].max()
        limit = 1.03 * max([fastest, *(count * rate for rate in bases.values())])
        mark = " \N{DAGGER}" if count in crowded(cells) else ""
        panels.append(
            Panel(f"{blocks.workers(count)}{mark}: samples per second", _rates(count, names, limit, bool(mark)))
        )
    return Chart(panels, keys, data, note)


def curves(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, Style]) -> Chart:
    """Throughput, speed-up over either base, and efficiency by workers for one regime, with every launch."""
    launches, note = _thinned(launches)
    keys = [style_key(name, looks[name]) for name in sorted(cells["strategy"].unique())]
    keys += [Key("ideal: N times the base", "line", FAINT, "", DOTS, False), *_explained(cells)]
    ends = [int(cells["workers"].min()), int(cells["workers"].max())]
    data = {"medians": _medians(cells, looks), "launches": _launches(launches, cells, looks)}
    data["ideals"] = [
        {"x": count, "rate": rounded(count * rate)} | _base(base, looks)
        for base, rate in _bases(cells).items()
        for count in ends
    ]
    data["bounds"] = [
        {"x": count, "color": FAINT, "speed_up": count, "efficiency": 1, "own_speed_up": count} for count in ends
    ]
    data["ground"] = _crowded_ground(cells)
    panels = []
    for measure, title in _MEASURES.items():
        values = [row[measure] for row in data["medians"] + data["launches"] if row[measure] is not None]
        if values:
            values += [row[measure] for row in data["ideals" if measure == "rate" else "bounds"]]
            panels.append(Panel(title, _against_workers(measure, values, cells)))
        else:
            panels.append(Panel(title, None, "The base wasn't measured."))
    return Chart(panels, keys, data, note)


def _thinned(launches: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """As many launches as a chart draws, of each cell the slowest, the fastest and some between, and a note on that."""
    if len(launches) <= chart_parts.MOST_POINTS:
        return launches, ""
    groups = launches.sort_values(["samples_per_second", "launch"]).groupby(["strategy", "workers"])
    most = max(2, chart_parts.MOST_POINTS // groups.ngroups)
    parts = [group.iloc[chart_parts.thinned(len(group), most)] for _, group in groups]
    note = f"The chart has {most} launches of each strategy and number of workers, from the slowest to the fastest."
    return pd.concat(parts), note


def _medians(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[dict[str, object]]:
    """What charts show of each cell: numbers to draw, and as they're written in the report's tables."""
    rows = []
    for row in cells.sort_values(["strategy", "workers"]).to_dict("records"):
        low, high = row["global_batch"] / row["high_seconds"], row["global_batch"] / row["low_seconds"]
        has_interval = not math.isnan(row["low_seconds"])
        measures = {"rate": row["samples_per_second"], **{name: row[name] for name in [*_MEASURES][1:]}}
        rows.append(
            {
                **_place(row, looks),
                **{"shape": SHAPES[looks[row["strategy"]].marker], "dashes": dashes(looks[row["strategy"]])},
                **{name: rounded(value) for name, value in measures.items()},
                **{"low": rounded(low), "high": rounded(high), "n": row["n"]},
                "said": f"{row['samples_per_second']:,.0f}",
                "interval": f"{low:,.0f} to {high:,.0f}" if has_interval else "none: too few launches",
                "milliseconds": blocks.milliseconds(row["seconds"]),
                "speed_up_said": blocks.ratio(row["speed_up"]),
                "efficiency_said": blocks.percent(row["efficiency"]),
                "own_said": blocks.ratio(row["own_speed_up"]),
            }
        )
    return rows


def _launches(launches: pd.DataFrame, cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[dict[str, object]]:
    """What charts show of each launch, with its ratios over what its cell's are over."""
    bases = cells.set_index(["strategy", "workers"])[["base_samples_per_second", "own_samples_per_second"]]
    over = {key: tuple(row) for key, row in zip(bases.index, bases.to_numpy(), strict=True)}
    rows = []
    for row in launches.to_dict("records"):
        rate = row["samples_per_second"]
        base, own = over[row["strategy"], row["workers"]]
        measures = {"rate": rate, "speed_up": rate / base, "efficiency": rate / base / row["workers"]}
        measures["own_speed_up"] = rate / own
        said = {"said": f"{rate:,.0f}", "milliseconds": blocks.milliseconds(row["seconds"])}
        rows.append(
            {
                **_place(row, looks),
                **{name: rounded(value) for name, value in measures.items()},
                **{"launch": row["launch"]} | said,
            }
        )
    return rows


def _place(row: Mapping[str, object], looks: Mapping[str, Style]) -> dict[str, object]:
    """Whose a mark is, and where it stands among the numbers of workers."""
    look, crowd = looks[row["strategy"]], "\N{DAGGER}" if row["oversubscribed"] else ""
    return {
        **{"key": row["strategy"], "workers": row["workers"], "world": f"{row['workers']}{crowd}"},
        **{"x": rounded(row["workers"] * 2**look.shift), "color": lifted(look.color)},
    }


def _bases(cells: pd.DataFrame) -> dict[str, float]:
    """Samples per second of each base that was measured."""
    found = cells.dropna(subset=["base"]).drop_duplicates("base").sort_values("base")
    return dict(zip(found["base"], found["base_samples_per_second"], strict=True))


def _base(name: str, looks: Mapping[str, Style]) -> dict[str, object]:
    return {"key": name, "color": lifted(looks[name].color) if name in looks else FAINT}


def _rates(workers: int, names: Sequence[str], limit: float, is_crowded: bool) -> dict[str, object]:
    """The panel of the headline with so many workers: launches, intervals, medians with their numbers, and ideals."""
    x = alt.X("rate:Q", title=None, scale=alt.Scale(domain=[0, limit], nice=False), axis=number_axis(tickCount=5))
    y = chart_parts.rows("key:N", names)
    medians, launches, ideals = (table(name, workers=workers) for name in ("medians", "launches", "ideals"))
    intervals = medians.mark_rule(strokeWidth=4, opacity=faded(0.5))
    numbers = medians.mark_text(align="left", dx=8, opacity=faded(1))
    of_an_ideal = {"base": "key", f"{workers} times its samples/s": "said"}
    layers = [
        ideals.mark_rule(strokeDash=[*DOTS], strokeWidth=1.5).encode(
            x=alt.X("ideal:Q"), stroke=STROKE, tooltip=told(of_an_ideal)
        ),
        launches.mark_point(size=14, opacity=faded(0.4)).encode(x=x, y=y, fill=SOLID, tooltip=told(_OF_A_LAUNCH)),
        intervals.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, stroke=STROKE),
        _marked(medians).encode(x=x, y=y),
        numbers.encode(x=alt.XValue("width"), y=y, text=alt.Text("said:N")),
    ]
    ground = {"fill": "var(--ground)" if is_crowded else "transparent", "stroke": None}
    return chart_parts.specification(layers, ROW_PIXELS * len(names), right=NUMBERS_PIXELS) | {"view": ground}


def _against_workers(measure: str, values: Sequence[float], cells: pd.DataFrame) -> dict[str, object]:
    """One panel of the curves: a measure, all values of which are told, by the number of workers."""
    x, y = _workers_axis(cells), _measure_axis(measure, values)
    medians, launches, ideals = (
        table(name) for name in ("medians", "launches", "ideals" if measure == "rate" else "bounds")
    )
    layers = [
        table("ground").mark_rect(fill=INK, opacity=0.05).encode(x=x, x2=alt.X2("end:Q")),
        ideals.mark_line(strokeDash=[*DOTS], strokeWidth=1.5).encode(x=x, y=y, stroke=STROKE),
        medians.mark_line(strokeWidth=1.6, opacity=faded(1)).encode(x=x, y=y, stroke=STROKE, strokeDash=DASHES),
        launches.mark_point(size=14, strokeWidth=0.7, opacity=faded(0.45), fill=_HOLLOW).encode(
            x=x, y=y, stroke=STROKE, tooltip=told(_OF_A_LAUNCH)
        ),
    ]
    if measure == "rate":
        intervals = medians.mark_rule(strokeWidth=3, opacity=faded(0.6))
        layers.append(intervals.encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), stroke=STROKE))
    return chart_parts.specification([*layers, _marked(medians).encode(x=x, y=y)], PANEL_PIXELS)


def _crowded_ground(cells: pd.DataFrame) -> list[dict[str, float]]:
    """A ground from halfway before the smallest number of workers on at which every strategy is crowded."""
    over = crowded(cells)
    if not over:
        return []
    below = [count for count in cells["workers"].unique() if count < over[0]]
    start = math.sqrt(max(below) * over[0]) if below else over[0] * 2**-_MARGIN
    return [{"x": rounded(start), "end": rounded(over[-1] * 2**_MARGIN)}]


def _marked(medians: alt.Chart) -> alt.Chart:
    """The medians, by the marker of each strategy, hollow where there are more threads than cores."""
    shape = alt.Shape("shape:N", scale=None)
    marks = medians.mark_point(size=90, strokeWidth=1.4, opacity=faded(1), fill=_HOLLOW)
    return marks.encode(shape=shape, stroke=STROKE, tooltip=told(_OF_A_MEDIAN))


def _workers_axis(cells: pd.DataFrame) -> alt.X:
    """The numbers of workers, each twice as far to the right as half of it, with a dagger where all are crowded."""
    counts, over = sorted(cells["workers"].unique().tolist()), crowded(cells)
    label = f"format(datum.value, 'd') + (indexof({over}, datum.value) < 0 ? '' : '\N{DAGGER}')"
    ends = [counts[0] * 2**-_MARGIN, counts[-1] * 2**_MARGIN]
    scale = alt.Scale(type="log", base=2, domain=ends, nice=False)
    return alt.X("x:Q", title="workers", scale=scale, axis=alt.Axis(values=counts, labelExpr=label, grid=False))


def _measure_axis(measure: str, values: Sequence[float]) -> alt.Y:
    """Logarithmic over at least a factor of four, so that noise doesn't fill the panel; efficiency from 0 on."""
    if measure == "efficiency":
        domain = [0, max(1.1, 1.06 * max(values))]
        axis = number_axis(labelExpr="format(datum.value, '.0%')", tickCount=6)
        return alt.Y(f"{measure}:Q", title=None, axis=axis, scale=alt.Scale(domain=domain, nice=False))
    return logarithmic(f"{measure}:Q", 0.93 * min(values), 1.07 * max(values))


def logarithmic(column: str, low: float, high: float) -> alt.Y:
    """An axis from `low` to `high`, or over a factor of four around their middle, with ticks at 1, 2 and 5."""
    if high / low < 4:
        middle = math.sqrt(low * high)
        low, high = middle / 2, middle * 2
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    axis = number_axis(values=[tick for tick in ticks if low <= tick <= high])
    return alt.Y(column, title=None, axis=axis, scale=alt.Scale(type="log", domain=[low, high], nice=False))


def _explained(cells: pd.DataFrame) -> list[Key]:
    """What else is drawn of these cells."""
    keys = []
    if cells["oversubscribed"].any():
        keys.append(Key("\N{DAGGER} hollow: more threads than cores", "hollow", FAINT, "o", chooses=False))
    if cells["low_seconds"].notna().any():
        keys.append(Key("95 % interval of the median", "interval", FAINT, chooses=False))
    return keys
