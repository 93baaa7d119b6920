"""What charts are made of: legends and panels, and the marks, axes and colors that all of them share, as Vega-Lite."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np

from reports.charts.style import Style

MOST_POINTS = 2_000
"""Launches, or points of lines, that a chart draws; of more it draws some, and says which."""

ROW_PIXELS, PANEL_PIXELS = 22, 260
NUMBERS_PIXELS = 58
"""What a number takes at the right of a row."""

INK, FAINT, BAND, PAPER = "var(--ink)", "var(--faint)", "var(--band)", "var(--paper)"
DOTS = (1.5, 3)
"""The dashes and gaps of an ideal, in pixels."""

# Rows have their own colors, so no scale comes in between.
STROKE, SOLID = alt.Stroke("color:N", scale=None), alt.Fill("color:N", scale=None)
DASHES = alt.StrokeDash("dashes:N", scale=None)

SHAPES = {
    "o": "M0.8,0A0.8,0.8,0,1,1,-0.8,0A0.8,0.8,0,1,1,0.8,0Z",
    "s": "M-0.7,-0.7H0.7V0.7H-0.7Z",
    "D": "M0,-0.95L0.8,0L0,0.95L-0.8,0Z",
    "^": "M0,-0.85L0.85,0.7H-0.85Z",
    "v": "M0,0.85L0.85,-0.7H-0.85Z",
    "P": "M-0.3,-0.85H0.3V-0.3H0.85V0.3H0.3V0.85H-0.3V0.3H-0.85V-0.3H-0.3Z",
    "X": "M-0.75,-0.45L-0.45,-0.75L0,-0.3L0.45,-0.75L0.75,-0.45L0.3,0L0.75,0.45L0.45,0.75L0,0.3L-0.45,0.75"
    "L-0.75,0.45L-0.3,0Z",
    "<": "M-0.85,0L0.7,0.85V-0.85Z",
    ">": "M0.85,0L-0.7,0.85V-0.85Z",
    "p": "M0,-0.9L0.86,-0.28L0.53,0.73H-0.53L-0.86,-0.28Z",
    "h": "M0,-0.9L0.78,-0.45V0.45L0,0.9L-0.78,0.45V-0.45Z",
    "*": "M0,-0.95L0.24,-0.32L0.9,-0.29L0.38,0.12L0.56,0.77L0,0.4L-0.56,0.77L-0.38,0.12L-0.9,-0.29L-0.24,-0.32Z",
}
"""The marker of every style as the path of an SVG, from -1 to 1 either way."""

CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "aria": False,  # The page says what a chart shows; its marks by the thousand would be read out one by one.
    "view": {"stroke": None},
    "axis": {
        **{"labelColor": INK, "titleColor": FAINT, "domainColor": FAINT, "tickColor": FAINT},
        **{"labelFontSize": 11, "labelSeparation": 6, "titleFontSize": 11, "titleFontWeight": "normal"},
        "gridColor": "var(--rule)",
    },
    "text": {"color": INK, "fontSize": 11},
}
"""How all charts look. Colors are the page's own, by its style sheet, so that they follow it into the dark."""

_AXIS_NUMBER = "datum.value >= 1000 ? format(datum.value, '~s') : format(datum.value, '~g')"


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a name, and how its marks look. One that `chooses` picks out the marks that have its name.

    `look` is "line" (with the dashes and the marker, if any), "mark", "hollow", "interval", "band", "bar" or "frame".
    """

    name: str
    look: str
    color: str
    marker: str = ""
    dashes: Sequence[float] = ()
    chooses: bool = True


@dataclass(frozen=True)
class Panel:
    """One plot of a chart, with the `keys` that it alone has.

    Without a Vega-Lite `specification` there was nothing to draw: `absent` says why.
    """

    title: str
    specification: dict[str, object] | None
    absent: str = ""
    keys: Sequence[Key] = ()


@dataclass(frozen=True)
class Chart:
    """Plots which read the same `data`: by its name each table, as rows. `note` says what of it isn't drawn."""

    panels: list[Panel]
    keys: list[Key]
    data: dict[str, list[dict[str, object]]]
    note: str = ""
    columns: int = 2
    """How many panels stand side by side at most, where there's room."""


