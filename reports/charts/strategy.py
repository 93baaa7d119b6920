"""The figure of a strategy's page: its windows, its step divided, its first step, and its processors over time.

One SVG, the same bytes for the same input. A row for each number of workers runs through three panels; below them
stands a panel of processor use for each launch that is shown. Lengths are millimetres.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator

from reports import blocks
from reports.charts import layout, steps, style, svg
from reports.charts.style import DAGGER, MILLIMETRE

WINDOW_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the windows of a bar, in ascending order."""

STARTUP_PARTS = ("imports", "world", "first_step")
"""The parts of the time to the first step, in their order."""

_STARTUP_SHARE, _BREAK_SHARE = 0.4, 0.05
"""Of the width of a panel of processor use: what the start-up takes, and what is left free after it."""

_STARTUP_NAMES = {"imports": "imports", "world": "joining the world", "first_step": "the rest of the start-up"}
_STARTUP_LOOKS = {"imports": (1.0, ""), "world": (0.6, "////"), "first_step": (0.3, "")}  # Opacity and hatch.
_WITH, _WITHOUT, _MIDDLE, _MOST, _MEDIAN = (
    "with exchange",
    "without exchange",
    "middle half",
    "5 % to 95 %",
    "a launch's median",
)
_PALE = 0.35  # The opacity of a bar up to the outer quantiles.

_WIDE = {"windows": (27.0, 54.0), "parts": (96.0, 38.0), "startups": (147.5, 13.5)}  # Left end and width.
_NAMES, _NUMBERS = 27.0, 13.0  # What stands at the left and at the right of a panel on a narrow page.
_TITLE, _AXIS, _KEY_LINE, _GAP = 5.5, 7.0, 3.1, 3.5
_MOST_KEY_LINES = 4
_NARROW_ROW, _NARROW_PROCESSORS = 8.0, 24.0
_GROUP_HEIGHTS = (5.4, 19.0)  # The least and the most of a row.
_PROCESSOR_HEIGHTS = (14.0, 66.0)
_CHARACTER = 1.18  # The mean width of a letter of the small print.
_SECONDS = "seconds since the start of the process: up to the end of the first step, then the clocked windows"
_LEFT = 9.0  # Where the panels of processor use begin.
_LEAST_TICKS_APART = 6.0
_POINTS_OF_A_RANK = 200
_MOST_TIMES_MEDIAN = 2.2  # Windows are drawn up to so many times the largest median.
_LEAST_RANGE = 0.1  # Of the largest median.
_DIAMOND = {
    "color": style.INK,
    "markerfacecolor": style.PAPER,
    "markeredgewidth": 0.4,
    "marker": "d",
    "markersize": 2.2,
}
_PRINT = 5.9  # Points.
_STEPS = [1, 2, 2.5, 5, 10]  # Of an axis, times powers of ten.


def heights(groups: int, processors: bool) -> tuple[float, float]:
    """The least height of a figure with so many rows, and the largest that it makes use of."""
    fixed = _TITLE + _AXIS + _MOST_KEY_LINES * _KEY_LINE
    below = [_GAP + _TITLE + _AXIS + height for height in _PROCESSOR_HEIGHTS] if processors else [_GAP, _GAP]
    rows = (_GROUP_HEIGHTS[0], _GROUP_HEIGHTS[1] * (1.0 if processors else 1.8))
    least, most = (fixed + groups * row + rest for row, rest in zip(rows, below, strict=True))
    return least, most


