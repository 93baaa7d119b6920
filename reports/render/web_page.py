"""The report as one HTML file that needs nothing else: what `document` composed, with figures that answer to the mouse.

Its frame is in `page.html`, how it looks in `page.css`, what it does in `page.js`. Every text of a record is escaped,
and the page's own policy keeps the browser from loading anything, and from running any script but that one.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template

from reports.blocks import Block
from reports.charts import svg

_SHORT_CELL = 26  # Characters.
_ROWS_OF_A_LONG_TABLE = 25  # From so many on a table scrolls below its header.


def build(content: Mapping[str, object], images: Mapping[str, bytes]) -> bytes:
    """The page of what `document.compose` gave: the same bytes for the same input.

    `images` are its figures as SVG.
    """
    parts, chapters, title, terms = [], [], "", dict(content.get("terms", {}))
    for position, block in enumerate(content["blocks"]):
        title = block["text"] if block["kind"] == "heading" else title
        parts.append(_written(block, position, title, images, terms))
        if block["kind"] == "heading" and block["level"] == 1:
            chapters.append(f'<li><a href="#h{position}">{escape(title)}</a></li>\n')
    frame, looks, script = (
        Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    # The browser may run this script alone, and show what is in the page.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        Template(frame)
        .substitute(
            {name: escape(content[name]) for name in ("title", "subtitle", "date")},
            policy=f"{policy}; script-src 'sha256-{digest}'",
            style=looks,
            chapters="".join(chapters),
            parts="".join(parts),
            script=script,
        )
        .encode()
    )


def _written(block: Block, position: int, title: str, images: Mapping[str, bytes], terms: dict[str, str]) -> str:
    """A block as HTML; `title` is that of the heading above it. `terms` are those that no block before explains."""
    match block["kind"]:
        case "heading":
            level = block["level"] + 1
            return f'<h{level} id="h{position}">{escape(block["text"])}</h{level}>\n'
        case "text":
            return f"<p>{_explained(block['text'], terms)}</p>\n"
        case "headline":
            return f'<p class="headline">{escape(block["text"])}</p>\n'
        case "items":
            return _list(block["items"], terms)
        case "answers":
            told = [(escape(each["question"]), _list(each["items"], terms)) for each in block["answers"]]
            return "<dl>\n" + "".join(f"<dt>{name}</dt>\n<dd>{items}</dd>\n" for name, items in told) + "</dl>\n"
        case "figure":
            return _figure(block, position, images)
        case "table":
            return _table(block, title)
        case "data":
            # A folded table with a field that searches its rows.
            name, many = escape(block["name"]), len(block["rows"])
            summary = f"<summary>{name} ({many:,} row{'' if many == 1 else 's'})</summary>"
            field = f'<input type="search" placeholder="Search" aria-label="Search {name}">'
            table = _table(block, block["name"])
            return f'<details class="data">\n{summary}\n<p>{escape(block["about"])}</p>\n{field}\n{table}</details>\n'
        case "new_page":
            return ""
    raise ValueError(f"{block['kind']} is no kind of block.")


def _list(items: Iterable[str], terms: dict[str, str]) -> str:
    return "<ul>\n" + "".join(f"<li>{_explained(item, terms)}</li>\n" for item in items) + "</ul>\n"


def _explained(text: str, terms: dict[str, str]) -> str:
    """The text with what each of the terms means where it stands first, which takes the term out of them."""

    def told(found: re.Match) -> str:
        meaning = terms.pop(found[0], "")
        return f'<abbr title="{escape(meaning)}">{found[0]}</abbr>' if meaning else found[0]

    pattern = "|".join(re.escape(term) for term in terms)
    return re.sub(rf"\b(?:{pattern})\b", told, escape(text)) if terms else escape(text)


def _figure(block: Block, position: int, images: Mapping[str, bytes]) -> str:
    """A figure, which scrolls in its own box where it is wider than the page, or has a drawing for a narrow page."""
    drawn = svg.inlined(images[block["file"]], f"f{position}", block["alt"])
    boxes = f'<div class="scroll" tabindex="0">{drawn}</div>'
    if block["narrow_file"]:
        narrow = svg.inlined(images[block["narrow_file"]], f"n{position}", block["alt"])
        boxes = f'<div class="wide">{drawn}</div>\n<div class="narrow">{narrow}</div>'
    return f'<figure class="chart">\n{boxes}\n<figcaption>{escape(block["caption"])}</figcaption>\n</figure>\n'


def _table(block: Block, title: str) -> str:
    """A table that a click on a header sorts, with its notes, in a box that scrolls where it is wider than the page.

    The headers of a folded one tell what their columns are.
    """
    classes = []
    for column, align in enumerate(block["align"]):
        # Short words stand on one line each.
        longest = max((len(row[column]) for row in block["rows"]), default=0)
        how = "left wide" if block["wide"][column] else "left short" if longest <= _SHORT_CELL else "left"
        classes.append("" if align == "right" else how)
    header = ""
    if any(block["columns"]):
        tips = [f' title="{escape(meaning)}"' for meaning in block.get("meanings", ())] or [""] * len(classes)
        cells = (
            f'<th scope="col"{_classed(name)}{tip}><button type="button">{escape(column)}</button></th>\n'
            for name, tip, column in zip(classes, tips, block["columns"], strict=True)
        )
        header = f"<thead>\n<tr>\n{''.join(cells)}</tr>\n</thead>\n"
    rows = []
    for row in block["rows"]:
        cells = []
        for index, (value, name) in enumerate(zip(row, classes, strict=True)):
            # The first cell heads its row, and those that begin with what is warned of stand out.
            tag, scope = ("th", ' scope="row"') if index == 0 else ("td", "")
            alarm = "warned" if block["warned"] and value.startswith(block["warned"]) else ""
            # A long name may be broken where it's made of words.
            cells.append(f"<{tag}{scope}{_classed(name, alarm)}>{escape(value).replace('_', '_<wbr>')}</{tag}>")
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in block["notes"])
    long = " long" if len(block["rows"]) > _ROWS_OF_A_LONG_TABLE else ""
    return (
        f'<div class="box{long}" role="region" aria-label="{escape(title)}: table" tabindex="0">\n'
        f"<table>\n{header}<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
        + (f'<div class="notes">\n{notes}</div>\n' if notes else "")
    )


def _classed(*names: str) -> str:
    """The attribute of these classes, but for those that are empty."""
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""
