"""common/records/metrics.py: numbers from records, against values worked out by hand."""

import math
from pathlib import Path

import pytest

from common.records import metrics
from tests.reports.records import make_record, task_of, unfinished


def window(rank, step, steps, seconds):
    return {"rank": rank, "step": step, "steps": steps, "seconds": seconds}


def test_the_slowest_rank_sets_the_cost_of_each_window_and_the_median_window_the_throughput():
    windows = [window(0, 10, 5, 1.0), window(0, 15, 5, 4.0), window(1, 10, 5, 1.5), window(1, 15, 5, 0.5)]
    record = make_record(windows=windows, examples_per_step=64)
    assert metrics.window_seconds_per_step(record) == [0.3, 0.8]
    launch = metrics.throughput(record)
    assert launch.seconds_per_step == pytest.approx(0.55)
    assert launch.samples_per_second == pytest.approx(64 / 0.55)
    assert launch.windows == 2
    windows = [window(0, step, 1, seconds) for step, seconds in ((3, 100.0), (2, 0.2), (1, 0.1))]
    assert metrics.window_seconds_per_step(make_record(windows=windows)) == [0.1, 0.2, 100.0]
    assert metrics.throughput(make_record(windows=windows)).samples_per_second == pytest.approx(320)
    with pytest.raises(ValueError, match="amber_ring has no windows: it is failed"):
        metrics.throughput(unfinished("failed", "It crashed."))


def saving_cost(steps, every=50):
    """That of windows of 20 ms that begin with these steps, 1 ms after one another, 5 ms where one is saved."""
    # Rank 1 waits for rank 0, and tells nothing; nor does a window of an older record.
    windows, end = [window(1, 50, 10, 0.02) | {"started_seconds": 9.0}, window(0, 200, 10, 0.02)], 2.0
    for step in steps:
        start = end + (0.005 if step % 50 == 0 else 0.001)
        windows.append(window(0, step, 10, 0.02) | {"started_seconds": start})
        end = start + 0.02
    task = task_of(2, checkpoint_steps=every, checkpoint=Path("weights"))
    return metrics.saving_cost(make_record(windows=windows, task=task))


def test_a_checkpoint_costs_how_much_longer_training_stands_still_for_it():
    seconds, share = saving_cost(range(20, 120, 10))
    assert seconds == pytest.approx(0.004)
    assert share == pytest.approx(2 * 0.004 / (10 * 0.02 + 7 * 0.001 + 2 * 0.005))
    # Nothing is saved between the first ones, nothing else is clocked between the others.
    assert [saving_cost(steps) for steps in ((20, 30, 40), (40, 50), ())] == [None] * 3
    assert saving_cost((40, 50, 60), every=0) is None


def test_workers_pay_from_the_rows_on_at_which_they_are_as_fast_as_the_base():
    # With 128 rows each, the base takes 4 ms, and four workers take 1.5 times that and 10 ms, for four times the rows.
    assert metrics.fewest_batch(64, 4, 0.002, 1.5, 0.01) == pytest.approx(128)
    assert metrics.fewest_batch(64, 4, 0.002, 1.5, -0.01) == 0.0
    # Workers that slow each other down by their number or more never pay.
    assert metrics.fewest_batch(64, 4, 0.002, 4.0, 0.01) == math.inf
    assert math.isnan(metrics.fewest_batch(64, 4, 0.002, math.nan, 0.01))
    assert math.isnan(metrics.fewest_batch(64, 4, 0.002, 1.5, math.nan))


def test_a_hosts_link_carries_the_rings_share_of_the_gradients_in_full_segments():
    # 2 x 3 / 4 of 1448 bytes, each segment of which takes 1514 on the wire.
    assert metrics.ring_bound(1448, 4, 1e6) == pytest.approx(1.5 * 1514 * 8 / 1e6)
