"""The kinds of pieces that a document is made of, as `template.typ` reads them, and how numbers are written in them."""

import math

Block = dict[str, object]
"""One piece of the document: its `kind` (heading, text, items, caution, figure, table) and what that kind shows."""

DASH = "\N{EN DASH}"
"""Stands where a number doesn't exist."""


def heading(text: str, level: int = 1) -> Block:
    """A heading of a section (level 1) or of a part of one (2)."""
    return {"kind": "heading", "level": level, "text": text}


def text(sentences: str) -> Block:
    """A paragraph."""
    return {"kind": "text", "text": sentences}


def items(sentences: list[str]) -> Block:
    """A list with bullets."""
    return {"kind": "items", "items": sentences}


def caution(what: str, cause: str, remedy: str, where: list[str]) -> Block:
    """What was seen, its likely cause, what to do about it, and one line for every place where it was seen."""
    return {"kind": "caution", "what": what, "cause": cause, "remedy": remedy, "where": where}


def figure(file: str, caption: str) -> Block:
    """A figure of the full width, from the image named `file`."""
    return {"kind": "figure", "file": file, "caption": caption}


def table(
    columns: list[str],
    rows: list[list[str]],
    notes: list[str],
    left: tuple[int, ...],
    wide: tuple[int, ...] = (),
    warned: str = "",
) -> Block:
    """A table; columns in `left` are set flush left, those in `wide` share the width, `warned` cells stand out."""
    return {
        **{"kind": "table", "columns": columns, "rows": rows, "notes": notes, "warned": warned},
        "align": ["left" if index in left else "right" for index in range(len(columns))],
        "wide": list(wide),
    }


def listed(items: list[str]) -> str:
    """At least one item, the last one after an `and`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def number(value: float) -> str:
    """Three or four significant digits, without an exponent."""
    if math.isnan(value):
        return DASH
    digits = 0 if abs(value) >= 1000 else max(0, 3 - math.floor(math.log10(abs(value))) - 1) if value else 0
    return f"{value:,.{digits}f}"


def ratio(value: float) -> str:
    """Two digits after the point."""
    return DASH if math.isnan(value) else f"{value:.2f}"


def percent(value: float) -> str:
    """A share in whole per cent."""
    return DASH if math.isnan(value) else f"{100 * value:.0f} %"


def tiny(value: float) -> str:
    """Two significant digits with an exponent, such as 1.2e-7."""
    if math.isnan(value):
        return DASH
    return "not finite" if math.isinf(value) else f"{value:.1e}".replace("e-0", "e-")
