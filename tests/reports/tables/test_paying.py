"""When synchronous SGD pays, against times, ratios and batches worked out by hand."""

import math

import pandas as pd
import pytest

from common.records.training import Record
from tests.reports.materials import material_of
from tests.reports.steps import base, launch, rounds


def table(*records: Record, plan: pd.DataFrame | None = None) -> list:
    """The rows of the table."""
    return [*material_of(*records, plan=plan).paying.itertuples()]


def verdicts(*records: Record) -> list[str]:
    """What was measured, what the formula says, and what it says with contention."""
    [row] = table(*records)
    return [row.verdict, row.by_formula, row.with_contention]


def same(*of_round: Record) -> list[Record]:
    """Six equal rounds."""
    return [each for _ in range(6) for each in of_round]


def test_the_columns_are_those_worked_out_by_hand():
    # One worker computes for 2 ms; two compute for 3 ms each beside one another, and take 4 ms with their exchange.
    [row] = table(base(2.0), launch(4.0), launch(3.0, exchange=False))
    assert (row.batch, row.workers) == (64, 2)
    assert (row.ratio, row.contention, row.sync_share) == pytest.approx((1.0, 1.5, 1 / 3))
    assert row.sync_seconds == pytest.approx(0.001)
    # 2 B* / (3 B* / 64 + 1) = B* / (2 B* / 64), so B* = 64.
    assert row.fewest_batch == pytest.approx(64)


def test_the_ratio_is_of_launches_of_the_same_round_with_its_interval():
    [row] = table(*rounds(2.0, 3.2, 2.4))
    assert (row.ratio, row.ratio_low, row.ratio_high, row.ratio_n) == pytest.approx((1.25, 1.25, 1.25, 6))
    assert (row.contention, row.contention_low, row.contention_high) == pytest.approx((1.2, 1.2, 1.2))
    assert (row.verdict, row.by_formula, row.with_contention) == ("surely pays", "pays", "pays")
    # T_sync grows with the round: 0.8 ms and up to 9 % more.
    assert (row.sync_seconds_low, row.sync_seconds_high) == pytest.approx((0.0008, 0.0008 * 1.09))


def test_where_contention_explains_why_it_does_not_pay_only_the_formula_without_it_is_wrong():
    # 1.0 / 3.2 is less than 1, but two workers take 4.2 ms for what the base does in 4 ms.
    records = same(*rounds(2.0, 4.2, 3.2, n=1))
    assert verdicts(*records) == ["surely doesn't", "pays", "doesn't pay"]
    [row] = table(*records)
    # 64 rows times 1 ms over 2 ms (2 - 1.6).
    assert (row.contention, row.fewest_batch) == (pytest.approx(1.6), pytest.approx(80))


def test_a_strategy_that_computes_faster_than_its_base_may_pay_against_the_formula():
    # 1.6 / 1.5 is more than 1, but 3.1 ms are less than twice 2 ms.
    records = same(*rounds(2.0, 3.1, 1.5, n=1))
    assert verdicts(*records) == ["surely pays", "doesn't pay", "pays"]
    assert table(*records)[0].sync_share == pytest.approx(1.6 / 1.5)


def test_where_contention_is_more_than_the_workers_no_batch_pays():
    assert [row.fewest_batch for row in table(*same(*rounds(2.0, 9.4, 5.0, n=1)))] == [math.inf]


@pytest.mark.parametrize(
    "records",
    [
        (),
        (base(2.0), launch(2.5, workers=1)),
        (base(2.0, strong=True), launch(1.5, strong=True)),
        (launch(3.0), launch(2.5, exchange=False)),
        (base(2.0), launch(3.0, "amber_parts")),
    ],
    ids=["nothing", "one worker", "strong scaling", "no base", "parts of one model"],
)
def test_what_the_formula_is_not_about_has_no_row(records):
    assert table(*records) == []


def test_asynchronous_workers_have_no_row():
    cobalt = [launch(2.0, "cobalt_single", 1), launch(3.0, "cobalt_servers"), launch(3.0, "cobalt_replicas")]
    assert [row.strategy for row in table(*cobalt)] == ["cobalt_replicas"]
    together = launch(3.0, "cobalt_servers", updates="together")
    assert [row.strategy for row in table(cobalt[0], together)] == ["cobalt_servers, together updates"]
