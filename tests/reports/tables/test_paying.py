"""When synchronous SGD pays, against times, ratios and batches worked out by hand."""

import math

import pandas as pd
import pytest

from common.records.training import Record
from reports.tables import paying, summaries
from tests.reports.records import named, over_hosts
from tests.reports.steps import base, cells_and_steps, launch, rounds


def table(*records: Record, plan: pd.DataFrame | None = None) -> list[paying.Paying]:
    stems = named(*records)
    launches = summaries.launches(stems)
    cells, steps = cells_and_steps(stems, plan)
    return paying.table(launches, cells, steps, stems)


def test_the_columns_are_those_worked_out_by_hand():
    # One worker computes for 2 ms; two compute for 3 ms each beside one another, and take 4 ms with their exchange.
    [row] = table(base(2.0), launch(4.0), launch(3.0, exchange=False))
    assert (row.batch, row.workers) == (64, 2)
    assert (row.ratio.median, row.contention.median, row.sync_share) == pytest.approx((1.0, 1.5, 1 / 3))
    assert row.sync.median == pytest.approx(0.001)
    # 2 B* / (3 B* / 64 + 1) = B* / (2 B* / 64), so B* = 64.
    assert row.fewest_batch == pytest.approx(64)


def test_the_ratio_is_of_launches_of_the_same_round_with_its_interval():
    [row] = table(*rounds(2.0, 3.2, 2.4))
    assert (row.ratio.median, row.ratio.low, row.ratio.high, row.ratio.n) == pytest.approx((1.25, 1.25, 1.25, 6))
    assert (row.contention.median, row.contention.low, row.contention.high) == pytest.approx((1.2, 1.2, 1.2))
    assert (row.measured, row.formula, row.with_contention) == ("surely pays", "pays", "pays")
    # T_sync grows with the round: 0.8 ms and up to 9 % more.
    assert (row.sync.low, row.sync.high) == pytest.approx((0.0008, 0.0008 * 1.09))


def test_an_interval_that_reaches_one_can_not_tell():
    times = (3.2, 3.6, 3.9, 4.2, 4.5, 4.9)
    [row] = table(*(each for time in times for each in (base(2.0), launch(time))))
    assert row.ratio.low < 1 < row.ratio.high
    assert row.measured == "can't tell"


def test_rounds_are_those_of_the_plan():
    records = [base(2.0), base(8.0), launch(10.0), launch(2.5), launch(2.2, exchange=False)]
    plan = pd.DataFrame({"launch": list(named(*records)), "repetition": [1, 2, 2, 1, 3]})
    [row] = table(*records, plan=plan)
    assert (row.ratio.median, row.ratio.n) == pytest.approx((1.6, 2))
    # The launch without exchange is of another round.
    assert (row.sync, row.contention, row.formula) == (None, None, "")
    [row] = table(*records, plan=plan.assign(repetition=[1, 2, 3, 4, 4]))
    assert (row.ratio, row.measured, row.formula) == (None, "no shared round", "pays")
    assert row.with_contention == ""


def test_asynchronous_workers_have_no_row():
    cobalt = [launch(2.0, "cobalt_single", 1), launch(3.0, "cobalt_servers"), launch(3.0, "cobalt_replicas")]
    assert [row.strategy for row in table(*cobalt)] == ["cobalt_replicas"]
    together = launch(3.0, "cobalt_servers", updates="together")
    assert [row.strategy for row in table(cobalt[0], together)] == ["cobalt_servers, together updates"]


def test_the_base_may_be_of_strong_scaling_where_it_was_measured_in_that_alone():
    [row] = table(base(2.0, strong=True), launch(3.2))
    assert row.ratio.median == pytest.approx(1.25)


def test_workers_on_several_hosts_are_a_row_with_their_placement():
    [row] = table(over_hosts("amber_single", 1, 1), over_hosts(milliseconds=(3.0,) * 4))
    assert row.strategy == "amber_ring, 2 hosts, 100 Mbit/s"


@pytest.mark.parametrize(
    ("contention", "sync", "expected"),
    [
        (1.0, 0.002, 64.0),  # 2 ms over 2 ms (2 - 1).
        (1.5, 0.001, 64.0),
        (1.9, 0.002, 640.0),
        (1.0, -0.0001, 0.0),
        (2.0, 0.001, math.inf),
        (2.5, -0.001, math.inf),
    ],
)
def test_the_smallest_batch_is_that_of_equal_rates(contention, sync, expected):
    assert paying.fewest_batch(64, 2, 0.002, contention, sync) == pytest.approx(expected)


@pytest.mark.parametrize("batch", [80.0, 1_234.0])
def test_at_the_smallest_batch_both_rates_are_equal(batch):
    found = paying.fewest_batch(64, 4, 0.002, 2.2, 0.002 * (4 - 2.2) * batch / 64)
    grown = found / 64
    sync = 0.002 * (4 - 2.2) * batch / 64
    assert 4 * found / (2.2 * 0.002 * grown + sync) == pytest.approx(found / (0.002 * grown))
