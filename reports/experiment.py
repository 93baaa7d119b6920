"""Make a PDF and an HTML page from what an experiment observed: `python -m reports.experiment --results FOLDER`."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd
import tyro

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.errors import exit_with_one_line
from common.observations import answers, display
from common.observations.display import Display, Measure, Observed, Table, x_in_words
from common.observations.numbers import interval, number
from common.observations.table import CONDITION, whole
from common.records import manifest
from common.records.collective_times import CollectivesRecord
from common.records.header import Header
from common.records.matrix_products import MatrixRecord
from common.records.presentation import read_presented
from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MARGIN
from reports import blocks
from reports.blocks import DAGGER, DASH, Block, Drawings
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.charts.message_diagram import messages
from reports.charts.style import Style
from reports.render import shell
from reports.tables.results import Origin, origin_of
from reports.words import machine
from reports.words.glossary import TERMS

_KINDS = {str(kind.__struct_config__.tag): kind for kind in (CollectivesRecord, MatrixRecord, Record)}
"""By the names of their kinds the records of experiments."""

_MOST_ROWS, _MOST_PLACES = 6, 5  # Rows of the first page's table, and places of x, which are its columns.
_MOST_LINES = 56  # Of that table where nothing else stands on the first page.
_MOST_PRINTED, _MOST_COLUMNS = 16, 6  # Rows and columns of a table that is printed, not folded.
_MOST_PANELS, _PANELS_BESIDE, _MOST_TICKS = 15, 3, 14  # Of a figure, in a row of it, and along a row.
_NARROW = 30  # Characters of a cell up to which its column takes what it needs.
_RANKS = 4  # Of the figure of messages: with fewer the algorithms look alike, and arrows of many overlap.
_UNITS = ((2**30, " Gi"), (2**20, " Mi"), (2**10, " Ki"))

_MEANINGS = {
    "n": "launches",
    "95 %": "interval of the median, or where 95 of 100 new launches lie",
    "base": "what the series takes that it is held to",
    "times as fast": "as the base, from pairs of the same round",
    "times, 95 %": "interval of that",
    "parts, %": "mean shares over the launches",
}
"""Of the columns that tables of values have in every experiment."""

_MARKS = {answers.FASTEST: " *", answers.EQUIVALENT: " =", answers.UNDECIDED: " ?"}


def compose(found: Observed, records: Sequence[Header], origin: Origin) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn."""
    shown = found.display
    looks = style.styles({each.name: each.colors for each in shown.series})
    figures = [*_figures(found, looks)]
    values, missing = [*display.value_tables(found)], display.missing_table(found)
    tables = [*values, *missing, *display.growth_tables(found), *shown.tables]
    parts = [blocks.headline(display.answer(found))]
    if len(found.compared) and shown.x:
        main = _over_x(found)
    elif values:
        main = next((each for each in values if shown.compared.label in each.columns), values[0])
    else:
        main = next(iter([*missing, *shown.tables]), None)
    steps = _next_steps(found, origin.command) if origin.command else []
    told = [("How sure", [*manifest.in_words(origin.differences), *_certainty(found)]), ("What next", steps)]
    told = [each for each in told if each[1]]
    if main:
        most = _MOST_ROWS if figures or told else _rows_of_a_page(main)
        parts += [blocks.text(f"{blocks.capitalized(main.title)}:"), _table(main, most)]
        tables = [each for each in tables if each != main]
        tables = [main, *tables] if len(main.rows) > most else tables
    parts += [*figures[:1], blocks.answers(told)]
    parts += [blocks.new_page()] if figures else []
    parts += [blocks.heading("Curves"), *figures[1:]] if figures[1:] else []
    parts += _algorithms([name for name in ALGORITHMS if name in {*found.observed["series"]}])
    parts += _tables(tables)
    parts += [blocks.heading("How this was measured")] if shown.method or records else []
    parts += [blocks.items(shown.method)] if shown.method else []
    if records:
        ok = machine.ended_ok(records)
        names = sorted({record.host.name for record in ok if record.host.name})
        pooled = {"machines, pooled": ", ".join(names)} if len(names) > 1 else {}
        parts.append(machine.table(machine.facts(ok) | pooled | machine.to_repeat(origin, records)))
    return shell.compose(shown.title, [record.started_at for record in records] or [shown.made_at], parts)


