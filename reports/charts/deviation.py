"""Figures of what leaves where it should be: losses their oracle, and the rounds of a pair their mean.

Each function returns one SVG, the same bytes for the same input.
"""

from collections.abc import Sequence
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from common.contract.oracle import LOSS_TOLERANCE
from common.records.certificate import Comparison
from reports.certificate import step_deviations
from reports.charts import style
from reports.charts.style import Style

MOST_RESIDUALS_NAMED = 3
_MOST_LINES_BESIDE = 20  # Lines of labels that stand apart at the right of a plot; a legend below it holds more.


def losses(comparisons: Sequence[Comparison], looks: dict[str, Style]) -> bytes:
    """Loss curves on the oracle's, and their relative deviation from it, of launches that share one oracle.

    Of the launches of one strategy and worker count the one that deviates most is drawn.
    """
    with matplotlib.rc_context(style.SETTINGS):
        names = sorted({comparison.strategy for comparison in comparisons})
        lines = sum(1 + name.count(", ") for name in names) + 2
        beside = lines <= _MOST_LINES_BESIDE
        break_label = _broken if beside else style.wrapped
        handles = [Line2D([], [], color="#c9c9c9", linewidth=4.5, label="oracle (NumPy, float64)")]
        handles += [style.line_handle(break_label(name), looks[name]) for name in names]
        below = 0.0 if beside else style.legend_height(handles)
        height = max(46.0, 12 + 3.1 * lines) if beside else 60 + below
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        bottom, top = (10 + below) / height, 1 - 5 / height
        left = figure.add_axes((0.06, bottom, 0.345 if beside else 0.42, top - bottom))
        right = figure.add_axes((0.475, bottom, 0.31, top - bottom) if beside else (0.56, bottom, 0.43, top - bottom))
        oracle = max((comparison.oracle_losses for comparison in comparisons), key=len)
        left.plot(oracle, color="#c9c9c9", linewidth=4.5, solid_capstyle="round", zorder=1)
        for position, comparison in enumerate(comparisons):
            _draw_losses(left, right, comparison, looks[comparison.strategy], position / len(comparisons), len(oracle))
        left.set_title("loss, the mean over the global batch")
        right.set_title("relative deviation from the oracle")
        _finish_deviation_axis(right, len(oracle))
        for axes in (left, right):
            axes.set_xlabel("step")
            axes.grid(axis="y")
            axes.set_xlim(-0.02 * len(oracle), 1.02 * len(oracle))
        if beside:
            figure.legend(
                **{"handles": handles, "loc": "upper left", "bbox_to_anchor": (0.79, 1.0), "frameon": False},
                **{"fontsize": 6, "handlelength": 2.4},
            )
        else:
            style.draw_legend(figure, handles)
        return style.svg(figure)


def _draw_losses(left: Axes, right: Axes, comparison: Comparison, look: Style, phase: float, steps: int) -> None:
    """One launch in both panels, its markers shifted by `phase` so that curves on one another all stay visible."""
    every = max(1, steps // 6)
    marks = {"marker": look.marker, "markersize": 3, "markevery": (int(phase * every), every), "color": look.color}
    shown = comparison.losses[: len(comparison.oracle_losses)]
    x = comparison.first_step + np.arange(len(shown))
    left.plot(x, shown, linewidth=0.7, **marks)
    deviations = step_deviations(comparison)
    # Zero has no logarithm: a loss equal to the oracle's in every digit is drawn at the bottom.
    right.plot(x, np.maximum(deviations, 1e-10), linewidth=0.7, alpha=0.85, **marks)


def _finish_deviation_axis(axes: Axes, steps: int) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 5e-11), max(high, 5e-5))
    axes.hlines(LOSS_TOLERANCE, 0, steps, color=style.INK, linewidth=0.9)
    axes.text(0, LOSS_TOLERANCE * 1.25, "tolerated", fontsize=6, va="bottom")


