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
from reports.charts import deviation, speed, steps, style, sweep
from reports.tables import certificate, summaries
from reports.tables.results import Results
from tests.reports.charts.read_marks import Expected, missing, read
from tests.reports.drawings import drawing_of_sweep, looks_of
from tests.reports.materials import material_of
from tests.reports.records import SMOOTH, make_record, named, over_hosts, varied

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
        "speed-up": blocks.ratio(cell["speed_up"]),
        "efficiency": numbers.percent(cell["efficiency"]),
        "over own 1": blocks.ratio(cell["own_speed_up"]),
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


def small_panels(rows: Rows) -> list[Expected]:
    marks = []
    for row, tip in [(cell, tip_of_median(cell)) for cell in rows["cells"].to_dict("records")] + [
        (launch, tip_of_launch(launch)) for launch in rows["launches"].to_dict("records")
    ]:
        point = (row["workers"], row["samples_per_second"])
        marks.append(Expected(row["strategy"], row["strategy"], tip, [point]))
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


def of_residuals() -> Figure:
    pairs = [("one", [0.0, 0.1, 0.3]), ("two", [0.3, 0.0, 0.05])]
    table = pd.DataFrame(
        [{"strategy": name, "other": "base", "rounds": [1, 2, 4], "logs": logs} for name, logs in pairs]
    )
    percents = {name: 100 * np.expm1(np.array(logs) - np.mean(logs)) for name, logs in pairs}
    points = pd.DataFrame([{"pair": name, "percent": each} for name, own in percents.items() for each in own])

    def expected(rows: Rows) -> list[Expected]:
        marks = []
        for place, row in enumerate(rows["points"].to_dict("records")):
            key, counted = f"{row['pair']} over base", [1, 2, 4][place % 3]
            tip = {"round": str(counted), "off its mean": numbers.signed_percent(row["percent"] / 100, digits=2)}
            marks.append(Expected("ratio", key, tip, [(counted, row["percent"] / 100)], near=(0.02, 1e-4)))
        return marks

    draw = lambda _: deviation.residuals(table)  # noqa: E731
    return Figure({"points": points}, draw, expected, [("points", "percent")])


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
        interval = blocks.DASH if math.isnan(low) else f"{blocks.interval(low, high, blocks.milliseconds)} ms"
        tip = {"per step": f"{blocks.milliseconds(seconds[part])} ms", "95 % interval": interval, "part": part}
        tip = {name: value.replace("-", "\N{MINUS SIGN}") for name, value in tip.items()}
        marks.append(Expected(panel, key or part, tip, [(start, None), (end, None)], near=(1e-3, 1e-3)))
    return marks


@cache
def sweep_of_two_worlds() -> partial:
    records = [over_hosts("amber_single", 1, 1, (4.0,) * 3)]
    for hosts in (2, 4):
        for place, megabits in enumerate((10.0, 100.0, 1000.0), start=1):
            times = [(20 / place + hosts + number / 5,) * 3 for number in range(6)]
            records += [over_hosts(workers=hosts, hosts=hosts, milliseconds=time, megabits=megabits) for time in times]
    return drawing_of_sweep(*records)


def of_sweep(width: float) -> Figure:
    cells, points, looks = sweep_of_two_worlds().args

    def expected(rows: Rows) -> list[Expected]:
        marks = []
        aside = math.exp(0.5 * looks["amber_ring"].shift)
        for row in rows["cells"].to_dict("records") + rows["launches"].to_dict("records"):
            x = row["bandwidth_bits_per_second"] / 1e6 * aside
            values = {"ms per step": 1000 * row["seconds"], "samples per second": row["samples_per_second"]}
            tip = {"ms per step": blocks.milliseconds(row["seconds"]), "samples/s": f"{row['samples_per_second']:,.0f}"}
            if "launch" in row:
                tip["launch (n = 1)"] = row["launch"]
            else:
                interval = blocks.interval(row["low_seconds"], row["high_seconds"], blocks.milliseconds)
                tip |= {"95 % interval": f"{interval} ms", "times one host's": blocks.ratio(row["ratio"])}
                low, high, batch = row["low_seconds"], row["high_seconds"], row["global_batch"]
                ends = {"ms per step": (1000 * low, 1000 * high), "samples per second": (batch / high, batch / low)}
                marks += [
                    Expected(f"{row['hosts']} hosts: {title}", "amber_ring", tip, [(x, end) for end in own])
                    for title, own in ends.items()
                ]
                levels = zip(values, (1000 * row["base_seconds"], row["base_samples_per_second"]), strict=True)
                base = {"ms per step": blocks.milliseconds(row["base_seconds"])}
                marks += [
                    Expected(f"{row['hosts']} hosts: {title}", "amber_single", base, [(None, level)])
                    for title, level in levels
                ]
            marks += [
                Expected(f"{row['hosts']} hosts: {title}", "amber_ring", tip, [(x, value)])
                for title, value in values.items()
            ]
        return marks

    columns = ["seconds", "samples_per_second", "low_seconds", "high_seconds", "base_seconds"]
    changes = [("cells", column) for column in columns] + [("launches", "seconds"), ("launches", "samples_per_second")]
    drawn = lambda rows: sweep.sweep(rows["cells"], rows["launches"], looks, width)  # noqa: E731
    return Figure({"cells": cells, "launches": points}, drawn, expected, changes)


FIGURES = {
    "headline": partial(of_speed, speed.headline, rates, ["samples_per_second", "low_seconds", "high_seconds"]),
    "curves": partial(of_speed, speed.curves, small_panels, ["samples_per_second", "seconds"]),
    "losses": of_losses,
    "sweep": of_sweep,
}
"""Those that stack, by their width."""

CASES = {
    f"{name}-{width:g}": partial(of, width) for name, of in FIGURES.items() for width in (style.WIDTH, style.NARROW)
}
CASES |= {"residuals": of_residuals, "scaling": of_parts}


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
