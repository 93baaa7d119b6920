"""The report as one HTML file that needs nothing else: what `document` composed, with charts that answer to the mouse.

How it looks is in `page.css`, what it does in `page.js`. Every text of a record is escaped, and the page's own policy
keeps the browser from loading anything, and from running any script but the two that are written here.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

import vl_convert

from reports import altair_of, chart_parts
from reports.blocks import Block
from reports.chart_parts import Chart, Key, Panel
from reports.material import Drawings

_SHORT_CELL = 26  # Characters.
_ROWS_OF_A_LONG_TABLE = 25  # From so many on a table scrolls below its header.


@cache
def scripts_of_charts() -> str:
    """Vega-Lite, Vega and what embeds them, as one script: seconds of work that needs no records."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def build(content: Mapping[str, object], drawings: Drawings, images: Mapping[str, bytes]) -> bytes:
    """The page of what `document.compose` gave: the same bytes for the same input.

    `images` are what the `drawings` draw, as SVG, for those that have no chart.
    """
    figures = {name: altair_of.chart_of(draw) or images[name] for name, draw in drawings.items()}
    parts, title = [], ""
    for position, block in enumerate(content["blocks"]):
        title = block["text"] if block["kind"] == "heading" else title
        parts.append(_written(block, position, title, figures))
    scripts = [scripts_of_charts(), _beside("page.js")]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(f"{content['title']}: {content['subtitle']}")}</title>
