"""Every mark of every figure, read back from its SVG, stands where its row says, and says its row's numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd
import pytest

from common.observations import numbers
from reports import blocks
from reports.charts import bars, style
from reports.charts.curves import Line, Plot, curves
from reports.tables import summaries
from tests.reports.charts.read_marks import Expected, missing, read
from tests.reports.materials import material_of
from tests.reports.pieces import looks_of
from tests.reports.records import make_record, named, varied

Rows = dict[str, pd.DataFrame]
"""What a figure is drawn from, by names of its own."""


@dataclass(frozen=True)
class Figure:
    """A figure: how it is drawn from its rows, and its marks as these rows have them.

    `changes` are numbers of its rows, by table and column, a change of which by 1 % changes what must be drawn.
    """

    rows: Rows
    draw: Callable[[Rows], bytes]
    expected: Callable[[Rows], list[Expected]]
    changes: list[tuple[str, str]]


def rows_of_speed() -> Rows:
    records = [make_record("amber_single", 1, (1.5 + place / 10,) * 3) for place in range(6)]
    for workers in (1, 4):
        records += [make_record("amber_ring", workers, (2.0 + place * workers / 10,) * 3) for place in range(6)]
    launches = summaries.launches(named(*records))
    return {"cells": summaries.cells(launches), "launches": launches}


def of_headline(width: float) -> Figure:
    """The rate of each strategy, of launches and of medians, and the ideal of each base."""
    looks = looks_of(["amber_single", "amber_ring"])
    columns = ["samples_per_second", "low_seconds", "high_seconds"]
    changes = [*(("cells", column) for column in columns), ("launches", "samples_per_second")]
    draw = lambda rows: bars.headline(rows["cells"], rows["launches"], looks, width)  # noqa: E731
    return Figure(rows_of_speed(), draw, rates, changes)


def tip_of_median(cell: Mapping[str, object]) -> dict[str, str]:
    low, high = cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]
    return {
        "samples/s, median": f"{cell['samples_per_second']:,.0f}",
        "95 % interval": f"{low:,.0f} to {high:,.0f}",
        "ms per step": blocks.milliseconds(cell["seconds"]),
        "speed-up": numbers.ratio(cell["speed_up"]),
        "efficiency": numbers.percent(cell["efficiency"]),
        "over own 1": numbers.ratio(cell["own_speed_up"]),
        "launches (n)": str(cell["n"]),
    }


def tip_of_launch(launch: Mapping[str, object]) -> dict[str, str]:
    said = {"samples/s": f"{launch['samples_per_second']:,.0f}", "ms per step": blocks.milliseconds(launch["seconds"])}
    return said | {"launch (n = 1)": launch["launch"]}


def rates(rows: Rows) -> list[Expected]:
    marks, panel = [], "samples per second"
    most = rows["cells"]["workers"].max()
    for cell in rows["cells"].to_dict("records"):
        name, rate = cell["strategy"], cell["samples_per_second"]
        low, high = cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]
        marks.append(Expected(panel, name, tip_of_median(cell), [(0.0, None), (rate, None)], near=(50.0, 1.0)))
        marks.append(Expected(panel, name, tip_of_median(cell), [(low, None), (high, None)]))
        ideal = most * cell["base_samples_per_second"]
        marks.append(Expected(panel, "amber_single", {"base": "amber_single"}, [(ideal, None)]))
    for launch in rows["launches"].to_dict("records"):
        rate = launch["samples_per_second"]
        marks.append(Expected(panel, launch["strategy"], tip_of_launch(launch), [(rate, None)]))
    return marks


def of_parts() -> Figure:
    records = [make_record("amber_single", 1, (2.0 + place / 20,) * 3) for place in range(6)]
    for workers in (1, 2):
        records += [make_record("amber_ring", workers, (4.0 + place / 10,) * 3) for place in range(6)]
    records += [varied("amber_ring", 2, (1.5 + place / 30,) * 3, exchange=False) for place in range(6)]
    table = material_of(*records).parts.assign(ceiling_seconds=0.9e-3)

    def expected(rows: Rows) -> list[Expected]:
        marks = []
        for (workers, name), cell in rows["table"].groupby(["workers", "strategy"]):
            panel, step = blocks.workers(workers), cell.iloc[0]
            marks += parts_of(cell, panel, name)
            measured, ceiling = 1000 * step["measured_seconds"], 1000 * step["ceiling_seconds"]
            marks.append(Expected(panel, name, {"measured step": f"{blocks.number(measured)} ms"}, [(measured, None)]))
            triangle = {"the framework's own products and transport": f"{blocks.number(ceiling)} ms"}
            marks.append(Expected(panel, name, triangle, [(ceiling, None)]))
        return marks

    columns = ["seconds", "ideal_seconds", "measured_seconds", "ceiling_seconds", "low", "high"]
    draw = lambda rows: bars.steps(rows["table"])  # noqa: E731
    return Figure({"table": table}, draw, expected, [("table", column) for column in columns])


def parts_of(cell: pd.DataFrame, panel: str, key: str | None = None) -> list[Expected]:
    """The bar of a step: each part begins where the one before it ends, on its side of zero."""
    seconds = {"ideal": cell["ideal_seconds"].iloc[0]} | dict(zip(cell["part"], cell["seconds"], strict=True))
    intervals = {row["part"]: (row["low"], row["high"]) for row in cell.to_dict("records")}
    marks, left, right = [], 0.0, 0.0
    for part in [part for part in style.PARTS if abs(seconds.get(part, 0.0)) > 1e-9]:
        length = 1000 * seconds[part]
        start, end = (right, right + length) if length > 0 else (left + length, left)
        left, right = min(left, start), max(right, end)
        low, high = intervals.get(part, (math.nan, math.nan))
        interval = numbers.interval(low, high, blocks.milliseconds)
        tip = {"per step": f"{blocks.milliseconds(seconds[part])} ms", "95 % interval, ms": interval, "part": part}
        tip = {name: value.replace("-", "\N{MINUS SIGN}") for name, value in tip.items()}
        marks.append(Expected(panel, key or part, tip, [(start, None), (end, None)], near=(1e-3, 1e-3)))
    return marks


def of_curves(width: float) -> Figure:
    """Two measures of two series in two panels each, with a level line in each panel."""
    panels = [(measure, panel) for measure in ("time, ms", "rate") for panel in ("2 hosts", "4 hosts")]
    places = [(*panel, name, x) for panel in panels for name in ("amber_ring", "amber_single") for x in (10.0, 100.0)]
    marks = pd.DataFrame(places, columns=["measure", "panel", "series", "x"])
    marks["value"] = [3.0 + 1.7 * place for place in range(len(marks))]
    medians = marks.assign(low=0.9 * marks["value"], high=1.2 * marks["value"], n=6, oversubscribed=marks["x"] > 10)
    levels = pd.DataFrame(panels, columns=["measure", "panel"]).assign(value=[7.0, 8.0, 9.0, 10.0])
    launches = medians.assign(value=1.1 * medians["value"], launch="one")
    rows = {"medians": medians, "launches": launches, "levels": levels}
    looks = looks_of(["amber_ring", "amber_single"])

    def draw(rows: Rows) -> bytes:
        lines = []
        for row in rows["levels"].itertuples():
            about = {"measure": row.measure, "panel": row.panel, "key": "base", "tips": [{"level": row.value}]}
            lines.append(Line(**about, x=[10, 100], values=[row.value] * 2))
        ticks, marks = {10.0: "10", 100.0: "100"}, {kind: rows[kind] for kind in ("launches", "medians")}
        return curves(Plot(**marks, lines=lines, x_label="Mbit/s", ticks=ticks), looks, width)

    def expected(rows: Rows) -> list[Expected]:
        drawn = []
        for row in [*rows["medians"].to_dict("records"), *rows["launches"].to_dict("records")]:
            panel, x = f"{row['panel']}: {row['measure']}", row["x"] * 2 ** looks[row["series"]].shift
            tip = {"strategy": row["series"] + "†" * row["oversubscribed"], row["measure"]: blocks.number(row["value"])}
            tip |= {"Mbit/s": f"{row['x']:.0f}"}
            drawn.append(Expected(panel, row["series"], tip, [(x, row["value"])]))
            if "launch" not in row:
                tip |= {"95 % interval": numbers.interval(row["low"], row["high"], blocks.number), "launches (n)": "6"}
                drawn.append(Expected(panel, row["series"], tip, [(x, row["low"]), (x, row["high"])]))
        for row in rows["levels"].itertuples():
            ends = [(x, row.value) for x in (10, 100)]
            drawn.append(Expected(f"{row.panel}: {row.measure}", "base", {"level": str(row.value)}, ends))
        return drawn

    medians_changes = [("medians", column) for column in ("value", "low", "high")]
    return Figure(rows, draw, expected, [*medians_changes, ("launches", "value"), ("levels", "value")])


FIGURES = {"headline": of_headline, "curves": of_curves}
"""Those that stack, by their width."""

CASES = {
    f"{name}-{width:g}": partial(of, width) for name, of in FIGURES.items() for width in (style.WIDTH, style.NARROW)
}
CASES["steps"] = of_parts


@pytest.fixture(scope="module", params=CASES)
def figure(request) -> Figure:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def image(figure) -> bytes:
    return figure.draw(figure.rows)


def test_every_number_of_the_rows_is_a_mark_where_it_belongs_and_says_it(figure, image):
    assert missing(image, figure.expected(figure.rows)) == []


def test_nothing_is_a_mark_that_no_row_has(figure, image):
    expected = figure.expected(figure.rows)
    assert [mark for mark in read(image) if not any(each.is_drawn_as(mark) for each in expected)] == []


# Of both widths the narrow one, in which a hundredth of a point is more.
@pytest.mark.parametrize("figure", [case for case in CASES if not case.endswith(f"{style.WIDTH:g}")], indirect=True)
def test_a_number_that_is_off_by_one_per_cent_is_not_the_one_that_is_drawn(figure, image):
    drawn = figure.expected(figure.rows)
    for table, column in figure.changes:
        rows = figure.rows[table]
        for value in rows[column][rows[column].notna() & (rows[column] != 0)].unique():
            changed = rows.assign(**{column: rows[column].replace(value, 1.01 * value)})
            pairs = zip(figure.expected(figure.rows | {table: changed}), drawn, strict=True)
            assert missing(image, [each for each, before in pairs if each != before]), (table, column, value)
