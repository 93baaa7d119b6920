"""The figures of rates, speed-ups and steps: vectors, the same for the same input, with all that must be on them."""

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

import pandas as pd
import pytest

from common.records.training import Record
from reports.charts import bars, style
from reports.charts.curves import curves
from reports.tables import summaries
from reports.words import scaling
from tests.reports.charts.read_marks import read
from tests.reports.materials import material_of
from tests.reports.pieces import height_of, looks_of, words
from tests.reports.records import make_record, named, varied

COMMAS = re.compile(r"\d+,\d{3}")
USUAL = (
    make_record("amber_single"),
    *[make_record("amber_ring", 1), *(make_record("amber_ring", 2, (time,) * 3) for time in (2.0, 2.2, 2.4))],
    *[make_record("amber_ring", 4), make_record("cobalt_replicas", 2), varied("cobalt_replicas", 2, compiled=True)],
)
"""A base, several launches of a cell, more threads than cores, and a label."""


def drawn(*records: Record, draw: Callable[..., bytes] = bars.headline) -> bytes:
    launches = summaries.launches(named(*records))
    return draw(summaries.cells(launches), launches, looks_of(launches["strategy"].tolist()))


def scaled(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, style.Style], height: float = 195.0) -> bytes:
    return curves(scaling.plot(cells, launches, height), looks)


@pytest.fixture(scope="module")
def usual() -> bytes:
    return drawn(*USUAL)


def test_the_headline_is_svg_without_pixels_and_the_same_for_the_same_records(usual):
    assert b"<image" not in usual
    assert drawn(*USUAL) == usual


def test_a_world_is_marked_where_every_strategy_has_more_threads_than_cores():
    with_dagger = [word for word in words(drawn(*USUAL, draw=scaled)) if "\N{DAGGER}" in word]
    assert {*with_dagger} == {"4\N{DAGGER}", "\N{DAGGER} more threads than cores"}


def test_worlds_with_more_threads_than_cores_are_on_grey():
    known = [make_record("amber_single"), *(make_record("amber_ring", workers) for workers in (1, 2))]
    grey = style.GROUND.encode()
    assert grey not in drawn(*known, draw=scaled)
    # Face and edge in each strategy's panels, speed-up and efficiency.
    assert drawn(*known, make_record("amber_ring", 4), draw=scaled).count(grey) == 2 * 2 * 2


def test_each_strategy_has_a_panel_with_the_others_and_the_ideal_and_the_figure_is_as_high_as_asked():
    low, high = (drawn(*USUAL[:-2], draw=partial(scaled, height=height)) for height in (100.0, 160.0))
    assert {"amber_single", "amber_ring", "the others", "ideal: N times its base", "1", "2"} <= {*words(low)}
    panels = {f"{name}: {what}" for name in ("amber_single", "amber_ring") for what in ("speed-up", "efficiency")}
    assert {mark.panel for mark in read(low)} == panels
    assert height_of(high) - height_of(low) == pytest.approx(60 / 25.4 * 72, rel=0.02)


def test_the_headline_has_a_bar_for_each_world_with_the_number_of_its_median_and_a_line_for_each_base(usual):
    found = words(usual)
    assert {"amber_single, 1 worker", "amber_ring, 2 workers", "amber_ring", "4 times amber_single", "0"} <= {*found}
    # 64 rows in 2 ms are 32,000, 128 in 2 or 2.2 are 64,000 or 58,182, and 256 in 2 are 128,000.
    numbers = [word.rstrip("\N{DAGGER}") for word in found]
    assert Counter(filter(COMMAS.fullmatch, numbers)) == {"32,000": 2, "64,000": 2, "58,182": 1, "128,000": 1}
    assert {mark.tip["workers"] for mark in read(usual) if "workers" in mark.tip} == {"1", "2", "4†"}
    without_base = drawn(*(make_record("amber_ring", workers) for workers in (1, 2)))
    assert not [word for word in words(without_base) if "times" in word]


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    cells = summaries.cells(summaries.launches(named(*slow, *fast, alone)))
    assert scaling.in_order_of_speed(cells) == ["amber_library", "amber_ring", "amber_single"]


