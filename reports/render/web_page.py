"""The report as one HTML file that needs nothing else: what `document` composed, with figures that answer to the mouse.

How it looks is in `page.css`, what it does in `page.js`. Every text of a record is escaped, and the page's own policy
keeps the browser from loading anything, and from running any script but that one.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from reports.blocks import Block
from reports.charts import style, svg

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
            chapters.append(f'<li><a href="#{_anchor(block, position)}">{escape(title)}</a></li>\n')
    script = _beside("page.js")
    # The browser may run this script alone, and show what is in the page.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(f"{content['title']}: {content['subtitle']}")}</title>
<style>
{_font(images)}{_beside("page.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>{escape(content["title"])}</h1>
<p class="subtitle">{escape(content["subtitle"])}</p>
<p class="date">{escape(content["date"])}</p>
</header>
<nav aria-label="Contents">
<details>
<summary>Contents</summary>
<ol>
{"".join(chapters)}</ol>
</details>
</nav>
<main id="content">
{"".join(parts)}</main>
<script>{script}</script>
</body>
</html>
""".encode()


def _font(images: Mapping[str, bytes]) -> str:
    """The rule that gives the figures their font; nothing where there are none."""
    if not images:
        return ""
    data = base64.b64encode(svg.font([*images.values()])).decode()
    return f'@font-face {{ font-family: "{style.FONT}"; src: url(data:font/woff;base64,{data}); }}\n'


def _anchor(block: Block, position: int) -> str:
    """What a link to a heading ends with."""
    return f"{position}-" + "-".join(re.findall("[a-z0-9]+", block["text"].lower()))


def _written(block: Block, position: int, title: str, images: Mapping[str, bytes], terms: dict[str, str]) -> str:
    """A block as HTML; `title` is that of the heading above it. `terms` are those that no block before explains."""
    match block["kind"]:
        case "heading":
            level = block["level"] + 1
            return f'<h{level} id="{_anchor(block, position)}">{escape(block["text"])}</h{level}>\n'
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
            return _data(block)
        case "new_page":
            return ""
    raise ValueError(f"{block['kind']} is no kind of block.")


def _list(items: Iterable[str], terms: dict[str, str]) -> str:
    return f"<ul>\n{''.join(f'<li>{_explained(item, terms)}</li>' + chr(10) for item in items)}</ul>\n"


def _explained(text: str, terms: dict[str, str]) -> str:
    """The text with what each of the terms means where it stands first, which takes the term out of them."""

    def told(found: re.Match) -> str:
        meaning = terms.pop(found[0], "")
        return f'<abbr title="{escape(meaning)}">{found[0]}</abbr>' if meaning else found[0]

    pattern = "|".join(re.escape(term) for term in terms)
    return re.sub(rf"\b(?:{pattern})\b", told, escape(text)) if terms else escape(text)


def _figure(block: Block, position: int, images: Mapping[str, bytes]) -> str:
    """A figure, which scrolls in its own box where it is wider than the page, or has a drawing for a narrow page."""
    alt = block["alt"] or block["caption"]
    drawn = svg.inlined(images[block["file"]], f"f{position}", alt)
    if block["narrow_file"]:
        narrow = svg.inlined(images[block["narrow_file"]], f"n{position}", alt)
        boxes = f'<div class="wide">{drawn}</div>\n<div class="narrow">{narrow}</div>'
    else:
        boxes = f'<div class="scroll" tabindex="0">{drawn}</div>'
    return f'<figure class="chart">\n{boxes}\n<figcaption>{escape(block["caption"])}</figcaption>\n</figure>\n'


def _data(block: Block) -> str:
    """A folded table with a field that searches its rows."""
    name, many = escape(block["name"]), len(block["rows"])
    summary = f"<summary>{name} ({many:,} row{'' if many == 1 else 's'})</summary>\n<p>{escape(block['about'])}</p>"
    field = f'<input type="search" placeholder="Search" aria-label="Search {name}">'
    return f'<details class="data">\n{summary}\n{field}\n{_table(block, block["name"])}</details>\n'


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
    tints = block["tints"] or [[""] * len(classes)] * len(block["rows"])
    rows = [
        f"<tr>{_cells(row, classes, block['warned'], colors)}</tr>\n"
        for row, colors in zip(block["rows"], tints, strict=True)
    ]
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in block["notes"])
    long = " long" if len(block["rows"]) > _ROWS_OF_A_LONG_TABLE else ""
    return (
        f'<div class="box{long}" role="region" aria-label="{escape(title)}: table" tabindex="0">\n'
        f"<table>\n{header}<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
        + (f'<div class="notes">\n{notes}</div>\n' if notes else "")
    )


def _cells(row: Sequence[str], classes: Sequence[str], warned: str, tints: Sequence[str]) -> str:
    cells = []
    for index, (value, name, tint) in enumerate(zip(row, classes, tints, strict=True)):
        tag, scope = ("th", ' scope="row"') if index == 0 else ("td", "")
        alarm = "warned" if warned and value.startswith(warned) else ""
        # A long name may be broken where it's made of words.
        text = escape(value).replace("_", "_<wbr>")
        color = f' style="background: color-mix(in srgb, {escape(tint)} 28%, transparent)"' if tint else ""
        cells.append(f"<{tag}{scope}{_classed(name, alarm)}{color}>{text}</{tag}>")
    return "".join(cells)


def _classed(*names: str) -> str:
    """The attribute of these classes, but for those that are empty."""
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
