"""Make a PDF and an HTML page from what an experiment observed: `python -m reports.experiment --results FOLDER`."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import tyro

from common.errors import exit_with_one_line
from common.files import ensure_writable, write_atomically
from common.observations import answers, display
from common.observations.display import Display, Observed, Table, x_in_words
from common.observations.numbers import interval, number
from common.observations.table import CONDITION
from common.records.collective_times import CollectivesRecord
from common.records.header import Header
from common.records.matrix_products import MatrixRecord
from common.records.presentation import read_presented
from common.records.training import Record
from common.statistics.fit import Fit
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MARGIN
from reports import blocks
from reports.blocks import DAGGER, DASH, Block, Drawings
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.charts.style import Style
from reports.render import shell
from reports.tables.results import Origin, origin_of
from reports.words import algorithms, machine

_KINDS = {str(kind.__struct_config__.tag): kind for kind in (CollectivesRecord, MatrixRecord, Record)}
"""By the names of their kinds the records of experiments."""

_MOST_PLACES = 5
"""Of the first page's table, which is as wide as a page."""

_NARROW = 25
"""Characters of a cell up to which its column takes what it needs."""

_MOST_TICKS = 14
_UNITS = ((2**30, " Gi"), (2**20, " Mi"), (2**10, " Ki"))

_MARKS = {answers.EQUIVALENT: " =", answers.UNDECIDED: " ?"}


