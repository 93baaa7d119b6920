"""What figures are drawn with in tests, and what stands on them, read from their SVG."""

import xml.etree.ElementTree as ElementTree

from reports.blocks import Block, Draw
from reports.charts import style
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