def test_a_name_that_looks_like_code_is_text_and_nothing_else():
    names = ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"]
    records = [make_record(name, workers, base="amber_single") for name in names for workers in (1, 2)]
    svg = drawn(make_record("amber_single"), *records, draw=scaled)
    for name in names:
        shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}").replace("\n", " ")
        assert shown in " ".join(words(svg))
        assert shown in {"\n".join(mark.keys) for mark in read(svg)}


def test_with_many_strategies_the_headline_grows_and_names_every_one(usual):
    names = [f"amber_{index:02d}" for index in range(16)]
    svg = drawn(*map(make_record, names))
    assert set(names) <= set(words(svg))
    assert height_of(svg) > height_of(usual)


# What steps consist of


def parts(*records: Record) -> pd.DataFrame:
    return material_of(*records).parts.assign(ceiling_seconds=math.nan)


@cache
def table() -> pd.DataFrame:
    """The steps of one strategy with 1, 2 and 4 workers, which are too many."""
    silent = varied("amber_00", 2, (3.0,) * 3, exchange=False)
    own = [make_record("amber_00", workers, (4.0,) * 3) for workers in (1, 2, 4)]
    return parts(make_record("amber_single", 1, (2.0,) * 3), *own, silent)


def with_two_workers(*milliseconds: float) -> str:
    """The figure of that step with two workers, as if so many strategies had it, each with so many milliseconds."""
    times, shown = ["ideal_seconds", "seconds", "measured_seconds"], []
    own = table()[table()["workers"] == 2]
    for index, each in enumerate(milliseconds):
        shown.append(own.assign(strategy=f"amber_{index:02d}", **own[times] * each / 4.0))
    return bars.steps(pd.concat(shown)).decode()


@cache
def of_all_worlds() -> str:
    return bars.steps(table().assign(ceiling_seconds=1e-3)).decode()


@cache
def plain() -> str:
    return with_two_workers(4.0)


@cache
def uneven() -> str:
    return with_two_workers(4.0, 4.0, 4.0, 8.0, 80.0)


def test_the_time_of_a_frameworks_own_operations_is_marked_where_a_probe_tells():
    assert "the framework's own products and transport" in words(of_all_worlds())
    assert "the framework's own products and transport" not in words(plain())


def test_a_step_is_drawn_in_its_parts_with_its_strategy_and_its_milliseconds():
    svg = plain()
    assert "<image" not in svg
    assert {"ideal", "computing", "exchange", "slowest rank", "the rest", "measured step"} <= set(words(svg))
    assert {"2 workers", "amber_00", "4.00 ms", "milliseconds per step"} <= set(words(svg))
    assert "not divided" not in words(svg)
    assert with_two_workers(4.0) == svg


def test_each_number_of_workers_has_a_panel_and_oversubscribed_bars_are_marked():
    assert [word for word in words(of_all_worlds()) if "worker" in word] == ["1 worker", "2 workers", "4 workers"]
    assert [word for word in words(of_all_worlds()) if "amber" in word] == ["amber_00", "amber_00", "amber_00†"]
    assert "opacity:0.4" in of_all_worlds()
    assert "opacity:0.4" not in plain()


def test_the_figure_of_the_parts_grows_with_its_bars_up_to_the_height_that_it_has():
    millimetre = style.MILLIMETRE * 72
    assert height_of(plain()) < height_of(uneven())
    lower = bars.steps(table().assign(ceiling_seconds=math.nan), most_height=9.0).decode()
    assert height_of(lower) == pytest.approx(height_of(of_all_worlds()) - 18 * millimetre, abs=5 * millimetre)


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    assert [word for word in words(uneven()) if word.startswith("8")][-2:] == ["8.00 ms", "80.0 ms »"]