def strategy(
    groups: pd.DataFrame,
    windows: pd.DataFrame,
    parts: pd.DataFrame,
    startups: pd.DataFrame,
    processors: pd.DataFrame,
    absent: Mapping[str, str],
    height: float,
    width: float = style.WIDTH,
) -> bytes:
    """The four panels. `groups` has a row for each row of the figure: label, color, and whether it is `oversubscribed`.

    The other tables name by `group` its place, from 0. `windows` has a row for each bar: whether with `exchange`, n
    launches, `quantiles` (WINDOW_QUANTILES) and `medians` of the launches, milliseconds per step. `parts` are rows of
    `decomposition.parts`; `startups` has the seconds of STARTUP_PARTS and n. `processors` has a row for each part of a
    start-up and each window of the launches shown: its `group`, the `part` (empty for a window), rank, `start` and
    `end` in seconds and the `cores` kept busy. `absent` says by the name of a table why it has no rows. The `height`,
    millimetres, is that of a wide figure; a narrow one is as high as its panels, which stand below one another.
    """
    tables = {"windows": windows, "parts": parts, "startups": startups}
    draws = {"windows": _draw_windows, "parts": _draw_parts, "startups": _draw_startups}
    # The parts of a step and the mark of its end stand in two columns, those of a start-up in one.
    key_lines = max(math.ceil((parts["part"].nunique() + 2) / 2) if len(parts) else 2, len(STARTUP_PARTS))
    launches = [*dict.fromkeys(processors["group"])]
    is_wide = width > style.NARROW
    if is_wide:
        row = _row_height(len(groups), key_lines, height, len(processors) > 0)
        places = {name: _Place(left, _TITLE, across, row, len(groups)) for name, (left, across) in _WIDE.items()}
    else:
        pitch = _TITLE + _NARROW_ROW * len(groups) + _AXIS + key_lines * _KEY_LINE + _GAP
        across = width / MILLIMETRE - _NAMES - _NUMBERS
        places = {
            name: _Place(_NAMES, number * pitch + _TITLE, across, _NARROW_ROW, len(groups))
            for number, name in enumerate(tables)
        }
        height = 3 * pitch + max(1, len(launches)) * (_TITLE + _NARROW_PROCESSORS + _AXIS) + _GAP
    settings = {"hatch.linewidth": 0.35, "font.size": 6.2, "xtick.labelsize": 5.9, "path.simplify": False}
    with matplotlib.rc_context(style.SETTINGS | settings):
        page = _Page(width, height)
        for name, table in tables.items():
            place = places[name]
            if table.empty:
                page.words(place.left, place.top + 1.5, absent[name], place.width + 10)
                continue
            if name == "windows" or not is_wide:
                _name_rows(page, groups, place)
            draws[name](page, place, table, groups)
        top = places["startups"].bottom + _AXIS + key_lines * _KEY_LINE + _GAP
        if processors.empty:
            page.words(0.0, top - 1.0, absent["processors"], width / MILLIMETRE)
        merged, note = _merged(processors)
        most = 1.08 * max(1.0, merged["cores"].max()) if len(merged) else 1.0
        for beside in [launches] if is_wide else [[launch] for launch in launches]:
            below = height - top - _TITLE - _AXIS if is_wide else _NARROW_PROCESSORS
            if beside:
                _draw_processors(page, merged, groups, beside, top, below, most)
            top += _TITLE + below + _AXIS
        if launches:
            words = " ".join([_SECONDS if is_wide else "seconds since the start of the process", note]).strip()
            page.text(width / MILLIMETRE / 2, height - 1.2, words, ha="center")
        return svg.svg(page.figure)


def range_of_windows(windows: pd.DataFrame) -> tuple[float, float]:
    """The range of windows that is shown, in ms per step: not so far that few windows would leave the bars no room."""
    largest = max(quantiles[3] for quantiles in windows["quantiles"])
    low = min(quantiles[0] for quantiles in windows["quantiles"])
    high = min(max(quantiles[-1] for quantiles in windows["quantiles"]), _MOST_TIMES_MEDIAN * largest)
    margin = max(0.03 * (high - low), (_LEAST_RANGE * largest - (high - low)) / 2)
    return max(0.0, low - margin), high + margin


