"""Figures of what leaves where it should be: losses their oracle, and the rounds of a pair their mean.

Each function returns one SVG, the same bytes for the same input.
"""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from common.contract.oracle import LOSS_TOLERANCE
from common.observations import numbers
from common.records.certificate import Certificate
from reports import blocks
from reports.charts import layout, style, svg
from reports.charts.curves import Line, Plot, curves
from reports.tables.certificate import step_deviations

_LINES = ("-", "--", ":")
_LOSSES_HEIGHT = 32.0  # Millimetres.
_STEPS_OF_A_LINE = (25, 60)  # The fewest and the most that are drawn.
_LOWEST_DEVIATION = 1e-10  # Zero has no logarithm: a loss equal to the oracle's in every digit is drawn at the bottom.


def losses(comparisons: Sequence[Certificate], looks: Mapping[str, style.Style], width: float = style.WIDTH) -> bytes:
    """Loss curves on the oracle's, and their relative deviation from it, of launches that share one oracle.

    Of the launches of one strategy and worker count the one that deviates most is drawn. Of very many steps some are
    left out, and of the deviations of those the largest is drawn.
    """
    names = sorted({comparison.strategy for comparison in comparisons})
    oracle = max((comparison.oracle_losses for comparison in comparisons), key=len)
    every = math.ceil(len(oracle) / float(np.clip(layout.MOST_POINTS / len(comparisons), *_STEPS_OF_A_LINE)))
    handles = [Line2D([], [], color=style.GREY, linewidth=4.5, label="oracle (NumPy, float64)")]
    handles += [layout.line_handle(name, looks[name]) for name in names]
    note = f"Drawn is one loss of every {every} steps, and their largest deviation." if every > 1 else ""
    with matplotlib.rc_context(style.SETTINGS):
        heights = [_LOSSES_HEIGHT] * (1 if width > style.NARROW else 2)
        figure, panels = layout.panels(2, heights, left=11, between=13, handles=handles, note=note, width=width)
        left, right = panels
        steps = range(0, len(oracle), every)
        left.plot(steps, [oracle[step] for step in steps], color=style.GREY, linewidth=4.5, solid_capstyle="round")
        for place, comparison in enumerate(comparisons):
            _draw_run(left, right, comparison, looks[comparison.strategy], place / len(comparisons), every)
        left.set_title("loss, the mean over the global batch")
        right.set_title("relative deviation from the oracle")
        right.set_yscale("log")
        low, high = right.get_ylim()
        right.set_ylim(max(low, 5e-11), max(high, 5e-5))
        right.yaxis.set_minor_locator(NullLocator())
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"1e{round(math.log10(value))}"))
        right.axhline(LOSS_TOLERANCE, color=style.INK, linewidth=0.9)
        right.text(0, LOSS_TOLERANCE * 1.25, "tolerated", fontsize=6, va="bottom")
        for axes in panels:
            svg.panel(axes, axes.get_title(loc="left"))
            axes.set_xlabel("step")
            axes.set_xlim(-0.02 * len(oracle), 1.02 * len(oracle))
        return svg.svg(figure)


def _draw_run(left: Axes, right: Axes, comparison: Certificate, look: style.Style, phase: float, every: int) -> None:
    """One launch in both panels, its markers shifted by `phase` so that curves on one another all stay visible."""
    shown, deviations = comparison.losses[: len(comparison.oracle_losses)], step_deviations(comparison)
    starts = range(0, len(deviations), every)
    worst = [np.nanmax([_LOWEST_DEVIATION, *deviations[start : start + every]]) for start in starts]
    x = [comparison.first_step + start for start in starts]
    apart = max(1, len(x) // 6)
    tip = {
        "strategy": comparison.strategy,
        "workers": comparison.workers,
        "launch": comparison.launch,
        "largest deviation of a loss": blocks.tiny(comparison.loss),
        "largest residual of an update": blocks.tiny(comparison.residual),
        "verdict": comparison.verdict,
    }
    for axes, values in ((left, [shown[start] for start in starts]), (right, worst)):
        [line] = axes.plot(x, values, color=look.color, linestyle=look.line, linewidth=0.8, marker=look.marker)
        line.set(markersize=3, markevery=(int(phase * apart), apart), alpha=0.85)
        svg.mark(line, [comparison.strategy], tip)


def residuals(comparisons: pd.DataFrame) -> bytes:
    """The log ratio of each pair in each round, less the pair's mean: a line for each row of `Ranking.comparisons`.

    The three lines with the farthest points are drawn in ink and named. Of very many pairs the farthest are drawn.
    """
    rows = comparisons.to_dict("records")
    percents = [100 * np.expm1(np.array(row["logs"]) - np.mean(row["logs"])) for row in rows]
    pairs = [*zip(rows, percents, strict=True)]
    # The farthest first.
    pairs.sort(key=lambda pair: (-np.abs(pair[1]).max(), pair[0]["strategy"], pair[0]["other"]))
    most = max(1, layout.MOST_POINTS // max(map(len, percents)))
    note = f"Drawn are the {most} of {len(pairs)} pairs that leave their mean farthest." if len(pairs) > most else ""
    measure, lines = "ratio of a pair over its mean, %", []
    for place, (row, percent) in enumerate(pairs[:most]):
        name = f"{row['strategy']} over {row['other']}"
        about = {"pair": name, "mean ratio": f"{np.exp(np.mean(row['logs'])):.3f}", "rounds (n)": len(percent)}
        offs = [numbers.signed_percent(value / 100, digits=2) for value in percent]
        tips = [about | {"round": each, "off its mean": off} for each, off in zip(row["rounds"], offs, strict=True)]
        # The farthest are in ink, each with a line of its own; all others are faint.
        look = {"color": style.FAINT, "dashes": "-", "width": 0.5}
        if place < len(_LINES):
            look = {"color": style.INK, "dashes": _LINES[place], "label": name}
        lines.append(Line(measure=measure, x=row["rounds"], values=percent, marker="o", key=name, tips=tips, **look))
    rounds = [number for line in lines for number in line.x]
    level = Line(measure=measure, x=[min(rounds), max(rounds)], values=[0, 0], color=style.FAINT, dashes="-", width=0.6)
    # What is in ink is drawn over the others.
    ordered = [level, *lines[len(_LINES) :], *lines[: len(_LINES)]]
    return curves(Plot(lines=ordered, x_label="round", note=note), {})
