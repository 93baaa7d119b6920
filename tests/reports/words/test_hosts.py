"""The hosts' tables: clocks set by hand, and what follows of who waited for whom."""

import pytest
from msgspec import structs

from common.records.header import Allocated
from common.records.training import Record
from reports.tables import summaries
from reports.tables.hosts import table as hosts_table
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import hosts
from tests.changes import changed
from tests.reports.pieces import headings, table_under
from tests.reports.records import make_record, named, over_hosts, unfinished


def table(*records: Record):
    stems = named(*records)
    return hosts_table(summaries.launches(stems), stems)


def chapter(tmp_path, *records: Record) -> list[dict]:
    material = Material(Results(tmp_path, named(*records), None))
    return [*hosts.about(material), *hosts.section(material)]


def row_under(blocks: list[dict], heading: str) -> dict[str, str]:
    [row] = table_under(blocks, heading)["rows"]
    return dict(zip(table_under(blocks, heading)["columns"], row, strict=True))


def skew_of(tmp_path, *records: Record) -> dict[str, str]:
    return row_under(chapter(tmp_path, *records), "Skew between hosts, and who waited for whom")


def test_without_hosts_there_is_no_chapter_and_no_row(tmp_path):
    assert chapter(tmp_path, make_record("amber_ring", 2)) == []
    assert table(make_record("amber_ring", 2)) == []


def test_what_is_within_the_uncertainty_of_both_clocks_is_told_of_nobody(tmp_path):
    # Each clock is known to 0.1 ms, so both together to 0.2 ms.
    for late, surely in ((0.00019, 0), (0.00021, 4)):
        [found] = table(over_hosts(late=[0.0, late]))
        assert found.started_last["host2"] == surely
        assert found.uncertainty_seconds == pytest.approx(2e-4)
    row = skew_of(tmp_path, over_hosts(late=[0.0, 0.00019]))
    assert row["skew"] == "below the clocks' ±200 µs"
    assert (row["started last"], row["finished last"]) == ("can't tell 100 %", "can't tell 100 %")
    assert skew_of(tmp_path, over_hosts(late=[0.0, 0.00021]))["skew"] == "210 µs (±200 µs)"


def test_a_median_over_launches_is_said_with_the_largest_uncertainty(tmp_path):
    records = [over_hosts(late=[0.0, late]) for late in (0.001, 0.002, 0.004)]
    row = skew_of(tmp_path, *records)
    assert (row["skew"], row["n"], row["windows"]) == ("2.00 ms (±200 µs)", "3", "12")
    assert row["started last"] == "host2 100 %"
    records = [over_hosts(late=late) for late in ([0.0, 0.003], [0.0, 0.003], [0.003, 0.0], [0.0, 0.0001])]
    assert skew_of(tmp_path, *records)["started last"] == "host2 50 %, can't tell 25 %"


def test_records_that_tell_no_clock_or_one_host_alone_have_no_skew(tmp_path):
    record = over_hosts()
    bare = [structs.replace(host, clock_offset_seconds=None, clock_uncertainty_seconds=None) for host in record.hosts]
    coordinated = [window for window in record.windows if window.rank == 0]
    for other in (
        changed(record, hosts=bare),
        changed(record, process_start_seconds=[]),
        changed(record, windows=coordinated),
        over_hosts(workers=1, hosts=1),
    ):
        assert table(other) == []
        blocks = chapter(tmp_path, other)
        assert "tells when each of its ranks started" in blocks[-1]["text"]


def test_the_hosts_are_listed_once_with_what_they_are(tmp_path):
    blocks = chapter(tmp_path, over_hosts(), over_hosts(uncertainty=2e-4), over_hosts(workers=1, hosts=1))
    assert table_under(blocks, "The hosts")["rows"] == [
        ["host1", "2", "Some CPU", "eth0", "10.77.0.1", "3", "±200 µs"],
        ["host2", "2", "Some CPU", "eth0", "10.77.0.2", "2", "±200 µs"],
    ]
    assert "These hosts are virtual" in blocks[1]["text"]
    assert "virtual" not in chapter(tmp_path, over_hosts(virtual=None))[1]["text"]


def test_hosts_of_launches_that_failed_are_listed_all_the_same(tmp_path):
    failed = changed(unfinished("failed", "host2 is lost."), hosts=over_hosts().hosts)
    blocks = chapter(tmp_path, failed)
    assert len(table_under(blocks, "The hosts")["rows"]) == 2
    assert [block["kind"] for block in blocks].count("table") == 1


def test_the_link_is_given_by_what_was_asked_for_with_its_range(tmp_path):
    links = [
        {"bytes_per_second": rate * 125_000, "round_trip_seconds": trip} for rate, trip in ((94, 2e-5), (96, 3e-5))
    ]
    records = [over_hosts(link=link) for link in (*links, links[0])]
    slow = over_hosts(megabits=10.0, link={"bytes_per_second": 1.2e6, "round_trip_seconds": 0.002})
    rows = table_under(chapter(tmp_path, *records, slow), "The link between them")["rows"]
    assert rows == [
        ["2", "10 Mbit/s", "9.60", "9.60 to 9.60", "2.00 ms", "2.00 ms to 2.00 ms", "1", "1"],
        ["2", "100 Mbit/s", "94.0", "94.0 to 96.0", "20.0 µs", "20.0 µs to 30.0 µs", "3", "2"],
    ]


def test_the_jobs_of_slurm_are_listed_with_who_bound_the_cores(tmp_path):
    first, second = (Allocated(job=job, partition="all", nodes="n[1-2]", cores_per_node=[4, 4]) for job in ("7", "8"))
    of_slurm = changed(over_hosts(pinned_cores=[0, 1], bound_by_slurm=True), allocation=first)
    by_workers = changed(over_hosts(pinned_cores=[0, 1]), allocation=second)
    unbound = changed(over_hosts(), allocation=second)
    shown = table_under(chapter(tmp_path, of_slurm, by_workers, unbound), "The allocations")["rows"]
    assert shown == [
        ["7", "all", "n[1-2]", "4, 4", "1", "Slurm"],
        ["8", "all", "n[1-2]", "4, 4", "2", "each worker"],
    ]


def test_outside_of_slurm_there_is_no_allocation_to_tell_of(tmp_path):
    assert "The allocations" not in headings(chapter(tmp_path, over_hosts()), 2)