@dataclass(frozen=True)
class _Place:
    """Where a panel stands that has the figure's rows, in millimetres from the upper left corner."""

    left: float
    top: float
    width: float
    row: float
    rows: int

    @property
    def bottom(self) -> float:
        """Where its rows end."""
        return self.top + self.row * self.rows

    def middle(self, row: float) -> float:
        """Where a row has its middle."""
        return self.top + self.row * (row + 0.5)


class _Page:
    """A figure with places in millimetres from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self._width, self._height = width / MILLIMETRE, height
        self.figure = Figure(figsize=(width, height * MILLIMETRE))
        self._ground = self.figure.add_axes((0, 0, 1, 1))
        self._ground.set_axis_off()
        self._ground.set_xlim(0, self._width)
        self._ground.set_ylim(height, 0)

    @property
    def width(self) -> float:
        """In millimetres."""
        return self._width

    def panel(self, left: float, top: float, width: float, height: float, title: str) -> Axes:
        place = (left / self._width, 1 - (top + height) / self._height, width / self._width, height / self._height)
        axes = self.figure.add_axes(place)
        axes.tick_params(length=2, pad=1.5)
        svg.panel(axes, title)
        self.text(left, top - _TITLE + 1.8, title, fontsize=6.9)
        return axes

    def row_panel(self, place: _Place, title: str) -> Axes:
        """The axes of a panel that has the figure's rows."""
        axes = self.panel(place.left, place.top, place.width, place.row * place.rows, title)
        axes.set_ylim(place.rows - 0.5, -0.5)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        return axes

    def text(self, x: float, y: float, text: str, key: str = "", **how: object) -> None:
        """A text, which picks out the marks with a key."""
        drawn = self._ground.text(x, y, style.literal(text), **{"fontsize": _PRINT, "va": "center"} | how)
        if key:
            svg.button(drawn, key)

    def words(self, x: float, y: float, text: str, width: float) -> None:
        """A sentence in lines that are no longer than this."""
        lines, most = [""], int(width / _CHARACTER)
        for word in text.split():
            if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
                lines.append("")
            lines[-1] = f"{lines[-1]} {word}".strip()
        for place, line in enumerate(lines):
            self.text(x, y + 3 * place, line, color=style.FAINT)

    def key(
        self, place: _Place, entries: Iterable[tuple[str, str, Mapping[str, object]]], columns: int, pitch: float
    ) -> None:
        """Marks with what they stand for, in columns below a panel.

        Each has a text, the key that it picks out, if any, and a rectangle's looks, or the arguments of a line.
        """
        for number, (text, key, look) in enumerate(entries):
            left = place.left + pitch * (number % columns)
            top = place.bottom + _AXIS + _KEY_LINE * (number // columns)
            if "marker" in look:
                self._ground.plot([left + 1.2], [top], linestyle="none", **look)
            else:
                edge = {"edgecolor": style.INK, "linewidth": 0.3}
                self._ground.add_patch(Rectangle((left, top - 0.9), 2.4, 1.8, **edge | look))
            self.text(left + 3.2, top, text, key, fontsize=5.5)


def _row_height(rows: int, key_lines: int, height: float, processors: bool) -> float:
    """Of a figure of this height with so many rows and lines in its keys."""
    fixed = _TITLE + _AXIS + key_lines * _KEY_LINE
    least = _GAP + _TITLE + _AXIS + _PROCESSOR_HEIGHTS[0] if processors else _GAP
    spare = max(0.0, height - fixed - least - _GROUP_HEIGHTS[0] * rows)
    if not processors:
        return _GROUP_HEIGHTS[0] + spare / rows
    # Rows take two thirds of what there is to spare.
    return min(_GROUP_HEIGHTS[0] + 0.67 * spare / rows, _GROUP_HEIGHTS[1])


def _name_rows(page: _Page, groups: pd.DataFrame, place: _Place) -> None:
    for row, group in enumerate(groups.to_dict("records")):
        color = style.FAINT if group["oversubscribed"] else style.INK
        first, _, rest = group["label"].partition("\n")
        mark = DAGGER * bool(group["oversubscribed"])
        page.text(0.0, place.middle(row) - (1.2 if rest else 0.0), first + mark, color=color, fontsize=6.4)
        if rest:
            page.text(0.0, place.middle(row) + 1.4, _shortened(rest, 22), color=color, fontsize=5.5)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _name(groups: pd.DataFrame, group: int) -> str:
    """What the mouse shows of a row's name."""
    row = groups.iloc[group]
    workers, *options = row["label"].split("\n")
    return ", ".join([workers + DAGGER * bool(row["oversubscribed"]), *options])


def _draw_windows(page: _Page, place: _Place, windows: pd.DataFrame, groups: pd.DataFrame) -> None:
    """Bars from the 5 % to the 95 % quantile, in them those of the middle half, a line for all windows."""
    axes, (low, high) = page.row_panel(place, "windows, ms per step"), range_of_windows(windows)
    both = windows["exchange"].nunique() > 1
    for exchange, rows in windows.groupby("exchange", sort=False):
        key = _WITH if exchange else _WITHOUT
        bars, marks, tips = [], [], []
        for row in rows.to_dict("records"):
            is_alone = (windows["group"] == row["group"]).sum() == 1
            y = row["group"] + (0.0 if is_alone else -0.21 if exchange else 0.21)
            about = {"of": _name(groups, row["group"])} | ({"windows": key} if both else {})
            bars.append((y, row["quantiles"], groups["color"].iloc[row["group"]], about | _tip_of_windows(row)))
            drawn = [median for median in sorted(row["medians"]) if median <= high]
            most = max(2, layout.MOST_POINTS // len(windows))
            chosen = [drawn[number] for number in layout.places_of(len(drawn), most)] if drawn else []
            marks += [(median, y + 0.16) for median in chosen]
            tips += [about | {_MEDIAN: f"{blocks.number(median)} ms"} for median in chosen]
            said = f"n = {row['n']}{' »' if row['quantiles'][-1] > high else ''}"
            right = place.left + place.width + 1.2
            page.text(right, place.middle(y), said, fontsize=5.5, color=style.FAINT)
        _draw_quantiles(axes, bars, key, is_filled=bool(exchange))
        if marks:
            [medians] = axes.plot(*zip(*marks, strict=True), linestyle="none", **_DIAMOND)
            svg.mark(medians, [key], *tips)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    color, has_any = groups["color"].iloc[0], set(windows["exchange"])
    key = [(_WITH if both else _MIDDLE, _WITH if both else "", {"facecolor": color})] if True in has_any else []
    hollow = {"facecolor": style.PAPER, "hatch": "//////", "edgecolor": color}
    key += [(_WITHOUT, _WITHOUT, hollow)] if False in has_any else []
    key += [(_MOST, "", {"facecolor": to_rgba(color, _PALE)}), (_MEDIAN, "", _DIAMOND)]
    page.key(place, key, 2, 25.0)


def _tip_of_windows(row: Mapping[str, object]) -> dict[str, object]:
    """What the mouse shows of a bar of windows."""
    numbers = [blocks.number(value) for value in row["quantiles"]]
    return {
        "median": f"{numbers[3]} ms",
        _MIDDLE: f"{numbers[2]} to {numbers[4]} ms",
        _MOST: f"{numbers[1]} to {numbers[5]} ms",
        "all": f"{numbers[0]} to {numbers[6]} ms",
        "windows (n)": row["count"],
        "launches (n)": row["n"],
    }


def _draw_quantiles(
    axes: Axes,
    bars: Sequence[tuple[float, Sequence[float], str, Mapping[str, object]]],
    key: str,
    is_filled: bool,
) -> None:
    colors, tips = [color for *_, color, _ in bars], [tip for *_, tip in bars]
    whiskers = [[(quantiles[0], y), (quantiles[-1], y)] for y, quantiles, *_ in bars]
    middles = [[(quantiles[3], y - 0.17), (quantiles[3], y + 0.17)] for y, quantiles, *_ in bars]
    outer = [_box(quantiles[1], quantiles[5], y - 0.11, y + 0.11) for y, quantiles, *_ in bars]
    inner = [_box(quantiles[2], quantiles[4], y - 0.11, y + 0.11) for y, quantiles, *_ in bars]
    pale, looks = [to_rgba(color, _PALE) for color in colors], {"edgecolors": colors, "linewidths": 0.4}
    if is_filled:
        boxes = PolyCollection(inner, facecolors=colors, **looks)
    else:
        boxes = PolyCollection(inner, facecolors=style.PAPER, hatch="//////", **looks)
    for collection in (
        LineCollection(whiskers, colors=colors, linewidths=0.6),
        PolyCollection(outer, facecolors=pale, **looks),
        boxes,
        LineCollection(middles, colors=style.INK, linewidths=0.9),
    ):
        svg.mark(collection, [key], *tips)
        axes.add_collection(collection, autolim=False)


def _draw_parts(page: _Page, place: _Place, parts: pd.DataFrame, groups: pd.DataFrame) -> None:
    """The ideal step, then what it takes beyond it: right of zero what takes time, left of it what saves some."""
    axes, low, high = page.row_panel(place, "the step divided, ms"), 0.0, 0.0
    for group, cell in parts.groupby("group"):
        about = {"of": _name(groups, int(group))}
        start, end = steps.draw_parts(axes, cell, int(group), [], about)
        measured = 1000 * cell["measured_seconds"].iloc[0]
        low, high = min(low, start), max(high, end, measured)
        [line] = axes.plot([measured] * 2, [group - 0.42, group + 0.42], color=style.INK, linewidth=1.3)
        line.set(path_effects=steps.HALO, solid_capstyle="butt")
        said = {"measured step": f"{blocks.number(measured)} ms", "launches (n)": cell["measured_n"].iloc[0]}
        svg.mark(line, [], about | said)
        page.text(place.left + place.width + 1.6, place.middle(group), blocks.number(measured))
    axes.set_xlim(1.02 * low, 1.02 * high)
    axes.axvline(0, color=style.FAINT, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    drawn = [part for part in style.PARTS if part in {"ideal", *parts["part"]}]
    key = [(part, part, {"facecolor": style.PARTS[part][0], "hatch": style.PARTS[part][1]}) for part in drawn]
    line = {"marker": "|", "markersize": 5, "markeredgewidth": 1.3, "color": style.INK}
    page.key(place, [*key, ("measured", "", line)], 2, 21.0)


def _draw_startups(page: _Page, place: _Place, startups: pd.DataFrame, groups: pd.DataFrame) -> None:
    """Up to the end of the first step, in parts."""
    axes, rows, ends = page.row_panel(place, "first step after, s"), startups.to_dict("records"), {}
    for part, (opacity, hatch) in _STARTUP_LOOKS.items():
        boxes, faces, tips = [], [], []
        for row in rows:
            start = ends.get(row["group"], 0.0)
            ends[row["group"]] = start + max(0.0, row[part])
            boxes.append(_box(start, ends[row["group"]], row["group"] - 0.3, row["group"] + 0.3))
            faces.append(to_rgba(groups["color"].iloc[row["group"]], opacity))
            about = {"of": _name(groups, row["group"]), "start-up": _STARTUP_NAMES[part]}
            tips.append(about | {"median": f"{blocks.number(row[part])} s", "launches (n)": row["n"]})
        looks = {"facecolors": faces, "edgecolors": style.INK, "linewidths": 0.3, "hatch": hatch}
        bars = PolyCollection(boxes, **looks)
        svg.mark(bars, [_STARTUP_NAMES[part]], *tips)
        axes.add_collection(bars, autolim=False)
    for group, end in ends.items():
        page.text(place.left + place.width + 1.2, place.middle(group), blocks.number(end))
    axes.set_xlim(0, 1.02 * max(ends.values()) or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(4 if place.width > 20 else 2, steps=_STEPS))
    color, key = groups["color"].iloc[0], []
    for part, (opacity, hatch) in _STARTUP_LOOKS.items():
        text = _STARTUP_NAMES[part] if place.width > 20 else _STARTUP_NAMES[part].removesuffix(" of the start-up")
        key.append((text, _STARTUP_NAMES[part], {"facecolor": to_rgba(color, opacity), "hatch": hatch}))
    page.key(place, key, 1, 20.0)


def _merged(processors: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """So many windows of a rank in a row as one, with the mean over their time, and a note on that."""
    is_window = processors["part"] == ""
    windows = processors[is_window].sort_values(["group", "rank", "start"])
    ranks = windows.groupby(["group", "rank"])
    longest = ranks.size().max() if len(windows) else 0
    every = math.ceil(longest / min(_POINTS_OF_A_RANK, max(2, layout.MOST_POINTS // max(1, ranks.ngroups))))
    if every <= 1:
        return processors, ""
    busy = windows.assign(busy=windows["cores"] * (windows["end"] - windows["start"]), bunch=ranks.cumcount() // every)
    busy = busy.assign(length=busy["end"] - busy["start"])
    merged = busy.groupby(["group", "part", "rank", "bunch"], as_index=False).agg(
        start=("start", "first"), end=("end", "last"), busy=("busy", "sum"), length=("length", "sum")
    )
    merged = merged.assign(cores=merged["busy"] / merged["length"])[[*processors.columns]]
    return pd.concat([processors[~is_window], merged]), f"(means of every {every} windows of a rank)"


def _draw_processors(
    page: _Page,
    processors: pd.DataFrame,
    groups: pd.DataFrame,
    launches: Sequence[int],
    top: float,
    height: float,
    most: float,
) -> None:
    """Cores that each rank kept busy, launch by launch: its start-up and its windows, on scales of their own."""
    pitch = (page.width - _LEFT) / len(launches)
    page.text(1.6, top + _TITLE + height / 2, "cores busy", rotation=90, ha="center")
    # One for all launches, whose width is in millimetres: each further one would take as long as all that it shows.
    titles = [f"processor use, {groups['label'].iloc[group]}".replace("\n", ", ") for group in launches]
    room = int((pitch - 5.0) / 1.35)
    axes = page.panel(_LEFT, top + _TITLE, page.width - _LEFT, height, _shortened(titles[0], room))
    svg.panel(axes, "; ".join(titles))
    axes.set_xlim(_LEFT, page.width)
    axes.set_ylim(0, most)
    axes.spines["bottom"].set_visible(False)
    levels = [value for value in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0, most) if value <= most]
    axes.yaxis.set_major_locator(FixedLocator(levels))
    ticks: list[tuple[float, str]] = []
    for place, group in enumerate(launches):
        rows = processors[processors["group"] == group]
        left, right = _LEFT + pitch * place, _LEFT + pitch * (place + 1) - 5.0
        if place:
            page.text(left, top + 1.8, _shortened(titles[place], room), fontsize=6.9)
        lines = [[(left, value), (right, value)] for value in levels]
        grid = {"colors": [style.FAINT, *[style.RULE] * (len(lines) - 1)], "linewidths": 0.6, "zorder": 0.5}
        axes.add_collection(LineCollection(lines, **grid), autolim=False)
        scales = _scales(rows, left, right)
        ticks += _ticks(scales)
        _draw_launch(axes, rows, groups["color"].iloc[group], scales, _name(groups, group))
    axes.xaxis.set_major_locator(FixedLocator([place for place, _ in ticks]))
    axes.set_xticklabels([text for _, text in ticks])


def _scales(rows: pd.DataFrame, left: float, right: float) -> list[tuple[float, float, float, float]]:
    """Of the start-up and of the windows, where there are any: the first and the last second, and their places.

    Where these overlap, as they may without synchronous steps, one scale is of both.
    """
    beginning, windows = rows[rows["part"] != ""], rows[rows["part"] == ""]
    if len(beginning) and beginning["end"].max() > windows["start"].min():
        return [(0.0, rows["end"].max(), left, right)]
    break_at = left + _STARTUP_SHARE * (right - left)
    scales = [(0.0, beginning["end"].max(), left, break_at)] if len(beginning) else []
    start = break_at + _BREAK_SHARE * (right - left) if len(beginning) else left
    return [*scales, (windows["start"].min(), windows["end"].max(), start, right)]


def _ticks(scales: Sequence[tuple[float, float, float, float]]) -> list[tuple[float, str]]:
    """Places with their seconds, none so near to another that the numbers would touch."""
    ticks: list[tuple[float, str]] = []
    for scale in scales:
        for value in MaxNLocator(3, steps=_STEPS).tick_values(*scale[:2]):
            place = _placed(value, scale)
            if scale[0] <= value <= scale[1] and (not ticks or place - ticks[-1][0] > _LEAST_TICKS_APART):
                ticks.append((place, f"{value:g}"))
    return ticks


def _draw_launch(
    axes: Axes, rows: pd.DataFrame, color: str, scales: Sequence[tuple[float, float, float, float]], name: str
) -> None:
    """The parts of the start-up filled, then a line for each rank, on a broken axis."""
    beginning, windows = rows[rows["part"] != ""], rows[rows["part"] == ""]
    for row in beginning.to_dict("records"):
        opacity, hatch = _STARTUP_LOOKS[row["part"]]
        start, end = (_placed(row[end], scales[0]) for end in ("start", "end"))
        look = {"facecolor": to_rgba(color, opacity), "edgecolor": style.INK, "linewidth": 0.3, "hatch": hatch}
        part = axes.add_patch(Rectangle((start, 0), end - start, row["cores"], **look))
        took = f"{blocks.number(row['end'] - row['start'])} s"
        about = {"of": name, "start-up": _STARTUP_NAMES[row["part"]], "took": took}
        svg.mark(part, [_STARTUP_NAMES[row["part"]]], about | {"cores busy": blocks.number(row["cores"])})
    ranks = [*dict.fromkeys(windows["rank"])]
    for place, rank in enumerate(ranks):
        own = windows[windows["rank"] == rank]
        cores = own["cores"].to_numpy()
        ends = [_placed(own[end].to_numpy(), scales[-1]) for end in ("start", "end")]
        # A level line for each window, and a gap after it.
        x = np.column_stack([*ends, np.full(len(own), np.nan)]).ravel()
        is_dark = len(ranks) == 1 or place % 2 == 1
        # Wide and pale, thin and dark in turn: one on another, both stay visible.
        looks = {"alpha": 1.0 if is_dark else 0.5, "linewidth": 1.1 if is_dark else 2.6, "solid_capstyle": "butt"}
        [line] = axes.plot(x, np.repeat(cores, 3), color=color, **looks)
        low, middle, high = (blocks.number(value) for value in np.quantile(cores, (0, 0.5, 1)))
        tip = {"of": f"{name}, rank {int(rank)}", "cores busy, median": middle, "least and most": f"{low} to {high}"}
        svg.mark(line, [f"rank {int(rank)}"], tip | {"windows (n)": len(own)})
    if len(scales) > 1:
        (*_, end), (_, _, start, _) = scales
        breaks = [[(x, 0), (x, axes.get_ylim()[1])] for x in (end + 0.2 * (start - end), end + 0.8 * (start - end))]
        looks = {"colors": style.FAINT, "linewidths": 0.5, "linestyles": (0, (1, 1.5))}
        axes.add_collection(LineCollection(breaks, **looks), autolim=False)


def _placed(value: float | np.ndarray, scale: tuple[float, float, float, float]) -> float | np.ndarray:
    """The place of a second between the first and the last one's."""
    first, last, left, right = scale
    return left + (right - left) * (value - first) / (last - first)


def _box(left: float, right: float, top: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
