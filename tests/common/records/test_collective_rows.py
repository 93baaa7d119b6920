"""common/records/collective_rows.py: numbers that were worked out by hand from made-up records."""

import math

import pytest

from common.declarations.sweep import Sweep
from common.records.collective_rows import comparisons, fits, missing, rows
from common.records.collectives import Cell, CollectivesRecord
from common.records.files import from_json
from tests.changes import changed

HOSTS = [
    {"name": "one", "workers": 1, "clock_offset_seconds": 0.0, "clock_uncertainty_seconds": 1e-6},
    {"name": "two", "workers": 1, "clock_offset_seconds": 3600.0, "clock_uncertainty_seconds": 2e-6},
]


def cell(size_bytes=1024, calls=((0.0, 1.0),), late=0.0, ranks=2, **changes):
    """A good cell: of each call when the first rank began it and when all had it; the others began `late` after."""
    values = {
        "collective": "all_reduce",
        "size_bytes": size_bytes,
        "status": "ok",
        "entered_seconds": [[entered + (late if rank else 0.0) for entered, _ in calls] for rank in range(ranks)],
        "left_seconds": [[left for _, left in calls] for _ in range(ranks)],
        "counted_calls": 10,
        "sent_bytes": 3000.0,
        "processor_seconds": 0.5,
        "formula_bytes": 2048.0,
        "algorithm": "ring",
        "formula": "2 (N - 1) S",
        "source": "a paper",
    }
    return Cell(**values | changes)


def taking(seconds, size_bytes=1024, **changes):
    """A good cell whose only call took so long."""
    return cell(size_bytes, [(0.0, seconds)], **changes)


def record(*cells, library="fast", repetition=1, workers=2, **changes):
    values = {
        "library": library,
        "title": library.capitalize(),
        "family": "NumPy",
        "colors": ["#111111"],
        "status": "ok",
        "repetition": repetition,
        "sweep": Sweep(workers=workers),
        "world_size": workers,
        "threads_per_worker": 1,
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "cells": list(cells),
    }
    return from_json(values | changes, CollectivesRecord)


def named(*records):
    return {f"{place:02d}": each for place, each in enumerate(records)}


def launches(times, library="fast", **changes):
    """A launch for each time of the same cell."""
    return [record(taking(time), library=library, repetition=place, **changes) for place, time in enumerate(times, 1)]


def test_a_launch_is_the_median_of_its_calls_from_the_last_arrival_to_the_last_result():
    calls = [(0.0, 3.0), (10.0, 17.0), (20.0, 24.0)]
    # The second rank begins half a second later: 2.5, 6.5 and 3.5 s pass from then on.
    [row] = rows(named(record(cell(calls=calls, late=0.5))))
    assert row.launch_seconds == (3.5,)
    assert row.arrival_seconds == 0.5
    assert row.arrival_unknown_below_seconds == 0.0


def test_a_row_is_the_median_over_the_launches_with_its_interval():
    [row] = rows(named(*launches([5.0, 1.0, 3.0, 2.0, 6.0, 4.0])))
    assert row.repetitions == (1, 2, 3, 4, 5, 6)
    assert row.launch_seconds == (5.0, 1.0, 3.0, 2.0, 6.0, 4.0)
    assert (row.seconds.n, row.seconds.median, row.seconds.low, row.seconds.high) == (6, 3.5, 1.0, 6.0)
    [few] = rows(named(*launches([5.0, 1.0, 3.0])))
    assert (few.seconds.n, few.seconds.median, few.seconds.low, few.seconds.high) == (3, 3.0, None, None)


def test_many_calls_of_one_launch_weigh_no_more_than_few_of_another():
    many = record(cell(calls=[(place, place + 0.25) for place in range(99)]), repetition=1)
    [row] = rows(named(many, record(taking(0.75), repetition=2)))
    assert row.seconds.median == 0.5


