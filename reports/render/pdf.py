"""Blocks to a PDF. How it looks is in `template.typ`, which reads one JSON file: no text is ever read as markup."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import typst

from reports import blocks
from reports.blocks import Block
from reports.charts import svg

_COLUMNS, _LONGEST_CELL = 4, 30
"""Columns of an opened table beside its first one, and letters of the longest cell that isn't broken."""


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
    """A folded table with its heading, in parts of a few columns, each with the first one."""
    parts = [blocks.heading(table["name"], level=2), blocks.text(table["about"])]
    for start in range(1, len(table["columns"]), _COLUMNS):
        group = [0, *range(start, min(start + _COLUMNS, len(table["columns"])))]
        rows = [[row[place] for place in group] for row in table["rows"]]
        wide = {place: 1 for place in range(len(group)) if any(len(row[place]) > _LONGEST_CELL for row in rows)}
        parts.append(blocks.table([table["columns"][place] for place in group], rows, wide=wide))
    return parts