def _broken(name: str) -> str:
    """A strategy's name with each option of its label on a line of its own."""
    return style.literal(name).replace(", ", ",\n")


def residuals(comparisons: pd.DataFrame) -> bytes:
    """The log ratio of each pair in each round, less the pair's mean: a line for each row of `Ranking.comparisons`.

    The three lines with the farthest points are drawn in ink and named.
    """
    lines = []
    for row in comparisons.to_dict("records"):
        percent = 100 * np.expm1(np.array(row["logs"]) - np.mean(row["logs"]))
        lines.append((style.literal(f"{row['strategy']} over\n{row['other']}"), np.array(row["rounds"]), percent))
    lines.sort(key=lambda line: np.abs(line[2]).max())
    with matplotlib.rc_context(style.SETTINGS):
        figure = Figure(figsize=(style.WIDTH, 62 * style.MILLIMETRE))
        axes = figure.add_axes((0.085, 0.16, 0.69, 0.8))
        axes.axhline(0, color=style.FAINT, linewidth=0.6)
        for position, (_, rounds, percent) in enumerate(lines):
            color, width = (style.INK, 0.9) if len(lines) - position <= MOST_RESIDUALS_NAMED else (style.GREY, 0.6)
            axes.plot(rounds, percent, color=color, linewidth=width, marker="o", markersize=2.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        axes.set_xlabel("round")
        axes.set_ylabel("ratio of a pair over its mean")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        _name_farthest(axes, lines[-MOST_RESIDUALS_NAMED:])
        return style.svg(figure)


def _name_farthest(axes: Axes, lines: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> None:
    """The names of these lines at the right, each joined to its farthest point."""
    places = [int(np.argmax(np.abs(percent))) for _, _, percent in lines]
    ends = [(name, rounds[place], percent[place]) for (name, rounds, percent), place in zip(lines, places, strict=True)]
    ends.sort(key=lambda end: end[2])
    axes.set_ylim(axes.get_ylim())
    to_fraction = axes.transData + axes.transAxes.inverted()
    natural = [to_fraction.transform((x, y))[1] for _, x, y in ends]
    for (name, x, y), height in zip(ends, _spread(natural, [2] * len(ends), line=0.065), strict=True):
        _label_at_right(axes, name, (x, y), height, style.INK)


def _label_at_right(axes: Axes, name: str, point: tuple[float, float], height: float, color: str) -> None:
    """A name beside the plot, at this share of its height, with a line to a point."""
    axes.annotate(
        name,
        xy=point,
        xytext=(1.035, height),
        textcoords="axes fraction",
        va="center",
        fontsize=6.8,
        color=color,
        annotation_clip=False,
        arrowprops={
            "arrowstyle": "-",
            "color": color,
            "linewidth": 0.4,
            "alpha": 0.5,
            "relpos": (0, 0.5),
            "shrinkA": 1,
            "shrinkB": 3,
        },
    )


def _spread(positions: Sequence[float], lines: Sequence[int], line: float = 0.048) -> list[float]:
    """Ascending `positions` in 0 to 1 of labels of so many `lines`, moved as little as it takes to stand apart inside.

    A line takes `line` of the height, or less where there are too many for it.
    """
    # Labels are centred on their positions: half of each of two neighbours lies between them.
    between = [(below + above) / 2 for below, above in pairwise(lines)]
    line = min(line, 0.98 / max(1.0, sum(between)))
    # Few reports have such labels, and its import takes as long as drawing a figure.
    from scipy.optimize import isotonic_regression

    # Less the distance that it keeps from the first, each must only be no lower than the one before: isotonic.
    offsets = line * np.concatenate([[0.0], np.cumsum(between)])
    fitted = isotonic_regression(np.asarray(positions) - offsets).x
    return (np.clip(fitted, 0.0, max(0.0, 1.0 - offsets[-1])) + offsets).tolist()