@pytest.mark.parametrize(
    ("collective", "workers", "factor"),
    [("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("broadcast", 4, 1.0), ("all_reduce", 2, 1.0)],
)
def test_bandwidths_are_those_of_nccl_tests(collective, workers, factor):
    [row] = rows(named(record(taking(0.5, 4096, collective=collective, ranks=workers), workers=workers)))
    assert row.algorithm_bytes_per_second == 8192
    assert row.bus_bytes_per_second == factor * 8192
    assert row.factor_bytes_per_rank == factor * 4096


def test_bytes_are_those_of_one_rank_and_processor_time_is_that_of_one_byte():
    cells = [
        taking(1.0, 1024, ranks=4, sent_bytes=sent, processor_seconds=time) for sent, time in ((4000, 2.0), (8000, 4.0))
    ]
    own = [record(each, workers=4, repetition=place) for place, each in enumerate(cells, 1)]
    [row] = rows(named(*own))
    assert row.sent_bytes_per_rank == 1500
    assert row.formula_bytes_per_rank == 512
    assert row.processor_seconds_per_byte == 3.0 / 1024
    assert (row.algorithm, row.formula, row.source) == ("ring", "2 (N - 1) S", "a paper")


def test_what_was_not_measured_is_unknown_and_not_zero():
    unknown = {"sent_bytes": None, "formula_bytes": None, "processor_seconds": None}
    [row] = rows(named(record(taking(1.0, **unknown))))
    assert row.sent_bytes_per_rank is row.formula_bytes_per_rank is row.processor_seconds_per_byte is None
    # A launch that knows it speaks for those that don't.
    [row] = rows(named(record(taking(1.0, **unknown)), record(taking(1.0), repetition=2)))
    assert row.sent_bytes_per_rank == 1500


def test_a_barrier_has_a_time_and_no_bandwidth():
    [row] = rows(named(record(taking(1.0, 0, collective="barrier"))))
    assert row.seconds.median == 1.0
    assert row.algorithm_bytes_per_second is row.bus_bytes_per_second is row.processor_seconds_per_byte is None


def test_what_differs_in_anything_but_the_launch_is_a_row_of_its_own():
    doubled = Sweep(data_type="float64")
    one_after_the_other = Sweep(pipelined=True)
    link = {"virtual": {"bandwidth_bits_per_second": 1e8, "delay_seconds": 0.005}}
    found = rows(
        named(
            record(taking(1.0), taking(1.0, 4096), taking(1.0, collective="broadcast")),
            record(taking(1.0), library="slow"),
            record(taking(1.0, ranks=4), workers=4),
            record(taking(1.0), device="a GPU"),
            record(taking(1.0), sweep=doubled),
            record(taking(1.0), sweep=one_after_the_other),
            record(taking(1.0), hosts=HOSTS),
            record(taking(1.0), hosts=HOSTS, **link),
        )
    )
    assert [row.seconds.n for row in found] == [1] * 10
    assert [row.case.placement for row in found[-2:]] == ["2 hosts", "2 hosts, 100 Mbit/s, 5 ms delay"]
    assert {row.case.hosts for row in found} == {1, 2}


def test_sizes_are_never_put_together():
    [small, large] = rows(named(record(taking(1.0, 8), taking(9.0, 4096))))
    assert (small.size_bytes, small.seconds.median) == (8, 1.0)
    assert (large.size_bytes, large.seconds.median) == (4096, 9.0)


def test_each_hosts_clock_is_set_right_before_its_ranks_are_compared():
    # Ranks 2 and 3 are on a host whose clock is an hour ahead; by one clock all begin 0, 1, 2, 3 ms after the first.
    entered = [[0.0], [0.001], [3600.002], [3600.003]]
    left = [[0.010], [0.010], [3600.010], [3600.011]]
    own = cell(entered_seconds=entered, left_seconds=left)
    [row] = rows(named(record(own, workers=4, hosts=HOSTS)))
    assert row.launch_seconds[0] == pytest.approx(0.008)
    assert row.arrival_seconds == pytest.approx(0.003)
    assert row.arrival_unknown_below_seconds == pytest.approx(3e-6)


def test_an_arrival_that_the_hosts_clocks_cannot_tell_is_not_told():
    def of(late):
        own = cell(entered_seconds=[[0.0], [3600.0 + late]], left_seconds=[[1.0], [3601.0]])
        [row] = rows(named(record(own, hosts=HOSTS)))
        return row

    assert of(2.9e-6).arrival_seconds is None
    assert of(2.9e-6).arrival_unknown_below_seconds == pytest.approx(3e-6)
    assert of(3.1e-6).arrival_seconds == pytest.approx(3.1e-6, abs=1e-9)


def test_the_two_least_sure_clocks_and_the_least_sure_launch_decide_what_is_unknown():
    sure = [HOSTS[0] | {"clock_uncertainty_seconds": value} for value in (1e-6, 5e-6, 3e-6)]
    surer = [host | {"clock_uncertainty_seconds": 1e-6} for host in sure]
    own = [
        record(taking(1.0, ranks=3), workers=3, hosts=hosts, repetition=n) for n, hosts in enumerate((sure, surer), 1)
    ]
    [row] = rows(named(*own))
    assert row.arrival_unknown_below_seconds == pytest.approx(8e-6)


def test_a_call_that_took_no_time_by_the_hosts_clocks_is_missing_with_the_reason():
    own = cell(entered_seconds=[[1.0], [3600.0]], left_seconds=[[1.0], [3600.5]])
    records = named(record(own, hosts=HOSTS))
    assert rows(records) == []
    [told] = missing(records)
    assert told.reason == "The hosts' clocks may be 3e-06 s apart, and it took less."
    assert (told.case.collective, told.size_bytes, told.status) == ("all_reduce", 1024, "failed")


def test_ranks_in_one_process_have_a_time_and_no_arrival():
    [row] = rows(named(record(taking(1.0, ranks=1), workers=4, one_process=True)))
    assert row.seconds.median == 1.0
    assert row.arrival_seconds is None


def test_pipelined_calls_have_the_mean_of_their_loop_and_no_arrival():
    loop = changed(cell(calls=[(0.0, 6.0)], late=0.05), loop_calls=3)
    [row] = rows(named(record(loop, sweep=Sweep(pipelined=True))))
    assert row.case.pipelined
    assert row.seconds.median == pytest.approx(2.0)
    assert row.arrival_seconds is None


def test_cells_without_a_time_and_launches_that_failed_are_told_with_their_reasons():
    lacking = Cell(collective="gather", size_bytes=8, status="unsupported", reason="It has no gather.")
    wrong = Cell(collective="broadcast", size_bytes=8, status="failed", reason="A result was wrong.")
    records = named(
        record(lacking, taking(1.0)),
        record(lacking, taking(2.0), wrong, repetition=2, status="failed", reason="It ended with status 1."),
    )
    told = missing(records)
    assert [(each.case.collective, each.size_bytes, each.status, each.reason, each.repetitions) for each in told] == [
        ("", None, "failed", "It ended with status 1.", (2,)),
        ("gather", 8, "unsupported", "It has no gather.", (1, 2)),
        ("broadcast", 8, "failed", "A result was wrong.", (2,)),
    ]
    # What the failed launch had measured before counts.
    [row] = rows(records)
    assert row.launch_seconds == (1.0, 2.0)


def test_more_threads_than_cores_in_any_launch_are_told():
    [row] = rows(named(record(taking(1.0)), record(taking(1.0), repetition=2, oversubscribed=True)))
    assert row.oversubscribed


def test_each_case_has_a_fit_of_its_own_to_the_launches_that_measured_every_size():
    def of(latency, repetition, sizes=(1000, 2000, 4000), **changes):
        return record(*[taking(latency + size / 1e6, size) for size in sizes], repetition=repetition, **changes)

    # The second launch ended early: its times are at the sizes that it came to, and in no fit.
    records = named(of(1.0, 1), of(9.0, 2, sizes=(1000,)), of(1.0, 3), of(5.0, 1, library="slow"))
    [fast, slow] = fits(rows(records))
    assert (fast.case.library, slow.case.library) == ("fast", "slow")
    assert fast.repetitions == (1, 3)
    assert fast.fit.launches == 2
    for found, latency in ((fast, 1.0), (slow, 5.0)):
        [piece] = found.fit.pieces
        assert piece.latency_seconds.value == pytest.approx(latency)
        assert piece.bytes_per_second.value == pytest.approx(1e6)


def test_there_is_no_fit_without_three_sizes_and_a_launch_that_measured_them_all():
    assert fits(rows(named(record(taking(1.0, 8), taking(1.0, 16))))) == []
    assert fits(rows(named(record(taking(1.0, 0, collective="barrier"))))) == []
    parts = [record(taking(1.0, size), repetition=place) for place, size in enumerate((8, 16, 32), start=1)]
    assert fits(rows(named(*parts))) == []


def test_a_library_that_is_faster_in_every_round_is_shown_to_be_so():
    # Rounds drift by a factor of eight; in each the slow one takes about twice as long.
    drift = [2.0**place for place in range(6)]
    share = [2.0, 2.02, 1.98, 2.01, 1.99, 2.0]
    slow = launches([own * times for own, times in zip(drift, share, strict=True)], library="slow")
    [found] = comparisons(rows(named(*slow, *launches(drift))))
    assert (found.row.case.library, found.other.case.library) == ("fast", "slow")
    assert found.repetitions == (1, 2, 3, 4, 5, 6)
    assert found.judgement.n == 6
    assert found.judgement.ratio == pytest.approx(math.prod(share) ** (1 / 6))
    assert found.judgement.verdict == "faster"


def test_pairs_are_launches_of_the_same_round():
    fast = [record(taking(1.0), repetition=place) for place in (1, 2, 4)]
    slow = [record(taking(4.0), library="slow", repetition=place) for place in (4, 2, 3)]
    [found] = comparisons(rows(named(*fast, *slow)))
    assert found.repetitions == (2, 4)
    assert found.judgement.verdict == "too few rounds"
    assert found.judgement.ratio == pytest.approx(4.0)


def test_a_family_is_all_libraries_at_one_collective_and_size_in_one_world():
    times = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0]
    others = [each * (1.3 + 0.2 * (place % 2)) for place, each in enumerate(times)]
    pair = [*launches(times), *launches(others, library="slow")]
    [alone] = comparisons(rows(named(*pair)))
    elsewhere = [changed(each, world_size=4, cells=[taking(1.0, ranks=4)]) for each in pair]
    more = [taking(1.0, 8), taking(1.0, collective="broadcast")]
    with_more = [changed(each, cells=[*each.cells, *more]) for each in pair]
    beside = comparisons(rows(named(*with_more, *elsewhere)))
    assert len(beside) == 4
    [same] = [
        each
        for each in beside
        if (each.row.case.workers, each.row.case.collective, each.row.size_bytes) == (2, "all_reduce", 1024)
    ]
    assert same.judgement == alone.judgement
    # A third library makes it a family of three pairs, whose errors are held down together.
    three = comparisons(rows(named(*pair, *launches(times[::-1], library="third"))))
    assert len(three) == 3
    same = next(each for each in three if {each.row.case.library, each.other.case.library} == {"fast", "slow"})
    assert same.judgement.p > alone.judgement.p
    assert same.judgement.high - same.judgement.low > alone.judgement.high - alone.judgement.low


def test_a_library_without_another_one_or_with_more_threads_than_cores_is_compared_with_nobody():
    assert comparisons(rows(named(*launches([1.0, 2.0])))) == []
    oversubscribed = launches([1.0, 2.0], library="slow", oversubscribed=True)
    assert comparisons(rows(named(*launches([1.0, 2.0]), *oversubscribed))) == []
    apart = [record(taking(1.0), repetition=1), record(taking(1.0), library="slow", repetition=2)]
    assert comparisons(rows(named(*apart))) == []


def test_without_records_there_is_nothing():
    assert (rows({}), missing({}), fits([]), comparisons([])) == ([], [], [], [])
