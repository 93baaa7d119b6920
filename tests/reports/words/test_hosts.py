"""The hosts' tables: clocks set by hand, and what follows of who waited for whom."""

from common.records.header import Allocated
from common.records.training import Record
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import hosts
from tests.changes import changed
from tests.reports.pieces import headings, table_under
from tests.reports.records import named, over_hosts, unfinished


def chapter(tmp_path, *records: Record) -> list[dict]:
    return hosts.section(Material(Results(tmp_path, named(*records), None)))


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
