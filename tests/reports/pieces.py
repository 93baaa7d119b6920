"""What a composed document says, found by its pieces, and what stands on its figures, read from their SVG."""

import re
from xml.etree import ElementTree

import pandas as pd

from reports.blocks import Block, Draw, Drawings

SVG = "{http://www.w3.org/2000/svg}"


def answers(blocks: list[Block]) -> dict[str, list[str]]:
    """The sentences at the end of the first page, by the question that they answer."""
    [block] = [block for block in blocks if block["kind"] == "answers"]
    return {each["question"]: each["items"] for each in block["answers"]}


def items(blocks: list[Block]) -> list[str]:
    return [item for block in blocks if block["kind"] == "items" for item in block["items"]]


def headings(blocks: list[Block], level: int | None = None) -> list[str]:
    """The headings, or those of one level alone."""
    return [block["text"] for block in blocks if block["kind"] == "heading" and level in (None, block["level"])]


def table_under(blocks: list[Block], heading: str) -> Block:
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")


def rows_of(blocks: list[Block], name: str) -> list[dict[str, str]]:
    """The rows of the table of this name, folded or else printed under it, by its columns."""
    folded = [block for block in blocks if block["kind"] == "data" and block["name"] == name]
    [table] = folded or [table_under(blocks, name)]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def cell(table: pd.DataFrame, strategy: str, workers: int) -> dict[str, object]:
    """The only row of a table on so many workers of a strategy."""
    [row] = table[(table["strategy"] == strategy) & (table["workers"] == workers)].to_dict("records")
    return row


def drawings_of(blocks: list[Block]) -> dict[str, Draw]:
    """By its name how each figure is drawn."""
    return {block["name"]: block["draw"] for block in blocks if block["kind"] == "figure"}


def blanks_for_all(drawings: Drawings) -> dict[str, bytes]:
    """Nothing in place of every figure, for tests of a document's words: drawing all takes longer than these."""
    return dict.fromkeys(drawings, b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"/>')


def pages_of(document: bytes) -> int:
    found = re.findall(rb"/Type\s*/Pages.*?/Count (\d+)|/Count (\d+).{0,80}/Type\s*/Pages", document, re.S)
    return max(int(number) for pair in found for number in pair if number)


def words(svg: str | bytes) -> list[str]:
    """The texts of a figure, line by line."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def height_of(svg: str | bytes) -> float:
    """In points."""
    return float(ElementTree.fromstring(svg).get("height").removesuffix("pt"))
