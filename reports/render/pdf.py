"""Blocks to a PDF. How it looks is in `template.typ`, which reads one JSON file: no text is ever read as markup."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import typst

from reports.charts import svg


def typeset(started_at: Iterable[str], content: Mapping[str, object], images: Mapping[str, bytes]) -> bytes:
    """The PDF of the content, with its figures drawn, dated by the last launch: each started at one of these times.

    Folded tables, and blocks that are `page_only`, are on the HTML page alone.
    """
    shown = [block for block in content["blocks"] if block["kind"] != "data" and not block.get("page_only")]
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