def _over_x(found: Observed) -> Table:
    """The first page's table: a column for each of some places of x.

    Its rows are series held to their bases, or predicted ones, or else subjects and worlds with who is in front.
    """
    shown, factor, x = found.display, found.display.compared.factor, found.display.x
    label, notes = shown.compared.label, []
    keys = ["series", *(each for each in ("subject", "world") if found.compared[each].nunique() > 1)]
    if len(found.judged):
        cells = found.judged
        text = [f"{number(row.ratio)}\n{interval(row.low, row.high, number)}" for row in cells.itertuples()]
        title = f"How many times as fast as its base, with the 95 % interval, by {x}"
        notes = ["From pairs of the same round."]
    elif found.compared["low"].notna().any():
        cells = found.medians
        ends = [interval(factor * row.low, factor * row.high, number) for row in cells.itertuples()]
        text = [f"{number(factor * each)}\n{own}" for each, own in zip(cells["median"], ends, strict=True)]
        title = f"{blocks.capitalized(label)}, with where 95 of 100 new launches lie, by {x}"
    else:
        keys = ["subject", "world"]
        cells = found.leaders.merge(found.medians[[*CONDITION, "series", "median", "oversubscribed"]])
        text = [
            f"{row.series}{DAGGER * row.oversubscribed}{_MARKS.get(row.verdict, '')}\n{number(factor * row.median)}"
            for row in cells.itertuples()
        ]
        title = f"The {shown.contender} in front and its median {label}, by {x}"
        notes = [
            f"*: shown to be faster than all others. =: equivalent to some within {100 * MARGIN:g} %. ?: can't be told "
            f"from another. Without a mark: not tested, for fewer than {FEWEST_LAUNCHES} rounds or nobody beside it."
        ]
    places = sorted(cells["x"].unique())
    if len(places) > _MOST_PLACES:
        places = [places[round(each * (len(places) - 1) / (_MOST_PLACES - 1))] for each in range(_MOST_PLACES)]
    oversubscribed = {*found.compared[found.compared["oversubscribed"]]["series"]}
    rows = []
    for names, own in cells.assign(text=text).groupby(keys, sort=False):
        by_place = dict(zip(own["x"], own["text"], strict=True))
        named = [f"{each}{DAGGER * (each in oversubscribed)}" for each in names]
        rows.append([*named, *(by_place.get(place, DASH) for place in places)])
    columns = [{"series": shown.contender, "subject": "of", "world": "in"}[each] for each in keys]
    columns += [f"{in_words(shown, place)}{' B' * shown.x_is_bytes}".replace("i B", "iB") for place in places]
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _certainty(found: Observed) -> list[str]:
    """How many launches there are, how they were tested, what makes them less certain, and what is missing."""
    shown, measured = found.display, found.medians[found.medians["n"] > 0]
    sentences = []
    if len(measured):
        sentences.append(
            f"Launches of fresh processes: n = {blocks.span(measured['n'])} each. Rounds in shuffled order: "
            f"{found.compared['round'].nunique()}. A number is the median of its launches, from {FEWEST_LAUNCHES} on "
            "with a 95 % interval by order statistics."
        )
        if measured["n"].max() < FEWEST_LAUNCHES:
            sentences.append(f"No test: that takes {FEWEST_LAUNCHES} rounds.")
        elif shown.x:
            sentences.append("Tests: paired t within rounds, corrected for all that are compared at one place (Holm).")
        wide = measured["high"] - measured["low"] > 0.10 * measured["median"]
        if wide.any():
            sentences.append(f"{wide.sum()} of {len(measured)} intervals are wider than 10 % of their median.")
    sentences += shown.sentences
    reasons = [*found.missing.groupby(["status", "reason"], sort=False)]
    for (status, reason), own in reasons[:2]:
        launches = own.groupby(["series", "world", "round"]).ngroups
        names = blocks.some([*dict.fromkeys(own["series"])], 4)
        sentences.append(f"{blocks.capitalized(status)}: {launches} launch{'es' * (launches > 1)} of {names}. {reason}")
    if reasons[2:]:
        sentences.append(f"More reasons, in \u201cWhat isn't there\u201d: {len(reasons) - 2}.")
    if len(measured) and not reasons:
        sentences.append("Nothing is missing: every launch measured what it was to measure.")
    return sentences


def _next_steps(found: Observed, command: str) -> list[str]:
    """At most two commands, each with what it is good for."""
    session, _, options = command.partition(" -- ")
    again = f"{session} --{re.sub(r' --(repetitions|order-seed) [0-9]+', '', f' {options}').rstrip()} --repetitions"
    n, steps = found.medians["n"].max(), []
    if (found.missing["status"] == "failed").any():
        steps.append(f"{command}: measures again. The logs beside the records have the whole errors.")
    if 0 < n < FEWEST_LAUNCHES:
        steps.append(f"{again} {FEWEST_LAUNCHES}: so many rounds give intervals.")
    elif found.display.x and answers.UNDECIDED in {*(found.judged if len(found.judged) else found.leaders)["verdict"]}:
        steps.append(f"{again} {2 * n}: twice as many rounds narrow the intervals by about 30 %.")
    return [*steps, *found.display.next_steps, f"{session} -- --help: lists what else can be measured."][:2]


