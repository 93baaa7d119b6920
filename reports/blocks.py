"""The kinds of pieces that a document is made of, as `template.typ` reads them, and how numbers are written in them."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from common.observations.numbers import DAGGER, DASH, number

Block = dict[str, object]
"""One piece of the document: its `kind`, which is the name of the function here that makes it, and what it shows."""

Draw = Callable[..., bytes]
"""Draws a figure as SVG, for a narrow page where it stacks and is given that `width`."""

Drawings = dict[str, Draw]  # By its file's name how each figure is drawn.
LONGEST_NAME = 34  # Characters that leave room for bars, or other columns, beside them.

# How a cell begins that is no number: a word, or such as `2 ranks, cpu`.
_WORD = re.compile(r"\W*[^\W\d]|\d+ [^\W\d]+, ")


def heading(text: str, level: int = 1) -> Block:
    """A heading of a chapter (level 1), of a section (2) or of a part of one (3)."""
    return {"kind": "heading", "level": level, "text": text}


def text(sentences: str) -> Block:
    """A paragraph."""
    return {"kind": "text", "text": sentences}


def headline(sentence: str) -> Block:
    """The one sentence that answers the document's question, in large letters."""
    return {"kind": "headline", "text": sentence}


def items(sentences: list[str]) -> Block:
    """A list with bullets."""
    return {"kind": "items", "items": sentences}


def items_of_a_page(sentences: list[str], most: int, *, small: bool = True) -> list[Block]:
    """The first so many items; more are on the HTML page alone."""
    rest = sentences[most:]
    return [items(sentences[:most]) | {"small": small}, *([items(rest) | {"page_only": True}] if rest else [])]


def answers(told: list[tuple[str, list[str]]]) -> Block:
    """Questions, in a word or two each, with the sentences that answer them."""
    return {"kind": "answers", "answers": [{"question": question, "items": items} for question, items in told]}


def new_page() -> Block:
    """What follows begins on a new page, where the document has pages."""
    return {"kind": "new_page"}


def figure(name: str, draw: Draw, caption: str, alt: str, *, stacks: bool = False) -> Block:
    """A figure of the full width; `alt` says in words what it shows.

    One that `stacks` has panels beside one another, which `draw` puts below one another where its `width` is narrow.
    """
    return {"kind": "figure", "name": name, "draw": draw, "caption": caption, "alt": alt, "stacks": stacks}


def table(
    columns: list[str],
    rows: list[list[str]],
    notes: Sequence[str] = (),
    wide: Mapping[int, int] = MappingProxyType({}),
    warned: str = "",
) -> Block:
    """A table; the first column and those with words are set flush left, cells that begin with `warned` stand out.

    Columns in `wide` divide the width that the others leave among them, by these numbers.
    """
    places = range(len(columns))
    left = {0, *wide} | {place for place in places if any(_WORD.match(row[place]) for row in rows)}
    return {
        "kind": "table",
        "columns": columns,
        "rows": rows,
        "notes": [*notes],
        "warned": warned,
        "align": ["left" if place in left else "right" for place in places],
        "wide": [wide.get(place, 0) for place in places],
    }


def data(name: str, about: str, meanings: Mapping[str, str], rows: list[list[str]]) -> Block:
    """A table for the page alone, where it is folded; `meanings` say what each column is, by the columns' names."""
    return table([*meanings], rows) | {"kind": "data", "name": name, "about": about, "meanings": [*meanings.values()]}


def listed(items: list[str]) -> str:
    """At least one item, the last one after an `and`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def some(names: list[str], most: int = 20) -> str:
    """At least one name, the last one after an `and`; of many the first ones, and how many more there are."""
    return listed(names if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"])


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[0].upper() + text[1:]


def span(counts: Iterable[int]) -> str:
    """The smallest and the largest of whole numbers: `6 to 8`, or `6`; with commas in thousands."""
    every = [*counts]
    return " to ".join(f"{count:,}" for count in dict.fromkeys([min(every), max(every)]))


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """`name` with as many characters as there is room for: its beginning, and its end, which says where it was."""
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def workers(count: int) -> str:
    """`1 worker`, or `4 workers`."""
    return f"{count} worker{'s' if count > 1 else ''}"


def world(workers: int, oversubscribed: bool) -> str:
    """A number of workers, with a dagger where there were more threads than cores."""
    return f"{workers}{DAGGER if oversubscribed else ''}"


def oversubscribed_note(flags: Iterable[bool]) -> list[str]:
    """What the dagger of some rows means; nothing where none has one."""
    return [f"{DAGGER} more threads than cores: shows that it works, not how it scales."] if any(flags) else []


def who(rows: pd.DataFrame) -> str:
    """The strategies of these rows with their numbers of `workers`, such as `my_strategy at 2 and 4`; some of many."""
    places = rows.drop_duplicates(["strategy", "workers"]).sort_values(["strategy", "workers"])
    groups = places.groupby("strategy")["workers"]
    return some([f"{shortened(name)} at {listed([str(count) for count in counts])}" for name, counts in groups])


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds, three or four significant digits, without the unit."""
    return number(1000 * seconds)


def tiny(value: float) -> str:
    """Two significant digits with an exponent, such as 1.2e-7."""
    if math.isnan(value):
        return DASH
    return "not finite" if math.isinf(value) else f"{value:.1e}".replace("e-0", "e-")