def specification(layers: Sequence[alt.Chart], height: int, right: int = 5) -> dict[str, object]:
    """A panel as wide as the page lets it be, in which a key can be chosen, as Vega-Lite.

    `height` of the plot, and what is left free at its `right`, are in pixels.
    """
    # `alt.layer` makes the same, and copies every layer three times; checking against the schema takes longer still.
    made = [layer.to_dict(validate=False, context={"top_level": False}) for layer in layers]
    _say_once(made)
    return {
        **{"layer": made, "width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}},
        "padding": {"left": 0, "top": 4, "right": right, "bottom": 3},
        "params": [{"name": "chosen", "value": ""}, {"name": "label_limit", "value": 200}],
    }


def _say_once(layers: Sequence[dict[str, dict]]) -> None:
    """Layers share their axes: take out what a layer has said of them already."""
    said = {"x": [], "y": []}
    for layer in layers:
        for name, known in said.items():
            channel = layer["encoding"].get(name, {})
            for about in [each for each in ("axis", "scale") if each in channel]:
                if channel[about] in known:
                    del channel[about]
                else:
                    known.append(channel[about])


def table(name: str, **equal: int) -> alt.Chart:
    """What's drawn of one of the chart's tables: all of it, or the rows that have this number in a column."""
    chart = alt.Chart(alt.NamedData(name))
    for column, value in equal.items():
        chart = chart.transform_filter(f"datum.{column} === {value}")
    return chart


def faded(opacity: float | str, among: Sequence[str] = ()) -> dict[str, str]:
    """So opaque, and hardly there while something else is chosen: anything, or one of these names."""
    nothing = f"indexof({[*among]}, chosen) < 0" if among else "chosen === ''"
    return {"expr": f"{opacity} * ({nothing} || chosen === datum.key ? 1 : 0.1)"}


def thinned(count: int, most: int) -> list[int]:
    """The places, of so many things in a row, of at most so many that are drawn: the first, the last, some between."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def told(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """A tooltip, from its titles and the columns of the rows."""
    return [alt.Tooltip(f"{column}:N", title=title) for title, column in fields.items()]


def rows(column: str, order: Sequence[str] | None, **options: object) -> alt.Y:
    """A row for each name, in this or else the alphabet's order; names take no more room than the page gives them."""
    looks = {"domain": False, "ticks": False, "grid": True, "bandPosition": 0.5, "labelPadding": 8}
    axis = {"labelLimit": {"expr": "label_limit"}} | looks | options
    scale = {"domain": [*order]} if order else alt.Undefined
    return alt.Y(column, title=None, axis=axis, scale=scale)


def number_axis(**options: object) -> dict[str, object]:
    """An axis with a grid, whose numbers from 1,000 on are written as 1k."""
    return {"grid": True, "domain": False, "tickSize": 4, "labelExpr": _AXIS_NUMBER} | options


def dashes(look: Style) -> list[float]:
    """The dashes and gaps of a line, in pixels."""
    return [1, 0] if isinstance(look.line, str) else [1.6 * length for length in look.line[1]]


def lifted(color: str) -> str:
    """A strategy's color, which the page lightens where its ground is dark."""
    return f"color-mix(in oklab, white var(--lift), {color})"


def style_key(name: str, look: Style, has_marker: bool = True) -> Key:
    """The entry of a strategy."""
    return Key(name, "line", lifted(look.color), look.marker if has_marker else "", dashes(look))


def rounded(value: float, digits: int = 6) -> float | None:
    """As many digits as can be seen; none for what isn't a finite number, which JSON hasn't."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
