"""Every mark of every figure, read back from its SVG, stands where its numbers are, and each row has its mark."""

import math
from collections import Counter
from collections.abc import Callable

import pytest

from common.observations.numbers import interval, percent, ratio
from reports.blocks import DAGGER, DASH, milliseconds, number, shortened
from tests.reports.pieces import Mark, marks_of, number_in


def measure_of(mark: Mark) -> str:
    return mark.panel.rpartition(": ")[2]


def numbers_of(mark: Mark) -> tuple[list[float], list[float]]:
    """The numbers that a mark says, and those at its places on the axis that has them."""
    is_bar, tip = mark.panel == "samples per second" or measure_of(mark) == "milliseconds per step", mark.tip
    places = [point[0 if is_bar else 1] for point in mark.points]
    if "part" in tip:
        return [abs(number_in(tip["per step"]))], [max(places) - min(places)]
    if "95 % interval" in tip and len(places) > 1 and min(places) > 0.5 * is_bar:
        return [number_in(end) for end in tip["95 % interval"].split(" to ")], [min(places), max(places)]
    # A number is called as the panel, or has a name of its own.
    own = {measure_of(mark), "samples/s", "samples/s, median", "measured step"}
    own |= {"the framework's own products and transport"}
    [said] = [text for name, text in tip.items() if name in own or name.endswith(" times its samples/s")]
    return [number_in(said)], [max(places)]


@pytest.mark.parametrize(
    "file", [*(f"{name}.svg" for name in ("headline", "scaling", "steps", "sweep")), "narrow-headline.svg"]
)
def test_every_mark_stands_where_its_numbers_are(whole, file):
    for mark in marks_of(whole.images[file]):
        said, places = numbers_of(mark)
        # Three digits are said; on a linear axis a place is read to a hundredth of a point.
        assert places == pytest.approx(said, rel=6e-3, abs=2e-3), mark
        if file == "headline.svg" and "strategy" in mark.tip:
            name = shortened(mark.tip["strategy"])
            assert all(y.startswith(name) for _, y in mark.points), mark
        for x_label in {"workers", "Mbit/s from host to host"} & mark.tip.keys():
            if file.endswith(("scaling.svg", "sweep.svg")):
                # A mark stands a little aside, so that it hides no other series.
                octaves = [math.log2(x / number_in(mark.tip[x_label])) for x, _ in mark.points]
                assert max(map(abs, octaves)) < 0.1, mark


def test_the_parts_of_a_step_begin_where_the_one_before_ends_and_those_that_save_time_stand_left_of_zero(whole):
    bars: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for mark in marks_of(whole.images["steps.svg"]):
        if "part" in mark.tip:
            ends = [x for x, _ in mark.points]
            assert (max(ends) <= 1e-3) == (number_in(mark.tip["per step"]) < 0), mark
            bars.setdefault((mark.panel, mark.tip["strategy"]), []).append((min(ends), max(ends)))
    assert any(start < 0 for bar in bars.values() for start, _ in bar)
    for bar in bars.values():
        starts, ends = zip(*sorted(bar), strict=True)
        assert starts[1:] == pytest.approx(ends[:-1], abs=2e-3)
        assert min(map(abs, (*starts, *ends))) < 2e-3


def said(whole, name: str, names: tuple[str, ...], is_meant: Callable[[Mark], bool] = lambda mark: True) -> Counter:
    """What the marks of a figure that have all of these names say by them, with the measure of their panel."""
    marks = [mark for mark in marks_of(whole.images[f"{name}.svg"]) if is_meant(mark)]
    return Counter(
        tuple(mark.tip[measure_of(mark) if each == "measure" else each] for each in names)
        for mark in marks
        if {*names} - {"measure"} <= mark.tip.keys()
    )


@pytest.mark.parametrize("name", ["scaling", "sweep"])
def test_every_launch_and_every_median_of_curves_is_a_mark_and_nothing_else_is(whole, name):
    plot = whole.drawings[f"{name}.svg"].args[0]
    launches = zip(plot.launches["launch"], plot.launches["value"].map(number), strict=True)
    assert said(whole, name, ("launch (n = 1)", "measure")) == Counter(launches)
    medians = [
        (f"{row.series}{DAGGER * row.oversubscribed}", interval(row.low, row.high, number), number(row.value))
        for row in plot.medians.itertuples()
    ]
    names = ("strategy", "95 % interval", "measure")
    assert said(whole, name, names, lambda mark: len(mark.points) == 1) == Counter(medians)
    certain = [row for row in medians if row[1] != DASH]
    assert said(whole, name, names, lambda mark: len(mark.points) == 2) == Counter(certain)


def test_every_launch_and_every_median_of_the_first_page_is_a_mark_and_nothing_else_is(whole):
    cells, launches, _ = whole.drawings["headline.svg"].args
    rates = launches["samples_per_second"].map("{:,.0f}".format)
    assert said(whole, "headline", ("launch (n = 1)", "samples/s")) == Counter(
        zip(launches["launch"], rates, strict=True)
    )
    medians = []
    for row in cells.itertuples():
        ends = [row.global_batch / each for each in (row.high_seconds, row.low_seconds)]
        facts = (f"{row.samples_per_second:,.0f}", interval(*ends, "{:,.0f}".format), ratio(row.speed_up))
        facts += (percent(row.efficiency), ratio(row.own_speed_up), milliseconds(row.seconds))
        # A bar, and the line of its interval where there is one.
        medians += [(row.strategy, *facts)] * (1 if math.isnan(row.low_seconds) else 2)
    names = ("strategy", "samples/s, median", "95 % interval", "speed-up", "efficiency", "over own 1", "ms per step")
    assert said(whole, "headline", names) == Counter(medians)


def test_every_part_of_a_step_is_a_mark_and_nothing_else_is(whole):
    rows = whole.drawings["steps.svg"].args[0]
    ideal = rows.drop_duplicates(["strategy", "workers"]).assign(part="ideal", seconds=lambda own: own["ideal_seconds"])
    parts = [
        (row.strategy, row.part, f"{milliseconds(row.seconds)} ms", interval(row.low, row.high, milliseconds))
        for each in (ideal.assign(low=math.nan), rows)
        for row in each[each["seconds"].abs() > 1e-12].itertuples()
    ]
    assert said(whole, "steps", ("strategy", "part", "per step", "95 % interval, ms")) == Counter(parts)
