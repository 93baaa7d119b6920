"""The figure of a strategy's page: how long its windows took, and how much launches differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from reports import blocks
from reports.charts import layout, style, svg

WINDOW_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the windows of a bar, in ascending order."""

_WITH, _WITHOUT, _MIDDLE, _MOST, _MEDIAN = (
    "with exchange",
    "without exchange",
    "middle half",
    "5 % to 95 %",
    "a launch's median",
)
_PALE, _HATCH = 0.35, "//////"  # The opacity of a bar up to the outer quantiles; bars without exchange.
_ROW, _LETTER = 7.5, 1.25  # Millimetres.
_MOST_TIMES_MEDIAN = 2.2  # Windows are drawn up to so many times the largest median.
_LEAST_RANGE = 0.1  # Of the largest median.


class Quantiles(NamedTuple):
    """The WINDOW_QUANTILES of a bar's windows."""

    least: float
    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float
    most: float


@dataclass(frozen=True)
class Bar:
    """The windows of all launches of one configuration, in milliseconds per step."""

    name: str
    """Workers and options: bars with the same name share a row."""
    color: str
    exchange: bool
    windows: int
    quantiles: Quantiles
    medians: Sequence[float]
    """Of the windows of each launch."""

    @property
    def title(self) -> str:
        """The name in one line."""
        return self.name.replace("\n", ", ")


def windows(bars: Sequence[Bar], width: float = style.WIDTH) -> bytes:
    """A row for each name with its one or two bars: windows with gradient exchange above those without."""
    names = [*dict.fromkeys(bar.name for bar in bars)]
    longest = max(len(line) for name in names for line in name.split("\n"))
    low, high = range_of_windows(bars)
    with matplotlib.rc_context(style.SETTINGS | {"hatch.linewidth": 0.35, "path.simplify": False}):
        figure, [axes] = layout.panels(
            1,
            width,
            [_ROW * len(names)],
            left=4 + _LETTER * min(longest, style.LONGEST_NAME),
            between=0,
            right=14,
            above=2.0,
            handles=_legend(bars),
        )
        svg.panel(axes, "windows, milliseconds per step")
        most = max(2, layout.MOST_POINTS // len(bars))
        for bar in bars:
            is_alone = sum(other.name == bar.name for other in bars) == 1
            aside = 0.0 if is_alone else -0.21 if bar.exchange else 0.21
            _draw_bar(axes, bar, names.index(bar.name) + aside, high, most)
        axes.set_xlim(low, high)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [_wrapped(name) for name in names], fontsize=6.2)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.set_xlabel("milliseconds per step")
        return svg.svg(figure)


def range_of_windows(bars: Sequence[Bar]) -> tuple[float, float]:
    """The range of windows that is shown, in ms per step: not so far that few windows would leave the bars no room."""
    largest, low = max(bar.quantiles.median for bar in bars), min(bar.quantiles.least for bar in bars)
    high = min(max(bar.quantiles.most for bar in bars), _MOST_TIMES_MEDIAN * largest)
    margin = max(0.03 * (high - low), (_LEAST_RANGE * largest - (high - low)) / 2)
    return max(0.0, low - margin), high + margin


def _wrapped(name: str) -> str:
    return "\n".join(style.literal(style.shortened(line)) for line in name.split("\n"))


def _legend(bars: Sequence[Bar]) -> list[layout.Handle]:
    color, exchanges = bars[0].color, {bar.exchange for bar in bars}
    handles = [layout.mark_handle("d", 2.2, 0.4, _MEDIAN), Patch(facecolor=to_rgba(color, _PALE), label=_MOST)]
    if exchanges == {True}:
        return [Patch(facecolor=color, label=_MIDDLE), *handles]
    filled = [Patch(facecolor=color, label=_WITH, gid=_WITH)] if True in exchanges else []
    hollow = Patch(facecolor=style.PAPER, hatch=_HATCH, edgecolor=color, label=_WITHOUT, gid=_WITHOUT)
    return [*filled, hollow, *handles]


def _draw_bar(axes: Axes, bar: Bar, y: float, high: float, most_launches: int) -> None:
    """A line up to the ends, pale from 5 % to 95 %, filled or hatched in the middle half, the median across.

    Medians of launches up to `high` are marked, of many launches some.
    """
    least, fifth, quarter, median, three_quarters, ninety_fifth, most = bar.quantiles
    about = {"of": bar.title}
    tip = about | {
        "median": f"{blocks.number(median)} ms",
        _MIDDLE: f"{blocks.number(quarter)} to {blocks.number(three_quarters)} ms",
        _MOST: f"{blocks.number(fifth)} to {blocks.number(ninety_fifth)} ms",
        "all": f"{blocks.number(least)} to {blocks.number(most)} ms",
        "windows (n)": bar.windows,
        "launches (n)": len(bar.medians),
    }
    edge = {"height": 0.22, "edgecolor": bar.color, "linewidth": 0.4}
    inner = {"facecolor": bar.color} if bar.exchange else {"facecolor": style.PAPER, "hatch": _HATCH}
    key = [_WITH if bar.exchange else _WITHOUT]
    [whisker] = axes.plot([least, most], [y, y], color=bar.color, linewidth=0.6)
    [outer] = axes.barh(y, ninety_fifth - fifth, left=fifth, facecolor=to_rgba(bar.color, _PALE), **edge)
    [box] = axes.barh(y, three_quarters - quarter, left=quarter, **edge | inner)
    [across] = axes.plot([median, median], [y - 0.17, y + 0.17], color=style.INK, linewidth=0.9, solid_capstyle="butt")
    for artist in (whisker, outer, box, across):
        svg.mark(artist, key, tip)
    shown = sorted(each for each in bar.medians if each <= high)
    drawn = [shown[place] for place in layout.places_of(len(shown), most_launches)] if shown else []
    look = {"color": style.INK, "markerfacecolor": style.PAPER, "markeredgewidth": 0.4, "markersize": 2.2}
    [diamonds] = axes.plot(drawn, [y + 0.16] * len(drawn), "d", linestyle="none", **look)
    svg.mark(diamonds, key, *(about | {_MEDIAN: f"{blocks.number(each)} ms"} for each in drawn))
    said = f"n = {len(bar.medians)}{' »' if most > high else ''}"
    where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(said, (1, y), xycoords=axes.get_yaxis_transform(), fontsize=5.8, color=style.FAINT, **where)
