"""Every mark of every figure, read back from its SVG, stands where its row says, and says its row's numbers."""

import math
from collections.abc import Mapping

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

Figure = tuple[bytes, list[Expected]]
"""A figure, and its marks as the rows have them that it is drawn from."""

LOOKS = looks_of(["amber_ring", "amber_single"])


def headline(width: float) -> Figure:
    """The rate of each strategy, of launches and of medians, and the ideal of each base."""
    records = [make_record("amber_single", 1, (1.5 + place / 10,) * 3) for place in range(6)]
    for workers in (1, 4):
        records += [make_record("amber_ring", workers, (2.0 + place * workers / 10,) * 3) for place in range(6)]
    launches = summaries.launches(named(*records))
    cells = summaries.cells(launches)
    marks = [mark for cell in cells.to_dict("records") for mark in marks_of_a_rate(cell)]
    for launch in launches.to_dict("records"):
        tip = {"samples/s": f"{launch['samples_per_second']:,.0f}", "launch (n = 1)": launch["launch"]}
        tip["ms per step"] = blocks.milliseconds(launch["seconds"])
        marks.append(Expected(RATE, launch["strategy"], tip, [(launch["samples_per_second"], None)]))
    return bars.headline(cells, launches, LOOKS, width), marks


RATE = "samples per second"


def marks_of_a_rate(cell: Mapping[str, object]) -> list[Expected]:
    """The bar of a median, its interval, and the line of four times its base's rate."""
    name, rate = cell["strategy"], cell["samples_per_second"]
    low, high = cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]
    tip = {
        "samples/s, median": f"{rate:,.0f}",
        "95 % interval": f"{low:,.0f} to {high:,.0f}",
        "ms per step": blocks.milliseconds(cell["seconds"]),
        "speed-up": numbers.ratio(cell["speed_up"]),
        "efficiency": numbers.percent(cell["efficiency"]),
        "over own 1": numbers.ratio(cell["own_speed_up"]),
        "launches (n)": str(cell["n"]),
    }
    return [
        Expected(RATE, name, tip, [(0.0, None), (rate, None)], near=(50.0, 1.0)),
        Expected(RATE, name, tip, [(low, None), (high, None)]),
        Expected(RATE, "amber_single", {"base": "amber_single"}, [(4 * cell["base_samples_per_second"], None)]),
    ]


def steps() -> Figure:
    """The parts of the steps of one and two workers, of which computing saves time."""
    records = [make_record("amber_single", 1, (2.0 + place / 20,) * 3) for place in range(6)]
    for workers in (1, 2):
        records += [make_record("amber_ring", workers, (4.0 + place / 10,) * 3) for place in range(6)]
    records += [varied("amber_ring", 2, (1.5 + place / 30,) * 3, exchange=False) for place in range(6)]
    table = material_of(*records).parts.assign(ceiling_seconds=0.9e-3)
    marks = []
    for (workers, name), cell in table.groupby(["workers", "strategy"]):
        panel, measured = blocks.workers(workers), 1000 * cell["measured_seconds"].iloc[0]
        marks += parts_of(cell, panel, name)
        marks.append(Expected(panel, name, {"measured step": f"{blocks.number(measured)} ms"}, [(measured, None)]))
        triangle = {"the framework's own products and transport": "0.900 ms"}
        marks.append(Expected(panel, name, triangle, [(0.9, None)]))
    return bars.steps(table), marks


def parts_of(cell: pd.DataFrame, panel: str, key: str) -> list[Expected]:
    """The bar of a step: each part begins where the one before it ends, on its side of zero."""
    ideal = {"part": "ideal", "seconds": cell["ideal_seconds"].iloc[0], "low": math.nan, "high": math.nan}
    rows = {row["part"]: row for row in [ideal, *cell.to_dict("records")] if abs(row["seconds"]) > 1e-9}
    marks, left, right = [], 0.0, 0.0
    for part in [part for part in style.PARTS if part in rows]:
        length = 1000 * rows[part]["seconds"]
        start, end = (right, right + length) if length > 0 else (left + length, left)
        left, right = min(left, start), max(right, end)
        interval = numbers.interval(rows[part]["low"], rows[part]["high"], blocks.milliseconds)
        tip = {"per step": f"{blocks.number(length)} ms", "95 % interval, ms": interval, "part": part}
        tip = {name: value.replace("-", "\N{MINUS SIGN}") for name, value in tip.items()}
        marks.append(Expected(panel, key, tip, [(start, None), (end, None)], near=(1e-3, 1e-3)))
    return marks


def panels(width: float) -> Figure:
    """Two measures of two series in two panels each, with a level line in each panel."""
    places = [(measure, panel) for measure in ("time, ms", "rate") for panel in ("2 hosts", "4 hosts")]
    marks = pd.DataFrame(
        [(*place, name, x) for place in places for name in LOOKS for x in (10.0, 100.0)],
        columns=["measure", "panel", "series", "x"],
    )
    marks["value"] = [3.0 + 1.7 * place for place in range(len(marks))]
    medians = marks.assign(low=0.9 * marks["value"], high=1.2 * marks["value"], n=6, oversubscribed=marks["x"] > 10)
    launches = medians.assign(value=1.1 * medians["value"], launch="one")
    lines, expected = [], []
    for level, (measure, panel) in enumerate(places, start=7):
        about = {"measure": measure, "panel": panel, "key": "base", "tips": [{"level": level}]}
        lines.append(Line(**about, x=[10, 100], values=[level] * 2))
        ends = [(x, level) for x in (10, 100)]
        expected.append(Expected(f"{panel}: {measure}", "base", {"level": str(level)}, ends))
    for row in [*medians.to_dict("records"), *launches.to_dict("records")]:
        panel, x = f"{row['panel']}: {row['measure']}", row["x"] * 2 ** LOOKS[row["series"]].shift
        tip = {"strategy": row["series"] + "†" * row["oversubscribed"], row["measure"]: blocks.number(row["value"])}
        tip |= {"Mbit/s": f"{row['x']:.0f}"}
        expected.append(Expected(panel, row["series"], tip, [(x, row["value"])]))
        if "launch" not in row:
            tip |= {"95 % interval": numbers.interval(row["low"], row["high"], blocks.number), "launches (n)": "6"}
            expected.append(Expected(panel, row["series"], tip, [(x, row["low"]), (x, row["high"])]))
    ticks = {10.0: "10", 100.0: "100"}
    plot = Plot(launches=launches, medians=medians, lines=lines, x_label="Mbit/s", ticks=ticks)
    return curves(plot, LOOKS, width), expected


CASES = {
    "headline": lambda: headline(style.WIDTH),
    "headline on a narrow page": lambda: headline(style.NARROW),
    "steps": steps,
    "curves": lambda: panels(style.WIDTH),
    "curves on a narrow page": lambda: panels(style.NARROW),
}


@pytest.mark.parametrize("case", CASES)
def test_every_number_of_the_rows_is_a_mark_where_it_belongs_and_nothing_else_is(case):
    image, expected = CASES[case]()
    assert missing(image, expected) == []
    assert [mark for mark in read(image) if not any(each.is_drawn_as(mark) for each in expected)] == []
