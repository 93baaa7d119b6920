"""Charts of a sweep: what the bandwidth between hosts makes of a step, and of the samples per second."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from reports import blocks, chart_parts, speed_charts
from reports.chart_parts import (
    DASHES,
    DOTS,
    FAINT,
    INK,
    PANEL_PIXELS,
    PAPER,
    SHAPES,
    STROKE,
    Chart,
    Key,
    Panel,
    faded,
    lifted,
    rounded,
    table,
    told,
)
from reports.charts import sweep as bandwidth_figures
from reports.charts.style import Style

_DASHES = [6.4, 2.6]
_OF_A_LAUNCH = {
    **{"strategy": "key", "hosts": "place", "Mbit/s": "link", "launch (n = 1)": "launch"},
    **{"ms per step": "milliseconds", "samples/s": "said"},
}
_OF_A_MEDIAN = {
    **{"strategy": "key", "hosts": "place", "Mbit/s": "link", "ms per step, median": "milliseconds"},
    **{"95 % interval": "interval", "samples/s": "said", "times one host's": "ratio", "launches (n)": "n"},
}
_HOLLOW = alt.ExprRef(f"datum.crowded ? '{PAPER}' : datum.color")


def sweep(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, Style]) -> Chart:
    """A step's time, and below it the samples per second, over the bandwidth: a panel for each number of hosts."""
    points, note = _thinned(launches)
    data = {"medians": [], "launches": [], "bounds": [], "bases": []}
    groups = bandwidth_figures.panels(cells)
    for place, (title, shown) in enumerate(groups.items()):
        own = points[points["strategy"].isin(shown["strategy"])]
        data["medians"] += [{"panel": place, "place": title} | row for row in _medians(shown, looks)]
        data["launches"] += [{"panel": place, "place": title} | row for row in _launches(own, looks)]
        data["bounds"] += [{"panel": place} | row for row in _bounds(shown)]
        data["bases"] += [{"panel": place} | row for row in _bases(shown, looks)]
    panels = []
    for measure, said in bandwidth_figures.MEASURES.items():
        ends = bandwidth_figures.scaled(bandwidth_figures.limits(cells, launches, measure), measure)
        y = speed_charts.logarithmic(f"{measure}:Q", *ends.tolist())
        panels += [Panel(f"{title}: {said}", _panel(cells, place, measure, y)) for place, title in enumerate(groups)]
    return Chart(panels, _keys(cells, looks), data, note, columns=len(groups))


