"""Every mark of every figure, read back from its SVG, stands where its row says, and says its row's numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.observations import numbers
from reports import blocks
from reports.charts import deviation, speed, steps, style
from reports.charts.curves import Line, Plot, curves
from reports.tables import certificate, summaries
from reports.tables.results import Results
from tests.reports.charts.read_marks import Expected, missing, read
from tests.reports.drawings import looks_of
from tests.reports.materials import material_of
from tests.reports.records import SMOOTH, make_record, named, varied

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


@cache
def rows_of_speed() -> Rows:
    records = [make_record("amber_single", 1, (1.5 + place / 10,) * 3) for place in range(6)]
    for workers in (1, 4):
        records += [make_record("amber_ring", workers, (2.0 + place * workers / 10,) * 3) for place in range(6)]
    launches = summaries.launches(named(*records))
    return {"cells": summaries.cells(launches), "launches": launches}


def of_speed(
    draw: Callable[..., bytes], expected: Callable[[Rows], list[Expected]], columns: list[str], width: float
) -> Figure:
    looks = looks_of(["amber_single", "amber_ring"])
    return Figure(
        rows_of_speed(),
        lambda rows: draw(rows["cells"], rows["launches"], looks, width),
        expected,
        [("cells", column) for column in columns] + [("launches", "samples_per_second"), ("launches", "seconds")],
    )


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
    marks = []
    for cell in rows["cells"].to_dict("records"):
        panel, name, rate = blocks.workers(cell["workers"]), cell["strategy"], cell["samples_per_second"]
        low, high = cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]
        marks.append(Expected(panel, name, tip_of_median(cell), [(rate, None)]))
        marks.append(Expected(panel, name, tip_of_median(cell), [(low, None), (high, None)]))
        ideal = cell["workers"] * cell["base_samples_per_second"]
        marks.append(Expected(panel, "amber_single", {"base": "amber_single"}, [(ideal, None)]))
    for launch in rows["launches"].to_dict("records"):
        panel, rate = blocks.workers(launch["workers"]), launch["samples_per_second"]
        marks.append(Expected(panel, launch["strategy"], tip_of_launch(launch), [(rate, None)]))
    return marks


def of_losses(width: float) -> Figure:
    losses = [loss * (1 + 1e-7 * (step + 1)) for step, loss in enumerate(make_record(task=SMOOTH).losses)]
    records = named(make_record("amber_ring", task=SMOOTH, losses=losses, shard_losses=[losses]))
    comparisons = certificate.compare(Results(Path(), records, None))
    [comparison] = comparisons
    deviations = certificate.step_deviations(comparison)
    rows = pd.DataFrame({"loss": comparison.losses, "deviation": np.maximum(deviations, 1e-10)})

    def expected(rows: Rows) -> list[Expected]:
        tip = {
            "launch": comparison.launch,
            "largest deviation of a loss": blocks.tiny(rows["steps"]["deviation"].max()),
        }
        lines = {"loss, the mean": ("loss", 1e-3), "relative deviation": ("deviation", 0.0)}
        return [
            Expected(title, "amber_ring", tip, [*enumerate(rows["steps"][column])], near=(0.1, near))
            for title, (column, near) in lines.items()
        ]

    draw = lambda _: deviation.losses(comparisons, looks_of(["amber_ring"]), width)  # noqa: E731
    return Figure({"steps": rows}, draw, expected, [("steps", "deviation")])


def of_parts() -> Figure:
    records = [make_record("amber_single", 1, (2.0 + place / 20,) * 3) for place in range(6)]
    for workers in (1, 2):
        records += [make_record("amber_ring", workers, (4.0 + place / 10,) * 3) for place in range(6)]
    records += [varied("amber_ring", 2, (1.5 + place / 30,) * 3, exchange=False) for place in range(6)]
    table = material_of(*records).parts.assign(products_seconds=0.9e-3)

    def expected(rows: Rows) -> list[Expected]:
        marks = []
        for (workers, name), cell in rows["table"].groupby(["workers", "strategy"]):
            panel, step = blocks.workers(workers), cell.iloc[0]
            marks += parts_of(cell, panel, name)
            measured, products = 1000 * step["measured_seconds"], 1000 * step["products_seconds"]
            marks.append(Expected(panel, name, {"measured step": f"{blocks.number(measured)} ms"}, [(measured, None)]))
            triangle = {"the framework's products alone": f"{blocks.number(products)} ms"}
            marks.append(Expected(panel, name, triangle, [(products, None)]))
        return marks

    columns = ["seconds", "ideal_seconds", "measured_seconds", "products_seconds", "low", "high"]
    draw = lambda rows: steps.scaling(rows["table"])  # noqa: E731
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
        interval = blocks.DASH if math.isnan(low) else f"{numbers.interval(low, high, blocks.milliseconds)} ms"
        tip = {"per step": f"{blocks.milliseconds(seconds[part])} ms", "95 % interval": interval, "part": part}
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
    rows = {"medians": medians, "launches": marks.assign(value=1.1 * marks["value"], launch="one"), "levels": levels}
    rows = {kind: own.assign(tip=[{kind: str(place)} for place in own.index]) for kind, own in rows.items()}
    looks = looks_of(["amber_ring", "amber_single"])

    def draw(rows: Rows) -> bytes:
        lines = [
            Line(measure=row.measure, panel=row.panel, x=[10, 100], values=[row.value] * 2, key="base", tips=[row.tip])
            for row in rows["levels"].itertuples()
        ]
        ticks = {10.0: "10", 100.0: "100"}
        return curves(Plot(launches=rows["launches"], medians=rows["medians"], lines=lines, ticks=ticks), looks, width)

    def expected(rows: Rows) -> list[Expected]:
        drawn = []
        for row in pd.concat([rows["medians"], rows["launches"]]).to_dict("records"):
            panel, x = f"{row['panel']}: {row['measure']}", row["x"] * 2 ** looks[row["series"]].shift
            drawn.append(Expected(panel, row["series"], row["tip"], [(x, row["value"])]))
            if "medians" in row["tip"]:
                drawn.append(Expected(panel, row["series"], row["tip"], [(x, row["low"]), (x, row["high"])]))
        for row in rows["levels"].itertuples():
            ends = [(x, row.value) for x in (10, 100)]
            drawn.append(Expected(f"{row.panel}: {row.measure}", "base", row.tip, ends))
        return drawn

    changes = [
        ("medians", "value"),
        ("medians", "low"),
        ("medians", "high"),
        ("launches", "value"),
        ("levels", "value"),
    ]
    return Figure(rows, draw, expected, changes)


FIGURES = {
    "headline": partial(of_speed, speed.headline, rates, ["samples_per_second", "low_seconds", "high_seconds"]),
    "losses": of_losses,
    "curves": of_curves,
}
"""Those that stack, by their width."""

CASES = {
    f"{name}-{width:g}": partial(of, width) for name, of in FIGURES.items() for width in (style.WIDTH, style.NARROW)
}
CASES["scaling"] = of_parts


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
