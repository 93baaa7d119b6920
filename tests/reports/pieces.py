"""What a composed document says, found by its pieces."""

from reports.render.drawing import Drawings


def answers(content: dict) -> dict[str, list[str]]:
    """The sentences that the first page rests on, by the question that they answer."""
    blocks = content["blocks"]
    texts = [block.get("text") for block in blocks]
    if "The finding in words" not in texts:
        [block] = [block for block in blocks if block["kind"] == "answers"]
        return {each["question"]: each["items"] for each in block["answers"]}
    start = texts.index("The finding in words") + 1
    found = {}
    for question, sentences in zip(blocks[start::2], blocks[start + 1 :: 2], strict=False):
        if question.get("level") != 3:
            break
        found[question["text"]] = sentences["items"]
    return found


def headings(blocks: list[dict], level: int | None = None) -> list[str]:
    """The headings, or those of one level alone."""
    return [block["text"] for block in blocks if block["kind"] == "heading" and level in (None, block["level"])]


def table_under(blocks: list[dict], heading: str) -> dict:
    """The first table after a heading."""
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")


def first_for_all(drawings: Drawings) -> dict[str, bytes]:
    """The first figure in place of every one, for tests of a document's words: drawing all takes longer than these."""
    return dict.fromkeys(drawings, next(iter(drawings.values()))())
