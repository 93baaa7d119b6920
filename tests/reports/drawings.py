"""What figures are drawn with in tests, and what stands on them, read from their SVG."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

from common.records.training import Record
from reports.blocks import Block, Draw
from reports.charts import style
from reports.tables.bandwidths import table as bandwidths_table
from reports.words import bandwidths
from tests.reports.materials import material_of
from tests.reports.records import AMBER

SVG = "{http://www.w3.org/2000/svg}"


def looks_of(names: list[str]) -> dict[str, style.Style]:
    """A look for each of these strategies, all of one family."""
    return style.styles(dict.fromkeys(names, AMBER.colors))


def words(svg: str) -> list[str]:
    """The texts of a figure, line by line."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def drawings_of(blocks: list[Block]) -> dict[str, Draw]:
    """By its name how each figure is drawn."""
    return {block["name"]: block["draw"] for block in blocks if block["kind"] == "figure"}


def height_of(svg: str) -> float:
    """In points."""
    return float(ElementTree.fromstring(svg).get("height").removesuffix("pt"))


def drawing_of_sweep(*records: Record) -> Callable[[], bytes]:
    """The function that draws the sweep of records over virtual hosts, and of their base."""
    material = material_of(*records)
    found = bandwidths_table(material.configurations, material.launches, material.results.records)
    return bandwidths.drawing(found, material.launches, looks_of([*{*found["own"], *found["base"].dropna()}]))