def _algorithms(names: Sequence[str]) -> list[Block]:
    """Who sends what when in the algorithms by hand that were measured; nothing where none was."""
    if not names:
        return []
    caption = (
        f"All-reduce by hand among {_RANKS} ranks, drawn from the algorithm: a line for each rank, an arrow for each "
        "message, as thick as its share of the elements, which the title gives. No time is measured here."
    )
    alt = f"A panel for each of {blocks.some(names)}: arrows between {_RANKS} lines, the ranks, in columns, the steps."
    figure = blocks.figure("messages", partial(messages, names, _RANKS), caption, alt, stacks=True)
    return [blocks.heading("Who sends what when"), figure]


def _tables(tables: Sequence[Table]) -> list[Block]:
    """The chapter with the tables: the small ones, then the others, which are folded on the HTML page alone."""
    printed, folded = list[Block](), list[Block]()
    for table in tables:
        if len(table.rows) <= _MOST_PRINTED and len(table.columns) <= _MOST_COLUMNS:
            printed += [blocks.heading(table.title, level=2), _table(table)]
        else:
            meanings = {column: (_MEANINGS | table.meanings).get(column, "") for column in table.columns}
            folded.append(blocks.data(table.title, " ".join(table.notes + _legend(table)), meanings, table.rows))
    if folded:
        names = blocks.some([f"\u201c{each['name']}\u201d" for each in folded], 6)
        printed.append(blocks.text(f"The HTML page has the long and the wide tables, folded: {names}."))
    return [blocks.heading("Tables"), *printed, *folded] if printed else []


def _rows_of_a_page(table: Table) -> int:
    """How many of the table's first rows fill a page, where a cell of many words takes several lines."""
    lines = accumulate(max(math.ceil(len(cell) / _NARROW) for cell in row) for row in table.rows)
    return sum(each <= _MOST_LINES for each in lines)


def _table(table: Table, most: int | None = None) -> Block:
    """A table, or so many of its first rows, with its notes: cells of several lines or of many words share the page."""
    rows, wide = table.rows[:most], dict[int, int]()
    for place in range(len(table.columns)):
        longest = max((len(row[place]) for row in rows), default=0)
        if any("\n" in row[place] for row in rows):
            wide[place] = 3
        elif longest > _NARROW:
            wide[place] = 1 + longest // 20
    meanings = [f"{blocks.capitalized(column)}: {meaning}." for column, meaning in table.meanings.items()]
    notes = [*table.notes, *([" ".join(meanings)] if meanings else []), *_legend(table)]
    if more := len(table.rows) - len(rows):
        others = f": the HTML page and {table.kept_in} have {more} more" if table.kept_in else ""
        notes.append(f"The first {most} of {len(table.rows)} rows{others}.")
    return blocks.table(table.columns, rows, notes, wide)


def _legend(table: Table) -> list[str]:
    """What daggers and dashes in a table stand for."""
    cells = [cell for row in table.rows for cell in row]
    notes = blocks.oversubscribed_note(DAGGER in cell for cell in cells)
    return notes + ([f"{DASH} not known, or not defined for it."] if DASH in cells else [])


def _figures(found: Observed, looks: Mapping[str, Style]) -> Iterator[Block]:
    """Of each measure that is drawn the first subject and world, then the others as panels of as few figures."""
    shown = found.display
    conditions = zip(found.observed["subject"], found.observed["world"], strict=True)
    observed = found.observed.assign(panel=[", ".join(filter(None, each)) for each in conditions])
    for measure in [*([shown.compared] if shown.x else []), *(each for each in shown.measures if each.over)]:
        own = whole(observed, measure.name)
        # A barrier's size is 0, which has no place on a logarithmic axis.
        own = own if measure.over else own[own["x"] > 0]
        panels = [*dict.fromkeys(own["panel"])]
        for first in [0, *range(1, len(panels), _MOST_PANELS)] if panels else []:
            names = panels[first : first + _MOST_PANELS if first else 1]
            yield _figure(found, measure, own[own["panel"].isin(names)], looks)


