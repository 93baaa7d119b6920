"""The figure of a strategy's page: its windows, its step divided, its first step, and its processors over time.

One SVG, the same bytes for the same input. A row for each number of workers runs through three panels; below them
stands a panel of processor use for each launch that is shown. Lengths are millimetres.
"""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator

from reports import blocks
from reports.charts import style

WINDOW_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the windows of a bar, in ascending order."""

STARTUP_PARTS = ("imports", "world", "first_step")
"""The parts of the time to the first step, in their order."""

STARTUP_SHARE, BREAK_SHARE = 0.4, 0.05
"""Of the width of a panel of processor use: what the start-up takes, and what is left free after it."""

_STARTUP_NAMES = {"imports": "imports", "world": "joining the world", "first_step": "the rest"}
STARTUP_LOOKS = {"imports": (0.0, ""), "world": (0.4, "////"), "first_step": (0.72, "")}  # Share of white, and hatch.

_WIDTH = 172.0
_PANELS = {"windows": (27.0, 54.0), "parts": (96.0, 38.0), "startups": (147.5, 15.5)}  # Left end and width.
_TITLE, _AXIS, _KEY_LINE, _GAP = 5.5, 7.0, 3.1, 3.5
_MOST_KEY_LINES = 4
_GROUP_HEIGHTS = (5.4, 19.0)  # The least and the most of a row.
_PROCESSOR_HEIGHTS = (14.0, 66.0)
_CHARACTER = 1.18  # The mean width of a letter of the small print.
_SECONDS = "seconds since the start of the process: up to the end of the first step, then the clocked windows"
_LEFT = 9.0  # Where the panels of processor use begin.
_LEAST_TICKS_APART = 6.0
_MOST_TIMES_MEDIAN = 2.2  # Windows are drawn up to so many times the largest median.
_LEAST_RANGE = 0.1  # Of the largest median.
_MEDIAN = {"color": style.INK, "markerfacecolor": "white", "markeredgewidth": 0.4}  # The mark of a launch's median.
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
) -> bytes:
    """The four panels. `groups` has a row for each row of the figure: label, color, and whether it is `crowded`.

    The other tables name by `group` its place, from 0. `windows` has a row for each bar: whether with `exchange`, n
    launches, `quantiles` (WINDOW_QUANTILES) and `medians` of the launches, milliseconds per step. `parts` are rows of
    `scaling.table`; `startups` has the seconds of STARTUP_PARTS and n. `processors` has a row for each part of a
    start-up and each window of the launches shown: its `group`, the `part` (empty for a window), rank, `start` and
    `end` in seconds and the `cores` kept busy. `absent` says by the name of a table why it has no rows.
    """
    with matplotlib.rc_context(style.SETTINGS | {"hatch.linewidth": 0.35, "font.size": 6.2, "xtick.labelsize": 5.9}):
        figure = Figure(figsize=(_WIDTH / 25.4, height / 25.4))
        page = _Page(figure, height)
        # The parts of a step and the mark of its end stand in two columns, those of a start-up in one.
        key_lines = max(math.ceil((parts["part"].nunique() + 2) / 2) if len(parts) else 2, len(STARTUP_PARTS))
        row = _row_height(len(groups), key_lines, height, len(processors) > 0)
        bottom = _TITLE + row * len(groups)
        _name_rows(page, groups, row)
        draws = {"windows": _draw_windows, "parts": _draw_parts, "startups": _draw_startups}
        for (name, draw), table in zip(draws.items(), (windows, parts, startups), strict=True):
            if table.empty:
                left, width = _PANELS[name]
                page.words(left, _TITLE + 1.5, absent[name], width + 10)
            else:
                draw(page, _row_panel(page, name, len(groups), row), table, groups, bottom)
        top = bottom + _AXIS + key_lines * _KEY_LINE + _GAP
        if len(processors):
            _draw_processors(page, processors, groups, top, height - top - _TITLE - _AXIS)
        else:
            page.words(0.0, top - 1.0, absent["processors"], _WIDTH)
        return style.svg(figure)


def range_of_windows(windows: pd.DataFrame) -> tuple[float, float]:
    """The range of windows that is shown, in ms per step: not so far that few windows would leave the bars no room."""
    largest = max(quantiles[3] for quantiles in windows["quantiles"])
    low = min(quantiles[0] for quantiles in windows["quantiles"])
    high = min(max(quantiles[-1] for quantiles in windows["quantiles"]), _MOST_TIMES_MEDIAN * largest)
    margin = max(0.03 * (high - low), (_LEAST_RANGE * largest - (high - low)) / 2)
    return max(0.0, low - margin), high + margin


class _Page:
    """A figure with places in millimetres from its upper left corner."""

    def __init__(self, figure: Figure, height: float) -> None:
        self._figure, self._height = figure, height
        self._ground = figure.add_axes((0, 0, 1, 1))
        self._ground.set_axis_off()
        self._ground.set_xlim(0, _WIDTH)
        self._ground.set_ylim(height, 0)

    def panel(self, left: float, top: float, width: float, height: float) -> Axes:
        place = (left / _WIDTH, 1 - (top + height) / self._height, width / _WIDTH, height / self._height)
        axes = self._figure.add_axes(place)
        axes.tick_params(length=2, pad=1.5)
        return axes

    def text(self, x: float, y: float, text: str, **how: object) -> None:
        self._ground.text(x, y, style.literal(text), **{"fontsize": _PRINT, "va": "center"} | how)

    def title(self, x: float, text: str, y: float = 0.0) -> None:
        self.text(x, y + 1.8, text, fontsize=6.9)

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
        self, x: float, y: float, entries: Sequence[tuple[str, dict[str, object]]], columns: int, pitch: float
    ) -> None:
        """Marks with what they stand for, in columns: each a rectangle's looks, or the arguments of a line."""
        for place, (text, look) in enumerate(entries):
            left, top = x + pitch * (place % columns), y + _KEY_LINE * (place // columns)
            if "marker" in look:
                self._ground.plot([left + 1.2], [top], linestyle="none", **look)
            else:
                edge = {"edgecolor": style.INK, "linewidth": 0.3}
                self._ground.add_patch(Rectangle((left, top - 0.9), 2.4, 1.8, **edge | look))
            self.text(left + 3.2, top, text, fontsize=5.5)


def _row_height(rows: int, key_lines: int, height: float, processors: bool) -> float:
    """Of a figure of this height with so many rows and lines in its keys."""
    fixed = _TITLE + _AXIS + key_lines * _KEY_LINE
    least = _GAP + _TITLE + _AXIS + _PROCESSOR_HEIGHTS[0] if processors else _GAP
    spare = max(0.0, height - fixed - least - _GROUP_HEIGHTS[0] * rows)
    if not processors:
        return _GROUP_HEIGHTS[0] + spare / rows
    # Rows take two thirds of what there is to spare.
    return min(_GROUP_HEIGHTS[0] + 0.67 * spare / rows, _GROUP_HEIGHTS[1])


def _row_panel(page: _Page, name: str, rows: int, row: float) -> Axes:
    """The axes of a panel that has the figure's rows, each so high."""
    left, width = _PANELS[name]
    axes = page.panel(left, _TITLE, width, row * rows)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return axes


def _name_rows(page: _Page, groups: pd.DataFrame, row: float) -> None:
    for place, group in enumerate(groups.to_dict("records")):
        color = style.FAINT if group["crowded"] else style.INK
        first, _, rest = group["label"].partition("\n")
        middle = _TITLE + row * (place + 0.5)
        mark = "\N{DAGGER}" if group["crowded"] else ""
        page.text(0.0, middle - (1.2 if rest else 0.0), first + mark, color=color, fontsize=6.4)
        if rest:
            page.text(0.0, middle + 1.4, _shortened(rest, 22), color=color, fontsize=5.5)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw_windows(page: _Page, axes: Axes, windows: pd.DataFrame, groups: pd.DataFrame, bottom: float) -> None:
    """Bars from the 5 % to the 95 % quantile, in them those of the middle half, a line for all windows."""
    low, high = range_of_windows(windows)
    left, width = _PANELS["windows"]
    drawn, marks = {True: [], False: []}, []
    for row in windows.to_dict("records"):
        alone = (windows["group"] == row["group"]).sum() == 1
        y = row["group"] + (0.0 if alone else -0.21 if row["exchange"] else 0.21)
        drawn[row["exchange"]].append((y, row["quantiles"], groups["color"].iloc[row["group"]]))
        marks += [(median, y + 0.16) for median in row["medians"] if median <= high]
        row_height = (bottom - _TITLE) / len(groups)
        said = f"n = {row['n']}{' »' if row['quantiles'][-1] > high else ''}"
        page.text(left + width + 1.2, _TITLE + row_height * (y + 0.5), said, fontsize=5.5, color=style.FAINT)
    for exchange, bars in drawn.items():
        _draw_quantiles(axes, bars, filled=exchange)
    axes.plot(*zip(*marks, strict=True), linestyle="none", marker="d", markersize=1.9, **_MEDIAN)
    axes.set_xlim(low, high)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    page.title(left, "windows, ms per step")
    color = groups["color"].iloc[0]
    key = [("with exchange" if drawn[False] else "middle half", {"facecolor": color})] if drawn[True] else []
    key += [("without", {"facecolor": "white", "hatch": "//////", "edgecolor": color})] if drawn[False] else []
    key += [("5 % to 95 %", {"facecolor": _paler(color, 0.65)})]
    key.append(("a launch's median", {"marker": "d", "markersize": 1.9, **_MEDIAN}))
    page.key(left, bottom + _AXIS, key, 2, 27.0)


def _draw_quantiles(axes: Axes, bars: Sequence[tuple[float, Sequence[float], str]], filled: bool) -> None:
    if not bars:
        return
    colors = [color for *_, color in bars]
    whiskers = [[(quantiles[0], y), (quantiles[-1], y)] for y, quantiles, _ in bars]
    axes.add_collection(LineCollection(whiskers, colors=colors, linewidths=0.6), autolim=False)
    for (first, last), half, whiteness in (((1, 5), 0.11, 0.65), ((2, 4), 0.11, 0.0)):
        boxes = [_box(quantiles[first], quantiles[last], y - half, y + half) for y, quantiles, _ in bars]
        faces = [_paler(color, whiteness) for color in colors] if filled or whiteness else "white"
        looks = {"facecolors": faces, "edgecolors": colors, "linewidths": 0.4}
        hatch = None if filled or whiteness else "//////"
        axes.add_collection(PolyCollection(boxes, hatch=hatch, **looks), autolim=False)
    middles = [[(quantiles[3], y - 0.17), (quantiles[3], y + 0.17)] for y, quantiles, _ in bars]
    axes.add_collection(LineCollection(middles, colors=style.INK, linewidths=0.9), autolim=False)


def _draw_parts(page: _Page, axes: Axes, parts: pd.DataFrame, groups: pd.DataFrame, bottom: float) -> None:
    """The ideal step, then what it takes beyond it: right of zero what takes time, left of it what saves some."""
    ends, measured, boxes = [0.0], {}, {part: [] for part in style.PARTS}
    for group, own in parts.groupby("group"):
        spans, right = style.stacked(own)
        for part, (start, end) in spans.items():
            boxes[part].append(_box(start, end, group - 0.3, group + 0.3))
        measured[group] = 1000 * own["measured_seconds"].iloc[0]
        ends += [right, *(start for start, _ in spans.values())]
    for part, drawn in boxes.items():
        color, hatch = _part_look(part)
        looks = {"facecolors": color, "edgecolors": style.INK, "linewidths": 0.3, "hatch": hatch}
        if drawn:
            axes.add_collection(PolyCollection(drawn, **looks), autolim=False)
    lines = [[(each, group - 0.4), (each, group + 0.4)] for group, each in measured.items()]
    axes.add_collection(LineCollection(lines, colors=style.INK, linewidths=1.3), autolim=False)
    axes.set_xlim(1.02 * min(ends), 1.02 * max(ends))
    axes.axvline(0, color=style.FAINT, linewidth=0.6)
    _finish_bars(page, axes, "parts", {group: blocks.number(each) for group, each in measured.items()}, bottom, groups)
    page.title(_PANELS["parts"][0], "the step divided, ms")
    shown = {"ideal", *parts["part"]}
    known = [part for part in style.PARTS if part in shown]
    key = [(part, dict(zip(("facecolor", "hatch"), _part_look(part), strict=True))) for part in known]
    key.append(("measured", {"marker": "|", "markersize": 5, "markeredgewidth": 1.3, "color": style.INK}))
    page.key(_PANELS["parts"][0], bottom + _AXIS, key, 2, 21.0)


def _part_look(part: str) -> tuple[str, str]:
    """Its color and hatch in `style.PARTS`, but with fewer dots, each of which is a path of its own."""
    color, hatch = style.PARTS[part]
    return color, hatch.replace("....", "..")


def _draw_startups(page: _Page, axes: Axes, startups: pd.DataFrame, groups: pd.DataFrame, bottom: float) -> None:
    """Up to the end of the first step, in parts."""
    rows, ends = startups.to_dict("records"), {}
    for part, (whiteness, hatch) in STARTUP_LOOKS.items():
        drawn, faces = [], []
        for row in rows:
            start = ends.get(row["group"], 0.0)
            ends[row["group"]] = start + max(0.0, row[part])
            drawn.append(_box(start, ends[row["group"]], row["group"] - 0.3, row["group"] + 0.3))
            faces.append(_paler(groups["color"].iloc[row["group"]], whiteness))
        looks = {"facecolors": faces, "edgecolors": style.INK, "linewidths": 0.3, "hatch": hatch}
        axes.add_collection(PolyCollection(drawn, **looks), autolim=False)
    axes.set_xlim(0, 1.02 * max(ends.values()) or 1.0)
    _finish_bars(page, axes, "startups", {group: blocks.number(end) for group, end in ends.items()}, bottom, groups)
    left = _PANELS["startups"][0]
    page.title(left, "first step after, s")
    color = groups["color"].iloc[0]
    looks = {
        part: {"facecolor": _paler(color, white), "hatch": hatch} for part, (white, hatch) in STARTUP_LOOKS.items()
    }
    page.key(left, bottom + _AXIS, [(_STARTUP_NAMES[part], look) for part, look in looks.items()], 1, 20.0)


def _finish_bars(
    page: _Page, axes: Axes, name: str, said: Mapping[int, str], bottom: float, groups: pd.DataFrame
) -> None:
    """The axis of bars, and their lengths in words at their right."""
    left, width = _PANELS[name]
    row = (bottom - _TITLE) / len(groups)
    for group, text in said.items():
        page.text(left + width + 1.2, _TITLE + row * (group + 0.5), text)
    axes.xaxis.set_major_locator(MaxNLocator(4 if width > 20 else 2, steps=_STEPS))
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def _draw_processors(page: _Page, processors: pd.DataFrame, groups: pd.DataFrame, top: float, height: float) -> None:
    """Cores that each rank kept busy, a panel for each launch: its start-up and its windows, on scales of their own."""
    shown = [*dict.fromkeys(processors["group"])]
    most = 1.08 * max(1.0, processors["cores"].max())
    pitch = (_WIDTH - _LEFT) / len(shown)
    page.text(1.6, top + _TITLE + height / 2, "cores busy", rotation=90, ha="center")
    # One for all panels, whose width is in millimetres: each further one would take as long as all that is drawn in it.
    axes = page.panel(_LEFT, top + _TITLE, _WIDTH - _LEFT, height)
    axes.set_xlim(_LEFT, _WIDTH)
    axes.set_ylim(0, most)
    axes.spines["bottom"].set_visible(False)
    heights = [value for value in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0, most) if value <= most]
    axes.yaxis.set_major_locator(FixedLocator(heights))
    ticks: list[tuple[float, str]] = []
    for place, group in enumerate(shown):
        own, row = processors[processors["group"] == group], groups.iloc[group]
        left, right = _LEFT + pitch * place, _LEFT + pitch * (place + 1) - 5.0
        title = f"processor use, {row['label']}".replace("\n", ", ")
        page.title(left, _shortened(title, int((right - left) / 1.35)), top)
        lines = [[(left, value), (right, value)] for value in heights]
        grid = {"colors": [style.FAINT, *["#e4e4e4"] * (len(lines) - 1)], "linewidths": 0.6, "zorder": 0.5}
        axes.add_collection(LineCollection(lines, **grid), autolim=False)
        scales = _scales(own, left, right)
        ticks += _ticks(scales)
        _draw_launch(axes, own, row["color"], scales)
    axes.xaxis.set_major_locator(FixedLocator([place for place, _ in ticks]))
    axes.set_xticklabels([text for _, text in ticks])
    page.text(_LEFT + pitch * len(shown) / 2 - 2.5, top + _TITLE + height + 5.6, _SECONDS, ha="center")