def _thinned(launches: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """As many launches as a chart draws: of each strategy and link the slowest, the fastest and some between."""
    if len(launches) <= chart_parts.MOST_POINTS:
        return launches, ""
    groups = launches.sort_values(["seconds", "launch"]).groupby("strategy")
    most = max(2, chart_parts.MOST_POINTS // groups.ngroups)
    parts = [group.iloc[chart_parts.thinned(len(group), most)] for _, group in groups]
    return pd.concat(
        parts
    ), f"The chart has {most} launches of each strategy and link, from the slowest to the fastest."


def _medians(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[dict[str, object]]:
    rows = []
    for row in cells.sort_values(["own", "bandwidth_bits_per_second"]).to_dict("records"):
        low, high = row["low_seconds"], row["high_seconds"]
        rows.append(
            {
                **_mark(row, looks),
                **{"shape": SHAPES[looks[row["own"]].marker], "dashes": [1, 0] if row["same_maths"] else _DASHES},
                **{"seconds_low": rounded(1000 * low), "seconds_high": rounded(1000 * high)},
                "samples_per_second_low": rounded(row["global_batch"] / high),
                "samples_per_second_high": rounded(row["global_batch"] / low),
                "interval": "none: too few launches"
                if math.isnan(low)
                else f"{blocks.interval_in_milliseconds(low, high)} ms",
                **{"ratio": blocks.ratio(row["ratio"]), "n": row["n"]},
            }
        )
    return rows


def _launches(launches: pd.DataFrame, looks: Mapping[str, Style]) -> list[dict[str, object]]:
    return [_mark(row, looks) | {"launch": row["launch"]} for row in launches.to_dict("records")]


def _mark(row: Mapping[str, object], looks: Mapping[str, Style]) -> dict[str, object]:
    """Whose a mark is, where it stands, and what it says."""
    look, bandwidth = looks[row["own"]], row["bandwidth_bits_per_second"]
    return {
        **{"key": row["own"], "color": lifted(look.color), "crowded": bool(row["oversubscribed"])},
        **{"x": rounded(bandwidth / 1e6 * bandwidth_figures.shift(look)), "link": f"{bandwidth / 1e6:,.4g}"},
        **{"seconds": rounded(1000 * row["seconds"]), "samples_per_second": rounded(row["samples_per_second"])},
        **{"milliseconds": blocks.milliseconds(row["seconds"]), "said": f"{row['samples_per_second']:,.0f}"},
    }


def _bounds(cells: pd.DataFrame) -> list[dict[str, object]]:
    ordered = cells.drop_duplicates("bandwidth_bits_per_second").sort_values("bandwidth_bits_per_second")
    return [
        {"x": rounded(row["bandwidth_bits_per_second"] / 1e6), "seconds": rounded(1000 * row["bound_seconds"])}
        for row in ordered.to_dict("records")
    ]


def _bases(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[dict[str, object]]:
    return [
        {
            **{"key": row["base"], "color": _base_color(row["base"], looks)},
            **{
                "seconds": rounded(1000 * row["base_seconds"]),
                "milliseconds": blocks.milliseconds(row["base_seconds"]),
            },
            "samples_per_second": rounded(row["base_samples_per_second"]),
            "said": f"{row['base_samples_per_second']:,.0f}",
        }
        for row in bandwidth_figures.bases(cells).to_dict("records")
    ]


def _base_color(base: str, looks: Mapping[str, Style]) -> str:
    return lifted(looks[base].color) if base in looks else FAINT


def _panel(cells: pd.DataFrame, place: int, measure: str, y: alt.Y) -> dict[str, object]:
    """One panel: launches, medians with their intervals, one host alone, and the bound of a step's time."""
    x = _bandwidth_axis(sorted(cells["bandwidth_bits_per_second"].unique().tolist()))
    medians, launches, bounds, bases = (table(name, panel=place) for name in ("medians", "launches", "bounds", "bases"))
    of_a_base = {"one host alone": "key", "ms per step": "milliseconds", "samples/s": "said"}
    layers = [
        bases.mark_rule(strokeWidth=1.3).encode(y=y, stroke=STROKE, tooltip=told(of_a_base)),
        medians.mark_line(strokeWidth=1.6, opacity=faded(1)).encode(x=x, y=y, stroke=STROKE, strokeDash=DASHES),
        launches.mark_point(size=14, strokeWidth=0.7, opacity=faded(0.4), fill=_HOLLOW).encode(
            x=x, y=y, stroke=STROKE, tooltip=told(_OF_A_LAUNCH)
        ),
        medians.mark_rule(strokeWidth=3, opacity=faded(0.6)).encode(
            x=x, y=alt.Y(f"{measure}_low:Q"), y2=alt.Y2(f"{measure}_high:Q"), stroke=STROKE
        ),
        medians.mark_point(size=80, strokeWidth=1.4, opacity=faded(1), fill=_HOLLOW).encode(
            x=x, y=y, shape=alt.Shape("shape:N", scale=None), stroke=STROKE, tooltip=told(_OF_A_MEDIAN)
        ),
    ]
    if measure == "seconds":
        layers.append(bounds.mark_line(strokeDash=[*DOTS], strokeWidth=1.5, stroke=INK).encode(x=x, y=y))
    return chart_parts.specification(layers, PANEL_PIXELS)


def _bandwidth_axis(bandwidths: Sequence[float]) -> alt.X:
    values = [rounded(each / 1e6) for each in bandwidths]
    domain = [rounded(end) for end in bandwidth_figures.ends(bandwidths)]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    axis = chart_parts.number_axis(values=values, grid=False)
    return alt.X("x:Q", title="Mbit/s from host to host", scale=scale, axis=axis)


def _keys(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[Key]:
    keys = [
        Key(own, "line", lifted(looks[own].color), looks[own].marker, [1, 0] if group["same_maths"].all() else _DASHES)
        for own, group in cells.groupby("own")
    ]
    keys += [
        Key(f"one host alone: {base}", "line", _base_color(base, looks), chooses=False)
        for base in bandwidth_figures.bases(cells)["base"]
    ]
    keys.append(Key("the ring's lower bound on the link", "line", INK, "", DOTS, False))
    if cells["oversubscribed"].any():
        keys.append(Key("hollow: more threads than cores", "hollow", FAINT, "o", chooses=False))
    if cells["low_seconds"].notna().any():
        keys.append(Key("95 % interval of the median", "interval", FAINT, chooses=False))
    return keys