<style>
{_beside("page.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>{escape(content["title"])}</h1>
<p class="subtitle">{escape(content["subtitle"])}</p>
<p class="date">{escape(content["date"])}</p>
</header>
{_contents(content["blocks"])}
<main id="content">
{"".join(parts)}</main>
<script type="application/json" id="config">{_json(chart_parts.CONFIG)}</script>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
""".encode()


def _policy(scripts: Iterable[str]) -> str:
    """What the browser may do with the page: run these scripts, by their digests, and show what is in it."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"


def _contents(blocks: Sequence[Block]) -> str:
    """The list of the chapters, folded up where there's little room for it."""
    chapters = [
        f'<li><a href="#{_anchor(block, position)}">{escape(block["text"])}</a></li>\n'
        for position, block in enumerate(blocks)
        if block["kind"] == "heading" and block["level"] == 1
    ]
    listed = f"<details>\n<summary>Contents</summary>\n<ol>\n{''.join(chapters)}</ol>\n</details>"
    return f'<nav aria-label="Contents">\n{listed}\n</nav>'


def _anchor(block: Block, position: int) -> str:
    """What a link to a heading ends with."""
    return f"{position}-" + "-".join(re.findall("[a-z0-9]+", block["text"].lower()))


def _written(block: Block, position: int, title: str, figures: Mapping[str, Chart | bytes]) -> str:
    """A block as HTML; `title` is that of the heading above it."""
    match block["kind"]:
        case "heading":
            level = block["level"] + 1
            return f'<h{level} id="{_anchor(block, position)}">{escape(block["text"])}</h{level}>\n'
        case "text":
            return f"<p>{escape(block['text'])}</p>\n"
        case "items":
            return _list(block["items"])
        case "answers":
            told = (
                f"<dt>{escape(each['question'])}</dt>\n<dd>{_list(each['items'])}</dd>\n" for each in block["answers"]
            )
            return f"<dl>\n{''.join(told)}</dl>\n"
        case "caution":
            reason = f"<em>Likely cause:</em> {escape(block['cause'])}. <em>Remedy:</em> {escape(block['remedy'])}."
            where = _list(block["where"]) if block["where"] else ""
            what = f"<p><strong>{escape(block['what'])}</strong></p>\n<p>{reason}</p>"
            return f'<div class="caution">\n{what}\n{where}</div>\n'
        case "code":
            return _code(block)
        case "figure":
            return _figure(block, figures[block["file"]])
        case "table":
            return _table(block, title)
        case "contents" | "new_page":
            # The page's own contents are always there, and it has one page alone.
            return ""
    raise ValueError(f"{block['kind']} is no kind of block.")


def _list(items: Iterable[str]) -> str:
    return f"<ul>\n{''.join(f'<li>{escape(item)}</li>' + chr(10) for item in items)}</ul>\n"


def _code(block: Block) -> str:
    """Lines of a source, which count themselves from the first one's number on."""
    lines = "".join(f"<span>{escape(line)}\n</span>" for line in block["lines"])
    start = f"counter-reset: line {block['first_line'] - 1}"
    place = f"{block['file']}, from line {block['first_line']} on"
    return (
        f'<figure class="code">\n<pre tabindex="0" style="{start}"><code>{lines}</code></pre>\n'
        f"<figcaption>{escape(place)}</figcaption>\n</figure>\n"
    )


def _figure(block: Block, shown: Chart | bytes) -> str:
    """A chart with its legend and its data, or an image."""
    told = block["alt"] or block["caption"]
    if isinstance(shown, bytes):
        source = f"data:image/svg+xml;base64,{base64.b64encode(shown).decode()}"
        image = f'<img src="{source}" alt="{escape(told)}">'
        return f"<figure>\n{image}\n<figcaption>{escape(block['caption'])}</figcaption>\n</figure>\n"
    data = {name: _columns(rows) for name, rows in shown.data.items()}
    drawn = {"data": data, "panels": [panel.specification for panel in shown.panels if panel.specification]}
    place = f'style="--columns: {shown.columns}" role="group" aria-label="{escape(told)}"'
    return (
        f'<figure class="chart">\n{_legend(shown.keys)}'
        f'<div class="panels" {place}>\n{"".join(map(_panel, shown.panels))}</div>\n'
        f'<script type="application/json">{_json(drawn)}</script>\n'
        f"<figcaption>{escape(' '.join(filter(None, [block['caption'], shown.note])))}</figcaption>\n</figure>\n"
    )


def _columns(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """A table by its columns, whose names then stand there once."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _panel(panel: Panel) -> str:
    """The place of a plot below its title, with the legend that it alone has, or why there is no plot."""
    title = f'<p class="title">{escape(panel.title)}</p>\n' if panel.title else ""
    if panel.specification is None:
        return f'<div class="panel">\n{title}<p class="absent">{escape(panel.absent)}</p>\n</div>\n'
    plot = f'<div class="plot" role="img" aria-label="{escape(panel.title)}"></div>'
    return f'<div class="panel">\n{title}{plot}\n{_legend(panel.keys)}</div>\n'


def _legend(keys: Sequence[Key]) -> str:
    return f'<ul class="legend" aria-label="Legend">\n{"".join(map(_entry, keys))}</ul>\n' if keys else ""


def _entry(key: Key) -> str:
    """An entry of a legend, with a swatch; those that choose are buttons."""
    dashes = f' stroke-dasharray="{" ".join(f"{length:g}" for length in key.dashes)}"' if key.dashes else ""
    shapes = {
        "line": f'<path d="M0 6H30" stroke="currentColor" stroke-width="1.6"{dashes}/>',
        "band": '<path d="M2 6H28" stroke="currentColor" stroke-width="7" stroke-linecap="round"/>',
        "interval": '<path d="M15 0V12" stroke="currentColor" stroke-width="3"/>',
        "frame": '<path d="M1.5 1.5H28.5V10.5H1.5Z" fill="var(--paper)" stroke="currentColor"/>',
        "bar": '<path d="M1 1H29V11H1Z" fill="currentColor" stroke="var(--ink)" stroke-width="0.5"/>',
    }
    swatch = shapes.get(key.look, "")
    if key.marker:
        fill = "var(--paper)" if key.look == "hollow" else "currentColor"
        marker = f'<path d="{chart_parts.SHAPES[key.marker]}" transform="translate(15 6) scale(5)" fill="{fill}"'
        swatch += f'{marker} stroke="currentColor" stroke-width="0.25"/>'
    look = f'<svg width="30" height="12" viewBox="0 0 30 12" aria-hidden="true" style="color: {escape(key.color)}">'
    inside = f"{look}{swatch}</svg>{escape(key.name)}"
    if not key.chooses:
        return f"<li><span>{inside}</span></li>\n"
    return f'<li><button type="button" aria-pressed="false" value="{escape(key.name)}">{inside}</button></li>\n'


def _table(block: Block, title: str) -> str:
    """A table with its notes, in a box that scrolls where the table is wider than the page."""
    classes = [_class(block, column) for column in range(len(block["columns"]))]
    header = ""
    if any(block["columns"]):
        cells = (
            f'<th scope="col"{_classed(name)}><button type="button">{escape(column)}</button></th>\n'
            for name, column in zip(classes, block["columns"], strict=True)
        )
        header = f"<thead>\n<tr>\n{''.join(cells)}</tr>\n</thead>\n"
    rows = [f"<tr>{_cells(row, classes, block['warned'])}</tr>\n" for row in block["rows"]]
    # What stands below the body isn't sorted with it.
    total = f"<tfoot>\n{rows.pop()}</tfoot>\n" if block["total"] else ""
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in block["notes"])
    long = " long" if len(block["rows"]) > _ROWS_OF_A_LONG_TABLE else ""
    return (
        f'<div class="box{long}" role="region" aria-label="{escape(title)}: table" tabindex="0">\n'
        f"<table>\n{header}<tbody>\n{''.join(rows)}</tbody>\n{total}</table>\n</div>\n"
        + (f'<div class="notes">\n{notes}</div>\n' if notes else "")
    )


def _class(block: Block, column: int) -> str:
    """How the cells of a column are set: flush right, or else those of short ones on one line each."""
    if block["align"][column] == "right":
        return ""
    longest = max((len(row[column]) for row in block["rows"]), default=0)
    return "left wide" if block["wide"][column] else "left short" if longest <= _SHORT_CELL else "left"


def _cells(row: Sequence[str], classes: Sequence[str], warned: str) -> str:
    """The cells of a row, the first of which names it."""
    cells = []
    for index, (value, name) in enumerate(zip(row, classes, strict=True)):
        tag, scope = ("th", ' scope="row"') if index == 0 else ("td", "")
        alarm = "warned" if warned and value.startswith(warned) else ""
        # A long name may be broken where it's made of words.
        text = escape(value).replace("_", "_<wbr>")
        cells.append(f"<{tag}{scope}{_classed(name, alarm)}>{text}</{tag}>")
    return "".join(cells)


def _classed(*names: str) -> str:
    """The attribute of these classes, but for those that are empty."""
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""


def _json(value: object) -> str:
    """JSON that ends no script element, whatever text is in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
