"""Charts of what leaves where it should be: losses their oracle, and the rounds of a pair their mean."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from common.contract.oracle import LOSS_TOLERANCE
from common.records.certificate import Comparison
from reports import blocks, chart_parts
from reports.certificate import step_deviations
from reports.chart_parts import (
    BAND,
    DASHES,
    FAINT,
    INK,
    PANEL_PIXELS,
    SOLID,
    STROKE,
    Chart,
    Key,
    Panel,
    faded,
    number_axis,
    rounded,
    table,
    told,
)
from reports.charts import deviation as deviation_figures
from reports.charts.style import Style

_STEPS_OF_A_LINE = (25, 100)  # The fewest and the most that are drawn.
_LOWEST_DEVIATION = 1e-10  # Zero has no logarithm: a loss equal to the oracle's in every digit is drawn at the bottom.


def losses(comparisons: Sequence[Comparison], looks: Mapping[str, Style]) -> Chart:
    """Loss curves on the oracle's, and their relative deviation from it, of launches that share one oracle."""
    names = sorted({comparison.strategy for comparison in comparisons})
    keys = [Key("oracle (NumPy, float64)", "band", BAND, chooses=False)]
    keys += [chart_parts.style_key(name, looks[name], has_marker=False) for name in names]
    longest = max((comparison.oracle_losses for comparison in comparisons), key=len)
    most = float(np.clip(chart_parts.MOST_POINTS / len(comparisons), *_STEPS_OF_A_LINE))
    every = math.ceil(len(longest) / most)
    data = {
        "oracle": [{"step": step, "loss": rounded(longest[step], digits=4)} for step in range(0, len(longest), every)],
        "runs": [_run(comparison, every, looks[comparison.strategy]) for comparison in comparisons],
        "tolerance": [{"step": step, "deviation": LOSS_TOLERANCE} for step in (0, len(longest))],
    }
    panels = [
        Panel("loss, the mean over the global batch", _loss_lines()),
        Panel("relative deviation from the oracle; rule: tolerated", _deviation_lines()),
    ]
    note = f"The chart has one loss of every {every} steps, and their largest deviation."
    return Chart(panels, keys, data, note if every > 1 else "")


