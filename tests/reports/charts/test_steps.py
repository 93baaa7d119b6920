"""The figure of what steps consist of: bars of parts, in words what they come to, and what doesn't fit."""

import math
from functools import cache

import pandas as pd
import pytest

from common.records.training import Record
from reports.charts import steps, style
from tests.reports.drawings import height_of, words
from tests.reports.materials import material_of
from tests.reports.records import make_record, varied


def parts(*records: Record) -> pd.DataFrame:
    return material_of(*records).parts.assign(products_seconds=math.nan)


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
    return steps.scaling(table().assign(products_seconds=1e-3)).decode()


@cache
def plain() -> str:
    return with_two_workers(4.0)


@cache
def uneven() -> str:
    return with_two_workers(4.0, 4.0, 4.0, 8.0, 80.0)


def test_what_the_products_alone_take_is_marked_where_a_probe_tells():
    assert "the framework's products alone" in words(usual())
    assert "the framework's products alone" not in words(plain())


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


def test_the_figure_of_the_parts_grows_with_its_bars_up_to_a_page(monkeypatch):
    most, millimetre = steps._MOST_BARS_HEIGHT, style.MILLIMETRE * 72
    monkeypatch.setattr(steps, "_MOST_BARS_HEIGHT", 30.0)
    low, middle, high = (height_of(svg) for svg in (plain(), uneven(), with_two_workers(*[4.0] * 12)))
    assert low < middle < high
    assert (high - low) / millimetre == pytest.approx(30 - 4.4, abs=0.1)
    assert high / millimetre - 30 + most < 250


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    assert [word for word in words(uneven()) if word.startswith("8")][-2:] == ["8.00 ms", "80.0 ms »"]