def _scales(own: pd.DataFrame, left: float, right: float) -> list[tuple[float, float, float, float]]:
    """Of the start-up and of the windows, where there are any: the first and the last second, and their places."""
    beginning, windows = own[own["part"] != ""], own[own["part"] == ""]
    break_at = left + STARTUP_SHARE * (right - left)
    scales = [(0.0, beginning["end"].max(), left, break_at)] if len(beginning) else []
    start = break_at + BREAK_SHARE * (right - left) if len(beginning) else left
    return [*scales, (windows["start"].min(), windows["end"].max(), start, right)]


def _ticks(scales: Sequence[tuple[float, float, float, float]]) -> list[tuple[float, str]]:
    """Places with their seconds, none so near to another that the numbers would touch."""
    found: list[tuple[float, str]] = []
    for scale in scales:
        for value in MaxNLocator(3, steps=_STEPS).tick_values(*scale[:2]):
            place = _placed(value, scale)
            if scale[0] <= value <= scale[1] and (not found or place - found[-1][0] > _LEAST_TICKS_APART):
                found.append((place, f"{value:g}"))
    return found


def _draw_launch(
    axes: Axes, own: pd.DataFrame, color: str, scales: Sequence[tuple[float, float, float, float]]
) -> None:
    """The parts of the start-up filled, then a line for each rank, on a broken axis."""
    beginning, windows = own[own["part"] != ""], own[own["part"] == ""]
    for row in beginning.to_dict("records"):
        whiteness, hatch = STARTUP_LOOKS[row["part"]]
        start, end = (_placed(row[name], scales[0]) for name in ("start", "end"))
        looks = {"facecolor": _paler(color, whiteness), "edgecolor": style.INK, "linewidth": 0.3, "hatch": hatch}
        axes.add_patch(Rectangle((start, 0), end - start, row["cores"], **looks))
    ranks = [*dict.fromkeys(windows["rank"])]
    for place, rank in enumerate(ranks):
        rows = windows[windows["rank"] == rank]
        starts, ends = (_placed(rows[name].to_numpy(), scales[-1]) for name in ("start", "end"))
        cores = rows["cores"].to_numpy()
        lines = np.stack([np.column_stack([starts, cores]), np.column_stack([ends, cores])], axis=1)
        axes.add_collection(LineCollection(lines, **_rank_look(color, place, len(ranks))), autolim=False)
    if len(scales) > 1:
        (*_, end), (_, _, start, _) = scales
        breaks = [[(x, 0), (x, axes.get_ylim()[1])] for x in (end + 0.2 * (start - end), end + 0.8 * (start - end))]
        looks = {"colors": style.FAINT, "linewidths": 0.5, "linestyles": (0, (1, 1.5))}
        axes.add_collection(LineCollection(breaks, **looks), autolim=False)


def _placed(value: float | np.ndarray, scale: tuple[float, float, float, float]) -> float | np.ndarray:
    """The place of a second between the first and the last one's."""
    first, last, left, right = scale
    return left + (right - left) * (value - first) / (last - first)


def _rank_look(color: str, place: int, ranks: int) -> dict[str, object]:
    """Wide and pale, thin and dark in turn: one on another, both stay visible."""
    whiteness = 0.0 if ranks == 1 or place % 2 else 0.5
    return {"colors": _paler(color, whiteness), "linewidths": 1.1 if ranks == 1 or place % 2 else 2.6}


def _box(left: float, right: float, top: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _paler(color: str, whiteness: float) -> str:
    """The color with so large a share of white."""
    return to_hex([value + (1 - value) * whiteness for value in to_rgb(color)])