def compose(found: Observed, records: Sequence[Header], origin: Origin) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn."""
    shown = found.display
    looks = style.styles({each.name: each.colors for each in shown.series})
    figures = [*_figures(found, looks), *_courses(found, looks)]
    parts = [blocks.headline(display.answer(found))]
    parts += [blocks.items(shown.sentences)] if shown.sentences else []
    parts += _leaders(found, looks) if shown.x and not shown.bases else []
    parts += [*figures[:1], blocks.contents()]
    parts += [blocks.heading("Curves"), *figures[1:]] if figures[1:] else []
    parts += algorithms.section({each.name for each in shown.series if each.name in {*found.observed["series"]}})
    subject = None
    for of_subject, world, table in display.value_tables(found):
        if of_subject != subject:
            parts.append(blocks.heading(blocks.capitalized(of_subject or "Every number")))
        subject = of_subject
        parts += [blocks.heading(blocks.capitalized(world), level=2)] if world else []
        parts.append(_table(table))
    for table in [*display.growth_tables(found), *display.missing_table(found), *shown.tables]:
        parts += [blocks.heading(table.title), _table(table)]
    parts += [blocks.heading("How to read these numbers")]
    if not records:
        return shell.compose(shown.title, [shown.made_at], [*parts, blocks.items(shown.method)])
    method = [*shown.method, *_METHOD, *(_METHOD_OF_COMPARISONS if shown.x else [])]
    parts.append(blocks.items(method))
    ok = machine.ended_ok(records)
    names = sorted({record.host.name for record in ok if record.host.name})
    pooled = {"machines, pooled": ", ".join(names)} if len(names) > 1 else {}
    told = machine.facts(ok) | pooled | machine.to_repeat(origin, records)
    parts += [blocks.heading("Machine, versions and settings"), machine.table(told)]
    return shell.compose(shown.title, [record.started_at for record in records], parts)


_METHOD = [
    "Every launch is of fresh processes. A round has every contender once, in shuffled order.",
    "A number is the median over n launches, from six on with an interval by order statistics that covers the true "
    "median in at least 95 % of experiments.",
]
_METHOD_OF_COMPARISONS = [
    "A launch counts by the median over its calls, after a warm-up. Who is faster is said by paired t tests within "
    "rounds, held down over all that are compared at one place (Holm); two intervals decide nothing.",
]


def _table(table: Table) -> Block:
    """A table of an experiment: words flush left."""
    longest = [max((len(row[place]) for row in table.rows), default=0) for place in range(len(table.columns))]
    wide = {place: 1 + length // 20 for place, length in enumerate(longest) if length > _NARROW}
    notes = [*table.notes, *blocks.oversubscribed_note(DAGGER in row[0] for row in table.rows)]
    notes += [f"{DASH} not known, or not defined for it."] if any(DASH in row for row in table.rows) else []
    return blocks.table(table.columns, table.rows, notes, wide)


def _figures(found: Observed, looks: Mapping[str, Style]) -> list[Block]:
    """A figure for each subject and world that has an x above zero."""
    shown, figures = found.display, []
    for (subject, world), own in found.compared.groupby(["subject", "world"], sort=False):
        if not own["x"].max() > 0:
            continue
        counts = own.groupby(["series", "x"]).size()
        fits = {series: each for (*place, series), each in found.lines.items() if place == [subject, world]}
        what = ", ".join(filter(None, [str(subject), str(world)]))
        if own["low"].notna().any():
            said = ["what is predicted. Upright: where 95 of 100 new launches lie."]
        else:
            said = [f"medians, every launch a faint mark, n = {blocks.span(counts)} launches."]
            said += ["Upright: 95 % intervals of the medians."] if counts.max() >= FEWEST_LAUNCHES else []
        said[0] = f"{what}: " * bool(what) + said[0]
        said += ["Dotted: the fitted lines."] if fits else []
        names = blocks.some(sorted({*own["series"]}))
        alt = (
            f"{blocks.capitalized(shown.compared.label)} over {shown.x}, {what or 'everywhere'}: a line for each "
            f"of {names}. The tables after it have all numbers."
        )
        draw = partial(curves, _plot(shown, own, fits, looks), looks)
        figures.append(blocks.figure("curves", draw, blocks.capitalized(" ".join(said)), alt))
    return figures


def _plot(display: Display, observed: pd.DataFrame, fits: Mapping[str, Fit], looks: Mapping[str, Style]) -> Plot:
    """What contenders are compared by over x, of one subject in one world, with the fits of their series."""
    label, factor = display.compared.label, display.compared.factor
    launches = observed.assign(measure=label, panel="", value=factor * observed["value"])
    medians = answers.medians(observed).assign(measure=label, panel="")
    medians["value"] = factor * medians["median"]
    medians[["low", "high"]] *= factor
    for marks, name in ((launches, f"a launch, {label}"), (medians, label)):
        marks["tip"] = [
            {display.contender: row["series"] + DAGGER * row["oversubscribed"], display.x: in_words(display, row["x"])}
            | {name: number(row["value"])}
            for row in marks.to_dict("records")
        ]
    for row in medians.to_dict("records"):
        ends = interval(row["low"], row["high"], number)
        row["tip"]["95 % interval"] = "none: too few launches" if math.isnan(row["low"]) else ends
        row["tip"]["launches (n)"] = row["n"]
    lines = []
    for name, each in fits.items():
        for piece in each.pieces:
            sizes = np.geomspace(piece.from_bytes, piece.to_bytes, 60)
            seconds = [piece.seconds(size) for size in sizes]
            about = {"color": looks[name].color, "width": 0.7, "key": name, "label": "alpha + size / beta, fitted"}
            lines.append(Line(measure=label, x=sizes, values=[factor * each for each in seconds], **about))
    sizes = sorted(medians["x"].unique())
    # Of many some are named.
    every = math.ceil(len(sizes) / _MOST_TICKS)
    ticks = {size: "" if place % every else in_words(display, size) for place, size in enumerate(sizes)}
    return Plot(launches=launches, medians=medians, lines=lines, x_label=display.x, ticks=ticks)


def _courses(found: Observed, looks: Mapping[str, Style]) -> list[Block]:
    """A figure for each subject and world of each measure that is drawn over the course of launches."""
    figures = []
    for measure in filter(lambda measure: measure.over, found.display.measures):
        observed = found.observed[found.observed["measure"] == measure.name].sort_values(["launch", "x"])
        for place, own in observed.groupby(["subject", "world"], sort=False):
            what = f"{blocks.capitalized(', '.join(filter(None, place)))}: {measure.label} over {measure.over}"
            alt = f"{what}, a line for each launch of {blocks.some(sorted({*own['series']}))}."
            lines = []
            for (series, launch), course in own.groupby(["series", "launch"], sort=False):
                look = looks[series]
                about = {"color": look.color, "dashes": look.line, "marker": look.marker, "width": 0.8}
                about |= {"measure": measure.label, "key": series, "label": series, "tips": [{"launch": launch}]}
                lines.append(Line(x=course["x"], values=measure.factor * course["value"], **about))
            draw = partial(curves, Plot(lines=lines, x_label=measure.over), looks)
            figures.append(blocks.figure("courses", draw, f"{what}, a line for each launch.", alt))
    return figures


def in_words(display: Display, x: float) -> str:
    """An x as it stands at a tick: bytes in units of 1024 where it's a whole number of them."""
    if display.x_is_bytes:
        for unit, name in _UNITS:
            if x % unit == 0:
                return f"{x / unit:.0f}{name}"
    return x_in_words(x)


