"""What a reader of a figure takes from it: every mark that answers to the mouse, by the ticks of its panel's axes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from xml.etree.ElementTree import Element, fromstring

import numpy as np

from tests.reports.pieces import SVG

_UNITS = {"k": 1e3, "M": 1e6, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "%": 0.01, "ms": 1.0}


@dataclass(frozen=True)
class Axis:
    """The ticks of an axis: the place of each in the figure, and what stands there."""

    ticks: list[tuple[float, str]]

    def value(self, place: float) -> float | str:
        """What is at a place: a name where the ticks are names, else a number on a linear or a logarithmic scale."""
        if self._scale is None:
            return min(self.ticks, key=lambda tick: abs(tick[0] - place))[1] if self.ticks else math.nan
        slope, start, is_linear = self._scale
        return slope * place + start if is_linear else math.exp(slope * place + start)

    @cached_property
    def _scale(self) -> tuple[float, float, bool] | None:
        """The slope and the start of a straight line through the ticks' numbers or their logarithms."""
        numbers = [(at, number) for at, text in self.ticks if (number := number_in(text)) is not None]
        if len(numbers) < 2:
            return None
        at, values = (np.array(each) for each in zip(*numbers, strict=True))
        is_linear = min(values) <= 0 or (len(values) > 2 and abs(np.corrcoef(at, values)[0, 1]) > 1 - 1e-6)
        slope, start = np.polyfit(at, values if is_linear else np.log(values), 1)
        return float(slope), float(start), is_linear


@dataclass(frozen=True)
class Mark:
    """A mark: what picks it out, what it says under the mouse, and its points in the units of its axes."""

    panel: str
    keys: list[str]
    tip: dict[str, str]
    points: list[tuple[float | str, float | str]]


def number_in(text: str) -> float | None:
    """The number at a tick, or in what a mark says."""
    found = re.fullmatch(
        r"(-?[\d.,]+(?:e-?\d+)?) ?(k|M|Ki|Mi|Gi|%|ms)?\N{DAGGER}?", text.replace("\N{MINUS SIGN}", "-")
    )
    return float(found[1].replace(",", "")) * _UNITS.get(found[2], 1) if found else None


@cache
def read(svg: bytes) -> list[Mark]:
    """Every mark of a figure that says something."""
    root = fromstring(svg)
    shapes = {f"#{shape.get('id')}": shape.get("d", "") for shape in root.iter(f"{SVG}path") if shape.get("id")}
    panels = [panel for panel in root.iter(f"{SVG}g") if panel.get("aria-label")]
    axes = [{name: _ticks(panel, name) for name in "xy"} for panel in panels]
    marks = []
    for panel, own in zip(panels, axes, strict=True):
        x, y = (_axis(own[name], [other[name] for other in axes]) for name in "xy")
        for group in panel.iter(f"{SVG}g"):
            if group.get("data-key") or group.get("data-tip"):
                marks += _marks(group, panel.get("aria-label", ""), x, y, shapes)
    return marks


def _ticks(panel: Element, name: str) -> dict[float, str]:
    """The places of the ticks of an axis, and what stands at each."""
    ticks = {}
    for tick in panel.iter(f"{SVG}g"):
        if tick.get("class") == f"{name}tick":
            texts = [*tick.iter(f"{SVG}text")]
            place = next(each.get(name, "nan") for each in [*tick.iter(f"{SVG}use"), *texts])
            ticks[float(place)] = "\n".join("".join(text.itertext()) for text in texts)
    return ticks


def _axis(own: Mapping[float, str], others: Sequence[Mapping[float, str]]) -> Axis:
    """An axis by its own ticks, or by those of another panel at the same places, which stand there for both."""
    named = [ticks for ticks in (own, *others) if ticks.keys() == own.keys() and any(ticks.values())]
    return Axis([*named[0].items()] if named else [])


def _marks(group: Element, panel: str, x: Axis, y: Axis, shapes: Mapping[str, str]) -> list[Mark]:
    keys, common = group.get("data-key", "").split("\n"), group.get("data-tip", "")
    drawn = [*group.iter(f"{SVG}use")] or [*group.iter(f"{SVG}path")]
    if not any(each.get("data-tip") for each in drawn):
        drawn = [*group.iter(f"{SVG}path")] or drawn
        points = [point for each in drawn for point in _points(each, x, y, shapes)]
        return [Mark(panel, keys, _tip(common), points)] if common else []
    tips = [f"{common}\n{each.get('data-tip', '')}".strip() for each in drawn]
    return [Mark(panel, keys, _tip(tip), _points(each, x, y, shapes)) for tip, each in zip(tips, drawn, strict=True)]


def _tip(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.split("\n"))


def _points(element: Element, x: Axis, y: Axis, shapes: Mapping[str, str]) -> list[tuple[float | str, float | str]]:
    """The middle of a marker, or the corners of a path, which may be one that several marks share."""
    start, down, text = 0.0, 0.0, element.get("d", "")
    if element.tag == f"{SVG}use":
        start, down = float(element.get("x", "nan")), float(element.get("y", "nan"))
        text = "0 0" if start else shapes[element.get("href", "")]
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", text)]
    return [
        (x.value(start + one), y.value(down + other)) for one, other in zip(numbers[::2], numbers[1::2], strict=True)
    ]