def _figure(found: Observed, measure: Measure, observed: pd.DataFrame, looks: Mapping[str, Style]) -> Block:
    """A figure of one measure, with a panel for each of its subjects and worlds."""
    counts = observed.groupby(["panel", "series", "x"]).size()
    plot = (_courses if measure.over else partial(_curves, found))(measure, observed, looks)
    if measure.over:
        said = "a line for each launch."
    elif observed["low"].notna().any():
        said = "what is predicted. Upright: where 95 of 100 new launches lie."
    else:
        said = f"medians, every launch a faint mark, n = {blocks.span(counts)} launches."
        said += " Upright: 95 % intervals of the medians." if counts.max() >= FEWEST_LAUNCHES else ""
        said += " Dotted: the fitted lines." if plot.lines else ""
    what = f"{blocks.capitalized(measure.label)} over {measure.over or found.display.x}"
    places = blocks.some([*dict.fromkeys(filter(None, observed["panel"]))] or ["everywhere"])
    alt = f"{what}, {places}: lines of {blocks.some(sorted({*observed['series']}))}. The tables have all numbers."
    name, stacks = "courses" if measure.over else "curves", observed["panel"].nunique() > 1
    return blocks.figure(name, partial(curves, plot, looks), f"{what}: {said}", alt, stacks=stacks)


def _curves(found: Observed, measure: Measure, observed: pd.DataFrame, looks: Mapping[str, Style]) -> Plot:
    """What contenders are compared by over x, with the fits of their series."""
    label, factor, shown = measure.label, measure.factor, found.display
    panels = {(row.subject, row.world): row.panel for row in observed.itertuples()}
    medians = answers.medians(observed).assign(measure=label)
    medians["panel"] = [panels[row.subject, row.world] for row in medians.itertuples()]
    medians["value"] = factor * medians["median"]
    medians[["low", "high"]] *= factor
    lines = []
    for (subject, world, name), fit in found.lines.items():
        for piece in fit.pieces if (subject, world) in panels else []:
            sizes = np.geomspace(piece.from_bytes, piece.to_bytes, 60)
            values = [factor * piece.seconds(size) for size in sizes]
            about = {"color": looks[name].color, "width": 0.7, "key": name, "label": "alpha + size / beta, fitted"}
            lines.append(Line(measure=label, panel=panels[subject, world], x=sizes, values=values, **about))
    sizes = sorted(medians["x"].unique())
    # Of many some are named.
    every = math.ceil(len(sizes) * min(len(panels), _PANELS_BESIDE) / _MOST_TICKS)
    return Plot(
        launches=observed.assign(measure=label, value=factor * observed["value"]),
        medians=medians,
        lines=lines,
        contender=shown.contender,
        x_label=shown.x,
        ticks={size: "" if place % every else in_words(shown, size) for place, size in enumerate(sizes)},
        panels_beside=_PANELS_BESIDE,
    )


def _courses(measure: Measure, observed: pd.DataFrame, looks: Mapping[str, Style]) -> Plot:
    """The course of each launch."""
    lines = []
    for (panel, series, launch), course in observed.groupby(["panel", "series", "launch"], sort=False):
        course, look = course.sort_values("x"), looks[series]
        about = {"color": look.color, "dashes": look.line, "marker": look.marker, "width": 0.8}
        about |= {"measure": measure.label, "key": series, "label": series, "tips": [{"launch": launch}]}
        lines.append(Line(panel=panel, x=course["x"], values=measure.factor * course["value"], **about))
    return Plot(lines=lines, x_label=measure.over, panels_beside=_PANELS_BESIDE)


def in_words(display: Display, x: float) -> str:
    """An x as it stands at a tick: bytes in units of 1024 where it's a whole number of them."""
    for unit, name in _UNITS if display.x_is_bytes and x else ():
        if x % unit == 0:
            return f"{x / unit:.0f}{name}"
    return x_in_words(x)


def write_report(results: Path, out: Path = Path("reports/out/experiment.pdf")) -> None:
    """Make a typeset PDF of what an experiment observed, and beside it an HTML page.

    Args:
        results: Folder of the session, with its records (*.json) and its observations. What folders below it observed
            has a PDF and a page of its own, with that folder's name.
        out: The PDF to write; a name that ends in .svg gets the first figure alone.
    """
    for below in sorted(results.glob(f"*/{display.DISPLAY}")):
        write_report(below.parent, out.with_name(f"{out.stem}-{below.parent.name}.pdf"))
    found = display.read(results)
    kind = _KINDS.get(found.display.payload)
    records = read_presented(results, kind) if kind else {}
    origin = origin_of(results, (results / f"{name}.json" for name in records))
    content, drawings = compose(found, [*records.values()], origin)
    shell.ensure_ready(out)
    if out.suffix == ".svg":
        shell.write_figure(out, drawings)
        return
    shell.write(out, content | {"terms": TERMS}, drawings)
    of_records = f": {len(records)} records" if records else ""
    print(f"{out} and {shell.page_beside(out)}{of_records}")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_report, description=__doc__))