def _leaders(found: Observed, looks: Mapping[str, Style]) -> list[Block]:
    """The series in front by subject, world and x, in its color, with its median and how sure that is.

    Nothing where it is predicted.
    """
    if not found.compared["low"].isna().any():
        return []
    shown = found.display
    leaders = found.leaders.merge(found.medians[[*CONDITION, "series", "median", "oversubscribed"]])
    places = sorted(leaders["x"].unique())
    if len(places) > _MOST_PLACES:
        places = [places[round(each * (len(places) - 1) / (_MOST_PLACES - 1))] for each in range(_MOST_PLACES)]
    rows: list[list[str]] = []
    tints: dict[tuple[int, int], str] = {}
    for (subject, world), own in leaders.groupby(["subject", "world"], sort=False):
        by_place = {row["x"]: row for row in own.to_dict("records")}
        cells = [str(subject), str(world)]
        for place in places:
            if (row := by_place.get(place)) is None:
                cells.append(DASH)
                continue
            if row["verdict"] in (answers.FASTEST, answers.EQUIVALENT):
                tints[len(rows), len(cells)] = looks[row["series"]].color
            name = f"{row['series']}{DAGGER * row['oversubscribed']}{_MARKS.get(row['verdict'], '')}"
            cells.append(f"{name}\n{blocks.number(shown.compared.factor * row['median'])}")
        rows.append(cells)
    columns = ["of", "in", *[f"{in_words(shown, place)}{'B' * shown.x_is_bytes}" for place in places]]
    counts = [n for n in leaders["n"] if n]
    note = (
        f"The {shown.contender} in front, and its median, {shown.compared.label}. On its color: shown to be faster "
        f"than all others, or equivalent (=) to some within {100 * MARGIN:g} %. ?: can't be told from another. Without "
        f"a mark on white: not tested, for fewer than {FEWEST_LAUNCHES} rounds or nobody beside it."
    )
    notes = [note + (f" n = {blocks.span(counts)} rounds." if counts else "")]
    notes += blocks.oversubscribed_note(leaders["oversubscribed"])
    wide = {0: 2, 1: 3} | dict.fromkeys(range(2, len(columns)), 3)
    return [blocks.table(columns, rows, notes, wide, tints=tints)]


def write_report(results: Path, out: Path = Path("reports/out/experiment.pdf")) -> None:
    """Make a typeset PDF of what an experiment observed, and beside it an HTML page.

    Args:
        results: Folder of the session, with its records (*.json) and its observations.
        out: The PDF to write; a name that ends in .svg gets the first figure alone.
    """
    found = display.read(results)
    kind = _KINDS.get(found.display.payload)
    records = read_presented(results, kind) if kind else {}
    origin = origin_of(results, (results / f"{name}.json" for name in records))
    content, drawings = compose(found, [*records.values()], origin)
    if out.suffix == ".svg" and drawings:
        ensure_writable(out)
        write_atomically(out, next(iter(drawings.values()))())
        print(f"{out}: the first figure")
        return
    shell.ensure_ready(out)
    started_at = [record.started_at for record in records.values()] or [found.display.made_at]
    shell.write(out, started_at, content, drawings)
    print(f"{out} and {shell.page_beside(out)}: {len(records)} records")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_report, description=__doc__))
