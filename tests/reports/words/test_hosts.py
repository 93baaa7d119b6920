"""What the hosts are, and which jobs of Slurm they were given to."""

from common.records.header import Allocated
from common.records.training import Record
from reports.words import machine
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import headings, table_under
from tests.reports.records import over_hosts, unfinished


def chapter(*records: Record) -> list[dict]:
    return machine.hosts(material_of(*records))


def test_the_hosts_are_listed_once_with_what_they_are():
    blocks = chapter(over_hosts(), over_hosts(uncertainty=2e-4), over_hosts(workers=1, hosts=1))
    assert table_under(blocks, "The hosts")["rows"] == [
        ["host1", "2", "Some CPU", "eth0", "10.77.0.1", "3", "±200 µs"],
        ["host2", "2", "Some CPU", "eth0", "10.77.0.2", "2", "±200 µs"],
    ]
    assert "These hosts are virtual" in blocks[1]["text"]
    assert "virtual" not in chapter(over_hosts(virtual=None))[1]["text"]


def test_hosts_of_launches_that_failed_are_listed_all_the_same():
    failed = changed(unfinished("failed", "host2 is lost."), hosts=over_hosts().hosts)
    blocks = chapter(failed)
    assert len(table_under(blocks, "The hosts")["rows"]) == 2
    assert [block["kind"] for block in blocks].count("table") == 1


def test_the_jobs_of_slurm_are_listed_with_who_bound_the_cores_where_there_are_any():
    first, second = (Allocated(job=job, partition="all", nodes="n[1-2]", cores_per_node=[4, 4]) for job in ("7", "8"))
    of_slurm = changed(over_hosts(pinned_cores=[0, 1], bound_by_slurm=True), allocation=first)
    by_workers = changed(over_hosts(pinned_cores=[0, 1]), allocation=second)
    unbound = changed(over_hosts(), allocation=second)
    shown = table_under(chapter(of_slurm, by_workers, unbound), "The allocations")["rows"]
    assert shown == [
        ["7", "all", "n[1-2]", "4, 4", "Slurm", "1"],
        ["8", "all", "n[1-2]", "4, 4", "each worker", "1"],
        ["8", "all", "n[1-2]", "4, 4", "nobody", "1"],
    ]
    assert "The allocations" not in headings(chapter(over_hosts()), 2)
