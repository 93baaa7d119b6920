"""The figure of what steps consist of: bars of parts, in words what they come to, and what doesn't fit."""

import math

from common.records.training import Record
from reports.charts import steps
from reports.tables import decomposition
from tests.reports.drawings import height_of, words
from tests.reports.records import make_record, named, varied
from tests.reports.steps import cells_and_steps


def parts_of_steps(strategies: int = 1, workers: tuple[int, ...] = (2,), milliseconds: float = 4.0) -> str:
    records = [make_record("amber_single", 1, (2.0,) * 3)]
    for index in range(strategies):
        for count in workers:
            time = milliseconds if index == strategies - 1 else 4.0
            records.append(make_record(f"amber_{index:02d}", count, (time,) * 3))
            records.append(varied(f"amber_{index:02d}", count, (3.0,) * 3, exchange=False))
    return drawn_parts(*records)


def drawn_parts(*records: Record, products_seconds: float = math.nan) -> str:
    found = decomposition.parts(*cells_and_steps(named(*records)))
    return steps.scaling(found.assign(products_seconds=products_seconds)).decode()


def test_what_the_products_alone_take_is_marked_where_a_probe_tells():
    records = (make_record("amber_single"), make_record("amber_ring", 2))
    assert "the framework's products alone" in words(drawn_parts(*records, products_seconds=1e-3))
    assert "the framework's products alone" not in words(drawn_parts(*records))


def test_a_step_is_drawn_in_its_parts_with_its_strategy_and_its_milliseconds():
    svg = parts_of_steps()
    assert "<image" not in svg
    assert {"ideal", "computing", "exchange", "slowest rank", "the rest", "measured step"} <= set(words(svg))
    assert {"2 workers", "amber_00", "4.00 ms", "milliseconds per step"} <= set(words(svg))
    assert "not divided" not in words(svg)
    assert parts_of_steps() == svg


def test_each_number_of_workers_has_a_panel_and_oversubscribed_bars_are_marked():
    svg = parts_of_steps(2, (1, 2, 4))
    assert {"1 worker", "2 workers", "4 workers", "amber_00", "amber_00†"} <= set(words(svg))
    assert words(svg).count("amber_00") == 2
    assert "opacity:0.4" in svg
    assert "opacity:0.4" not in parts_of_steps(2, (1, 2))


def test_the_figure_of_the_parts_grows_with_its_bars_up_to_a_page():
    few, many, most = (height_of(parts_of_steps(count)) for count in (2, 12, 60))
    assert few < many < most < 250 / 25.4 * 72


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    assert "80.0 ms »" in words(parts_of_steps(4, milliseconds=80.0))
    assert "8.00 ms" in words(parts_of_steps(4, milliseconds=8.0))


def test_a_part_below_zero_stands_left_of_zero():
    # The strategy computes 1.5 ms faster than its base.
    records = [make_record("amber_single", 1, (3.0,) * 3), make_record("amber_ring", 2, (2.5,) * 3)]
    svg = drawn_parts(*records, varied("amber_ring", 2, (1.5,) * 3, exchange=False))
    assert "\N{MINUS SIGN}1" in " ".join(words(svg))
