"""The figure of what steps consist of: bars of parts, in words what they come to, and what doesn't fit."""

import math
from functools import cache

import pandas as pd
import pytest

from common.records.training import Record
from reports.charts import steps, style
from tests.reports.materials import material_of
from tests.reports.pieces import height_of, words
from tests.reports.records import make_record, varied


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
    times, bars = ["ideal_seconds", "seconds", "measured_seconds"], []
    own = table()[table()["workers"] == 2]
    for index, each in enumerate(milliseconds):
        bars.append(own.assign(strategy=f"amber_{index:02d}", **own[times] * each / 4.0))
    return steps.scaling(pd.concat(bars)).decode()


@cache
def usual() -> str:
    return steps.scaling(table().assign(ceiling_seconds=1e-3)).decode()


@cache
def plain() -> str:
    return with_two_workers(4.0)


@cache
def uneven() -> str:
    return with_two_workers(4.0, 4.0, 4.0, 8.0, 80.0)


def test_the_time_of_a_frameworks_own_operations_is_marked_where_a_probe_tells():
    assert "the framework's own products and transport" in words(usual())
    assert "the framework's own products and transport" not in words(plain())


def test_a_step_is_drawn_in_its_parts_with_its_strategy_and_its_milliseconds():
    svg = plain()
    assert "<image" not in svg
    assert {"ideal", "computing", "exchange", "slowest rank", "the rest", "measured step"} <= set(words(svg))
    assert {"2 workers", "amber_00", "4.00 ms", "milliseconds per step"} <= set(words(svg))
    assert "not divided" not in words(svg)
    assert with_two_workers(4.0) == svg


def test_each_number_of_workers_has_a_panel_and_oversubscribed_bars_are_marked():
    assert [word for word in words(usual()) if "worker" in word] == ["1 worker", "2 workers", "4 workers"]
    assert [word for word in words(usual()) if "amber" in word] == ["amber_00", "amber_00", "amber_00†"]
    assert "opacity:0.4" in usual()
    assert "opacity:0.4" not in plain()


def test_the_figure_of_the_parts_grows_with_its_bars_up_to_the_height_that_it_has():
    millimetre = style.MILLIMETRE * 72
    assert height_of(plain()) < height_of(uneven())
    lower = steps.scaling(table().assign(ceiling_seconds=math.nan), most_height=9.0).decode()
    assert height_of(lower) == pytest.approx(height_of(usual()) - 18 * millimetre, abs=5 * millimetre)


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    assert [word for word in words(uneven()) if word.startswith("8")][-2:] == ["8.00 ms", "80.0 ms »"]
