"""What launches ran on and what it takes to repeat them, what the hosts are, and which jobs of Slurm gave them."""

import hashlib

from common.records.header import Allocated
from common.records.training import Record
from reports.tables.material import Material
from reports.tables.results import Origin, read_results
from reports.words import machine
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import headings, table_under
from tests.reports.records import make_record, named, over_hosts, unfinished, write_all


def chapter(*records: Record) -> list[dict]:
    return machine.hosts(material_of(*records))


def test_the_hosts_are_listed_once_with_what_they_are_also_those_of_launches_that_failed():
    failed = changed(unfinished("failed", "host2 is lost."), hosts=over_hosts(uncertainty=2e-4).hosts)
    blocks = chapter(over_hosts(), failed, over_hosts(workers=1, hosts=1))
    assert table_under(blocks, "The hosts")["rows"] == [
        ["host1", "2", "Some CPU", "eth0", "10.77.0.1", "3", "±200 µs"],
        ["host2", "2", "Some CPU", "eth0", "10.77.0.2", "2", "±200 µs"],
    ]
    assert "These hosts are virtual" in blocks[1]["text"]
    assert "virtual" not in chapter(over_hosts(virtual=None))[1]["text"]


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


def test_what_the_launches_ran_on_is_in_the_section_on_the_machine():
    host = {"processor": "Odd CPU", "cores": 3, "memory_bytes": 5 * 2**30, "gpus": ["Odd GPU"], "system": "Odd 9"}
    facts = {"versions": {"oddlib": "9.8.7"}, "git_commit": "fedcba98", "started_at": "2031-05-06T07:08:09+00:00"}
    facts |= {"threads_per_worker": 7, "pinned_cores": [2], "private_network": True}
    record = make_record(**facts, host=host, backend="odd backend", device="odd device")
    origin = Origin(variables={"OMP_DYNAMIC": "1"})
    table = machine.of_comparison(material_of(record, rounds=[1], origin=origin))
    told = " ".join(cell for row in table["rows"] for cell in row)
    for fact in (
        *("Odd CPU, 3 cores; memory 5.0 GiB; GPUs Odd GPU; Odd 9", "on odd device, 7 threads each"),
        "of 1 launches 1 on cores of their own, 1 in a private network",
        *("2031-05-06 07:08 UTC, commit fedcba98", "order of launches shuffled with seed 7", "oddlib 9.8.7"),
        *("odd backend: amber_ring", "variables that frameworks obey OMP_DYNAMIC=1"),
    ):
        assert fact in told
    spread = dict(machine.of_comparison(material_of(over_hosts(), origin=origin))["rows"])
    words = "OMP_DYNAMIC=1 where the session was started, which hosts don't get"
    assert spread["variables that frameworks obey"].partition(";")[0] == words


def test_the_command_and_the_digests_that_it_takes_to_repeat_it_are_in_it(tmp_path):
    other = make_record("amber_ring", 4, data_sha256="def456", data="Fashion-MNIST")
    records = named(make_record(data_sha256="abc123"), make_record("amber_ring", 2, data_sha256="abc123"), other)
    folder = write_all(tmp_path, records)
    (folder / "command.txt").write_text("nox -s compare -- --order-seed 7\n")
    rows = dict(machine.of_comparison(Material(read_results(folder)))["rows"])
    assert rows["to repeat it"] == "nox -s compare -- --order-seed 7"
    assert rows["rows of the datasets, SHA-256"] == "digits (Fashion-MNIST) def456; digits abc123"
    assert rows["seeds"] == "of the task 3; launched one by one, without a plan; schema of the records 5"
    files = b"".join(path.read_bytes() for path in sorted(folder.glob("*.json")))
    assert rows["records, SHA-256"].partition(";")[0] == hashlib.sha256(files).hexdigest()[:20]
