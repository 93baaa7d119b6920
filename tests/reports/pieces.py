"""What a composed document says, found by its pieces, and what a reader takes from its figures, read from their SVG."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pandas as pd

from reports.blocks import Block, Drawings

SVG = "{http://www.w3.org/2000/svg}"

Scale = Callable[[float], float | str]
"""What is at a place of an axis: a name where its ticks are names, else a number."""

_UNITS = {"k": 1e3, "M": 1e6, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "%": 0.01, "ms": 1.0}


def answers(blocks: list[Block]) -> dict[str, list[str]]:
    """The sentences at the end of the first page, by the question that they answer."""
    return {each["question"]: each["items"] for each in first(blocks, "answers")["answers"]}


def first(blocks: list[Block], kind: str) -> Block:
    return next(block for block in blocks if block["kind"] == kind)


def items(blocks: list[Block]) -> list[str]:
    return [item for block in blocks if block["kind"] == "items" for item in block["items"]]


def headings(blocks: list[Block], level: int | None = None) -> list[str]:
    """The headings, or those of one level alone."""
    return [block["text"] for block in blocks if block["kind"] == "heading" and level in (None, block["level"])]


def table_under(blocks: list[Block], heading: str) -> Block:
    texts = [block.get("text") for block in blocks]
    return first(blocks[texts.index(heading) :], "table")


def rows_of(blocks: list[Block], name: str) -> list[dict[str, str]]:
    """The rows of the table of this name, folded or else printed under it, by its columns."""
    folded = [block for block in blocks if block["kind"] == "data" and block["name"] == name]
    [table] = folded or [table_under(blocks, name)]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def cell(table: pd.DataFrame, strategy: str, workers: int) -> dict[str, object]:
    """The only row of a table on so many workers of a strategy."""
    [row] = table[(table["strategy"] == strategy) & (table["workers"] == workers)].to_dict("records")
    return row


def blanks_for_all(drawings: Drawings) -> dict[str, bytes]:
    """Nothing in place of every figure, for tests of a document's words: drawing all takes longer than these."""
    return dict.fromkeys(drawings, b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"/>')


def pages_of(document: bytes) -> int:
    found = re.findall(rb"/Type\s*/Pages.*?/Count (\d+)|/Count (\d+).{0,80}/Type\s*/Pages", document, re.S)
    return max(int(number) for pair in found for number in pair if number)


def words(svg: str | bytes) -> list[str]:
    """The texts of a figure, line by line."""
    return ["".join(element.itertext()) for element in fromstring(svg).iter(f"{SVG}text")]


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
def marks_of(svg: bytes) -> list[Mark]:
    """Every mark of a figure that says something."""
    root = fromstring(svg)
    shapes = {f"#{shape.get('id')}": shape.get("d", "") for shape in root.iter(f"{SVG}path") if shape.get("id")}
    panels = [panel for panel in root.iter(f"{SVG}g") if panel.get("aria-label")]
    axes = [{name: _ticks(panel, name) for name in "xy"} for panel in panels]
    marks = []
    for panel, own in zip(panels, axes, strict=True):
        x, y = (_scale(own[name], [other[name] for other in axes]) for name in "xy")
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


def _scale(own: Mapping[float, str], others: Sequence[Mapping[float, str]]) -> Scale:
    """The scale of an axis by its own ticks, or by those of another panel at the same places, which stand for both.

    Through the ticks' numbers, or else through their logarithms, goes a straight line.
    """
    ticks = next((each for each in (own, *others) if each.keys() == own.keys() and any(each.values())), {})
    numbers = [(at, number) for at, text in ticks.items() if (number := number_in(text)) is not None]
    if len(numbers) < 2:
        return lambda place: ticks[min(ticks, key=lambda at: abs(at - place))] if ticks else math.nan
    at, values = (np.array(each) for each in zip(*numbers, strict=True))
    is_linear = min(values) <= 0 or (len(values) > 2 and abs(np.corrcoef(at, values)[0, 1]) > 1 - 1e-6)
    slope, start = np.polyfit(at, values if is_linear else np.log(values), 1)
    return lambda place: float(slope * place + start if is_linear else math.exp(slope * place + start))


def _marks(group: Element, panel: str, x: Scale, y: Scale, shapes: Mapping[str, str]) -> list[Mark]:
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


def _points(element: Element, x: Scale, y: Scale, shapes: Mapping[str, str]) -> list[tuple[float | str, float | str]]:
    """The middle of a marker, or the corners of a path, which may be one that several marks share."""
    start, down, text = 0.0, 0.0, element.get("d", "")
    if element.tag == f"{SVG}use":
        start, down = float(element.get("x", "nan")), float(element.get("y", "nan"))
        text = "0 0" if start else shapes[element.get("href", "")]
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", text)]
    return [(x(start + one), y(down + other)) for one, other in zip(numbers[::2], numbers[1::2], strict=True)]
