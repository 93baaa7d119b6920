"""Blocks to a document: figures drawn once, then a PDF and an HTML page of the same content beside each other.

How the PDF looks is in `template.typ`, which reads one JSON file: no text is ever read as markup.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

import typst

from common.errors import UserError
from common.files import ensure_writable, write_atomically
from reports import blocks
from reports.blocks import Block, Drawings
from reports.charts import style, svg
from reports.render import web_page

_COLUMNS, _LONGEST_CELL = 4, 30
"""Columns of an opened table beside its first one, and letters of the longest cell that isn't broken."""


def compose(subtitle: str, started_at: Iterable[str], parts: Sequence[Block]) -> tuple[dict[str, object], Drawings]:
    """Return a document's content, dated by its launches, and by their files' names how its figures are drawn.

    The first figure of a name has the file `NAME.svg`, the second `NAME-2.svg`; one that stacks has also
    `narrow-NAME.svg`, for a narrow page.
    """
    drawings: Drawings = {}
    named: Counter[str] = Counter()
    content = []
    for block in parts:
        if block["kind"] == "figure":
            block = dict(block)
            name, draw, stacks = (block.pop(key) for key in ("name", "draw", "stacks"))
            named[name] += 1
            file = f"{name}.svg" if named[name] == 1 else f"{name}-{named[name]}.svg"
            block |= {"file": file, "narrow_file": f"narrow-{file}" if stacks else ""}
            drawings[file] = draw
            if stacks:
                drawings[f"narrow-{file}"] = partial(draw, width=style.NARROW)
        content.append(block)
    moments = sorted(map(datetime.fromisoformat, filter(None, started_at)))
    dates = dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in moments[:1] + moments[-1:])
    dated = {"date": " to ".join(dates) or blocks.DASH, "timestamp": int(moments[-1].timestamp()) if moments else 0}
    return {"title": "Lockstep", "subtitle": subtitle, "blocks": content} | dated, drawings


def page_beside(out: Path) -> Path:
    """The page's file beside that of the PDF."""
    return out.with_suffix(".html")


def ensure_ready(out: Path, *beside: Path) -> None:
    """Raise UserError where a picture can't be written, or a PDF, its page, or one of the files `beside` them."""
    if page_beside(out) == out:
        raise UserError(f"{out} is the name of the HTML page, which is written beside the PDF: let --out end in .pdf.")
    for path in (out,) if out.suffix == ".svg" else (out, page_beside(out), *beside):
        ensure_writable(path)


def write_figure(out: Path, drawings: Drawings, name: str = "") -> None:
    """Write the figure of this name, or the first one, as SVG alone. Raises UserError where there is none of it."""
    file = f"{name}.svg" if name else next(iter(drawings), "")
    if file not in drawings:
        names = blocks.some([Path(each).stem for each in drawings if not each.startswith("narrow-")] or ["none"])
        raise UserError(f"These records have no such figure, but {names}: let --out end in .pdf, or name one of them.")
    write_atomically(out, drawings[file]())
    print(f"{out}: the figure {Path(file).stem}")


def draw_all(drawings: Drawings) -> dict[str, bytes]:
    """Every figure as SVG by its file's name.

    Drawing takes most of a report's time, so as many processes draw as there are cores.
    """
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, get_context("fork"), initializer=_end_with_parent) as pool:
        drawn = [pool.submit(draw) for draw in drawings.values()]
        return dict(zip(drawings, (each.result() for each in drawn), strict=True))


def _end_with_parent() -> None:
    """Have a process of a pool end when its parent was killed: by itself it waits for work (cpython issue 111873)."""

    def wait() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def write(out: Path, content: dict[str, object], drawings: Drawings) -> None:
    """Write the PDF and, beside it, the page."""
    images = draw_all(drawings)
    document, page = typeset(content, images), web_page.build(content, images)
    write_atomically(out, document)
    write_atomically(page_beside(out), page)


def typeset(content: Mapping[str, object], images: Mapping[str, bytes]) -> bytes:
    """The PDF of the content, with its figures drawn, dated by the start of the last launch.

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
    # Only the fonts inside the wheels: another machine's fonts would make another PDF. PDF/UA-1 (ISO 14289-1) is what
    # screen readers need: tags, a title, alternative texts, headings without gaps; the compiler refuses anything less.
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[svg.FONT_FILE.parent])
    return typst.compile(files, timestamp=content["timestamp"], pdf_standards="ua-1", font_paths=fonts)


def _opened(table: Block) -> list[Block]:
    """A folded table with its heading, in parts of a few columns, each with the first one."""
    parts = [blocks.heading(table["name"], level=2), blocks.text(table["about"])]
    for start in range(1, len(table["columns"]), _COLUMNS):
        group = [0, *range(start, min(start + _COLUMNS, len(table["columns"])))]
        rows = [[row[place] for place in group] for row in table["rows"]]
        wide = {place: 1 for place in range(len(group)) if any(len(row[place]) > _LONGEST_CELL for row in rows)}
        parts.append(blocks.table([table["columns"][place] for place in group], rows, wide=wide))
    return parts
