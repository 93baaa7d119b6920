"""The hosts' tables: clocks set by hand, and what follows of who waited for whom."""

import math

import pytest
from msgspec import structs

from common.records.training import Record
from reports.tables import summaries
from reports.tables.hosts import table as hosts_table
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts

HOURS = [0.0, 7200.0]
"""The second host's clock is two hours ahead."""


def table(*records: Record) -> list:
    """The rows of the table."""
    stems = named(*records)
    return [*hosts_table(summaries.launches(stems), stems).itertuples()]


def test_there_is_a_row_for_each_launch_with_exchange_over_several_hosts():
    silent = over_hosts(options=MadeUpOptions(exchange=False))
    [row] = table(over_hosts(workers=4, hosts=2, offsets=HOURS), make_record("amber_ring", 2), silent)
    assert (row.strategy, row.workers, row.windows) == ("amber_ring, 2 hosts, 100 Mbit/s", 4, 4)


def test_a_rank_that_starts_later_is_found_late_whatever_its_hosts_clock_shows():
    for offsets in ([0.0, 0.0], HOURS, HOURS[::-1]):
        [row] = table(over_hosts(offsets=offsets, late=[0.0, 0.003]))
        assert row.seconds == pytest.approx(0.003, abs=1e-6)
        assert row.started_last == row.finished_last == "host2"
        assert row.started_last_share == row.finished_last_share == 1.0


def test_who_starts_and_who_finishes_last_may_be_different_hosts():
    # Rank 1 starts 1 ms later, and takes 16 ms for a window of 20.
    [row] = table(over_hosts(milliseconds=(2.0,), late=[0.0, 0.001], rank_factors=(1.0, 0.8)))
    assert (row.started_last, row.finished_last) == ("host2", "host1")


def test_the_last_rank_of_a_host_counts_for_it():
    [row] = table(over_hosts(workers=4, hosts=2, late=[0.002, 0.0, 0.001, 0.001]))
    assert (row.started_last, row.started_last_share) == ("host1", 1.0)
    assert row.seconds == pytest.approx(0.002, abs=1e-6)


def test_a_window_starts_so_long_after_its_process():
    record = over_hosts(late=[0.0, 0.003])
    sooner = [
        structs.replace(each, started_seconds=each.started_seconds - 0.002 * each.rank) for each in record.windows
    ]
    [row] = table(changed(record, windows=sooner))
    assert row.seconds == pytest.approx(0.001, abs=1e-6)


@pytest.mark.parametrize(("clocks", "both"), [((1, 5, 2, 3), 8), ((1, None, 2, 3), math.nan)])
def test_of_many_hosts_the_two_worst_clocks_bound_the_skew_unless_one_tells_no_uncertainty(clocks, both):
    record = over_hosts(workers=4, hosts=4, late=[0.0, 0.0, 0.0, 100.0])
    hosts = [
        structs.replace(host, clock_uncertainty_seconds=each) for host, each in zip(record.hosts, clocks, strict=True)
    ]
    [row] = table(changed(record, hosts=hosts))
    assert row.uncertainty_seconds == pytest.approx(both, nan_ok=True)
    assert row.started_last == ("" if None in clocks else "host4")


def test_what_is_within_the_uncertainty_of_both_clocks_is_told_of_nobody():
    # Each clock is known to 0.1 ms, so both together to 0.2 ms.
    [row] = table(over_hosts(late=[0.0, 0.00019]))
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("", 0.0, 1.0)
    assert (row.finished_last, row.finished_last_unknown) == ("", 1.0)
    assert row.uncertainty_seconds == pytest.approx(2e-4)
    [row] = table(over_hosts(late=[0.0, 0.00021]))
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("host2", 1.0, 0.0)


def test_records_that_tell_no_clock_or_one_host_alone_have_no_row():
    record = over_hosts()
    bare = [structs.replace(host, clock_offset_seconds=None, clock_uncertainty_seconds=None) for host in record.hosts]
    coordinated = [window for window in record.windows if window.rank == 0]
    others = [
        changed(record, hosts=bare),
        changed(record, process_start_seconds=[]),
        changed(record, windows=coordinated),
    ]
    assert table(*others, over_hosts(workers=1, hosts=1), make_record("amber_ring", 2)) == []


def test_a_launch_tells_the_round_trip_of_its_link():
    link = {"bytes_per_second": 1.2e6, "round_trip_seconds": 0.002}
    launches = summaries.launches(named(over_hosts(link=link), make_record("amber_ring", 2)))
    assert launches["link_bytes_per_second"].fillna(0.0).tolist() == [1.2e6, 0.0]
    assert launches["round_trip_seconds"].fillna(0.0).tolist() == [0.002, 0.0]
