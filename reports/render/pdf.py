"""Blocks to a PDF. How it looks is in `template.typ`, which reads one JSON file: no text is ever read as markup."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import typst

from reports import blocks
from reports.blocks import Block
from reports.charts import svg

_PAGE_LETTERS, _LONGEST_CELL = 112, 30
"""Letters of a table as wide as a page, and of the longest cell that isn't broken."""


def typeset(started_at: Iterable[str], content: Mapping[str, object], images: Mapping[str, bytes]) -> bytes:
    """The PDF of the content, with its figures drawn, dated by the last launch: each started at one of these times.

    Folded tables, and blocks that are `page_only`, are on the HTML page alone, but for content with an `appendix`.
    """
    shown = list[Block]()
    for block in content["blocks"]:
        is_folded = block["kind"] == "data"
        if content.get("appendix") or not (is_folded or block.get("page_only")):
            shown += _opened(block) if is_folded else [block]
    files = {
        "main.typ": Path(__file__).with_name("template.typ").read_bytes(),
        "content.json": json.dumps({**content, "blocks": shown}, ensure_ascii=False).encode(),
        **images,
    }
    timestamp = int(max(map(datetime.fromisoformat, started_at), default=datetime(1980, 1, 1, tzinfo=UTC)).timestamp())
    # Only the fonts inside the wheels: another machine's fonts would make another PDF. PDF/UA-1 (ISO 14289-1) is what
    # screen readers need: tags, a title, alternative texts, headings without gaps; the compiler refuses anything less.
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[svg.FONT_FILE.parent])
    return typst.compile(files, timestamp=timestamp, pdf_standards="ua-1", font_paths=fonts)


def _opened(table: Block) -> list[Block]:
    """A folded table with its heading, in parts as wide as a page, each with the first column."""
    names, rows = table["columns"], table["rows"]
    widths = [
        min(_LONGEST_CELL, max(len(name), *(len(row[place]) for row in rows))) for place, name in enumerate(names)
    ]
    groups: list[list[int]] = [[0]]
    for place in range(1, len(names)):
        if sum(widths[each] + 2 for each in [*groups[-1], place]) > _PAGE_LETTERS and len(groups[-1]) > 1:
            groups.append([0])
        groups[-1].append(place)
    parts = [blocks.heading(table["name"], level=2), blocks.text(table["about"])]
    for group in groups:
        wide = {index: widths[place] for index, place in enumerate(group) if widths[place] == _LONGEST_CELL}
        cells = [[row[each] for each in group] for row in rows]
        parts.append(blocks.table([names[each] for each in group], cells, wide=wide))
    return parts