def residuals(comparisons: pd.DataFrame) -> Chart:
    """The log ratio of each pair in each round, less the pair's mean: a line for each row of `Ranking.comparisons`."""
    pairs = []
    for row in comparisons.to_dict("records"):
        percent = 100 * np.expm1(np.array(row["logs"]) - np.mean(row["logs"]))
        points = {"round": [int(each) for each in row["rounds"]], "percent": [rounded(value) for value in percent]}
        ratio = float(np.exp(np.mean(row["logs"])))
        about = {"key": f"{row['strategy']} over {row['other']}", "ratio": f"{ratio:.3f}", "n": len(percent)}
        pairs.append((float(np.abs(percent).max()), about | points))
    # The farthest last, which draws it over the others.
    pairs.sort(key=lambda pair: (pair[0], pair[1]["key"]))
    most = max(1, chart_parts.MOST_POINTS // max(pair["n"] for _, pair in pairs))
    note = (
        f"Of {len(pairs)} pairs the chart has the {most} that leave their mean farthest." if len(pairs) > most else ""
    )
    shown = [pair for _, pair in pairs[-most:]]
    farthest = [pair["key"] for pair in shown[-deviation_figures.MOST_RESIDUALS_NAMED :]]
    rows = [pair | {"color": INK if pair["key"] in farthest else FAINT} for pair in shown]
    keys = [Key(name, "line", INK) for name in reversed(farthest)]
    panels = [Panel("ratio of a pair over its mean, in per cent", _residual_lines())]
    return Chart(panels, keys, {"pairs": rows}, note, columns=1)


def _run(comparison: Comparison, every: int, look: Style) -> dict[str, object]:
    """One launch beside its oracle, with one point for so many steps."""
    deviations = step_deviations(comparison)
    starts = range(0, len(deviations), every)
    worst = [np.nanmax([_LOWEST_DEVIATION, *deviations[start : start + every]]) for start in starts]
    return {
        **{"key": comparison.strategy, "workers": comparison.workers, "launch": comparison.launch},
        **{"color": chart_parts.lifted(look.color), "dashes": chart_parts.dashes(look)},
        "step": [comparison.first_step + start for start in starts],
        "loss": [rounded(comparison.losses[start], digits=4) for start in starts],
        "deviation": [rounded(value, digits=2) for value in worst],
        **{"largest": blocks.tiny(comparison.loss), "weights": blocks.tiny(comparison.weights)},
        "verdict": comparison.verdict,
    }


def _loss_lines() -> dict[str, object]:
    """The losses of all launches on the oracle's."""
    x, y = _steps(), alt.Y("loss:Q", title=None, axis=number_axis(), scale=alt.Scale(zero=False))
    oracle = table("oracle").mark_line(stroke=BAND, strokeWidth=7, strokeCap="round").encode(x=x, y=y)
    return chart_parts.specification([oracle, *_lines_of_runs(x, y)], PANEL_PIXELS)


def _deviation_lines() -> dict[str, object]:
    """The relative deviations of all launches from the oracle, and how much of it is tolerated."""
    powers = [10.0**power for power in range(-10, 2)]
    axis = number_axis(labelExpr="format(datum.value, '.0e')", values=powers)
    scale = alt.Scale(type="log", nice=False, padding=8)
    x, y = _steps(), alt.Y("deviation:Q", title=None, axis=axis, scale=scale)
    tolerance = table("tolerance").mark_line(stroke=INK, strokeWidth=1).encode(x=x, y=y)
    return chart_parts.specification([tolerance, *_lines_of_runs(x, y)], PANEL_PIXELS)


def _steps() -> alt.X:
    return alt.X("step:Q", title="step", axis=number_axis(), scale=alt.Scale(nice=False))


def _lines_of_runs(x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """A line for each launch, and over it a wide one that isn't seen, which the mouse finds more easily."""
    of_a_run = {"strategy": "key", "workers": "workers", "launch": "launch", "largest deviation of a loss": "largest"}
    of_a_run |= {"deviation of the weights": "weights", "verdict": "verdict"}
    runs = table("runs").transform_flatten(["step", "loss", "deviation"])
    seen = runs.mark_line(strokeWidth=1.2, opacity=faded(0.9)).encode(strokeDash=DASHES)
    found = runs.mark_line(strokeWidth=9, opacity=0).encode(tooltip=told(of_a_run))
    return [line.encode(x=x, y=y, detail=alt.Detail("launch:N"), stroke=STROKE) for line in (seen, found)]


def _residual_lines() -> dict[str, object]:
    """A line for each pair, with a point for each round; the farthest are in ink."""
    scale = alt.Scale(nice=False, zero=False, padding=8)
    x = alt.X("round:Q", title="round", axis=number_axis(tickMinStep=1, format="d"), scale=scale)
    y = alt.Y("percent:Q", title=None, axis=number_axis(labelExpr="datum.label + ' %'"))
    pairs = table("pairs").transform_flatten(["round", "percent"])
    of_a_round = told({"pair": "key", "mean ratio": "ratio", "rounds (n)": "n", "round": "round"})
    of_a_round.append(alt.Tooltip("percent:Q", title="off its mean, per cent", format="+.2f"))
    lines, points = pairs.mark_line(strokeWidth=1.2, opacity=faded(0.8)), pairs.mark_point(size=22, opacity=faded(0.8))
    layers = [
        lines.encode(x=x, y=y, detail=alt.Detail("key:N"), stroke=STROKE),
        points.encode(x=x, y=y, detail=alt.Detail("key:N"), fill=SOLID, tooltip=of_a_round),
    ]
    return chart_parts.specification(layers, PANEL_PIXELS)
