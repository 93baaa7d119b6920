"""What a composed document says, found by its pieces."""


def answers(content: dict) -> dict[str, list[str]]:
    """The sentences of the first page by the question that they answer."""
    [block] = [block for block in content["blocks"] if block["kind"] == "answers"]
    return {each["question"]: each["items"] for each in block["answers"]}


def headings(blocks: list[dict], level: int | None = None) -> list[str]:
    """The headings, or those of one level alone."""
    return [block["text"] for block in blocks if block["kind"] == "heading" and level in (None, block["level"])]


def table_under(blocks: list[dict], heading: str) -> dict:
    """The first table after a heading."""
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")
