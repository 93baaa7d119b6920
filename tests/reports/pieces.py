"""What a composed document says, found by its pieces."""

import re

from reports.blocks import Drawings


def answers(blocks: list[dict]) -> dict[str, list[str]]:
    """The sentences at the end of the first page, by the question that they answer."""
    [block] = [block for block in blocks if block["kind"] == "answers"]
    return {each["question"]: each["items"] for each in block["answers"]}


def items(blocks: list[dict]) -> list[str]:
    """Every item of every list."""
    return [item for block in blocks if block["kind"] == "items" for item in block["items"]]


def headings(blocks: list[dict], level: int | None = None) -> list[str]:
    """The headings, or those of one level alone."""
    return [block["text"] for block in blocks if block["kind"] == "heading" and level in (None, block["level"])]


def table_under(blocks: list[dict], heading: str) -> dict:
    """The first table after a heading."""
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")


def blanks_for_all(drawings: Drawings) -> dict[str, bytes]:
    """Nothing in place of every figure, for tests of a document's words: drawing all takes longer than these."""
    return dict.fromkeys(drawings, b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"/>')


def pages_of(document: bytes) -> int:
    """How many pages a PDF has."""
    found = re.findall(rb"/Type\s*/Pages.*?/Count (\d+)|/Count (\d+).{0,80}/Type\s*/Pages", document, re.S)
    return max(int(number) for pair in found for number in pair if number)
