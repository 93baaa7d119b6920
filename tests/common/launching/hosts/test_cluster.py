"""common/launching/hosts/cluster.py: a launch over hosts is started by its own launcher and leaves one record here."""

import dataclasses
import json
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest

from common.contract.task import PRESETS
from common.declarations.strategy import Launcher
from common.errors import UserError
from common.launching.executor import run_planned
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.launching.hosts import cluster
from common.launching.hosts.clocks import Offset
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.facts import Route
from common.launching.hosts.ranks import HostsOutcome
from common.launching.hosts.survey import HostFacts
from common.launching.places.ssh import SshHost
from common.launching.planned import Hosts, PlannedLaunch
from common.launching.virtual_hosts import description
from common.launching.virtual_hosts.description import Cable, Description
from common.records.files import read_record, to_json
from common.records.header import Link, Machine, Virtual
from common.records.recovery import Recovery, recovery_path
from common.records.site import VARIABLE, Site
from tests.reports.records import make_record

TASK = dataclasses.replace(PRESETS["digits"], workers=4)
SPREAD = Launcher(
    name="spread",
    command=lambda launch: ["spread"],
    across_hosts=lambda launch: [[[place.name, str(place.workers), place.network]] for place in launch.hosts],
)

VIRTUAL = Virtual(delay_seconds=0.0)


def member(number, **changes):
    """What a host of this number says of itself, but for these changes."""
    values = {
        "host": SshHost(f"host{number}", 2),
        "hostname": f"machine{number}",
        "boot_id": "one",
        "commit": "0123456789abcdef+changes",
        "changes": "a digest",
        "python": "3.11",
        "environments": {"some": {"python": "3.11.7", "numpy": "2.4.6"}, "other": None},
        "cores": 2,
        "machine": Machine(processor="a processor"),
        "routes": {"another": Route(interface="eth0", address=f"10.0.0.{number}", prefix_length=24)},
        "no_room": None,
        "clock": Offset(0.0, 0.0),
    }
    return HostFacts(**values | changes)


def cluster_of(count, **changes):
    known = {
        "members": [member(number) for number in range(1, count + 1)],
        "spread": Hosts(count=count, slots=2, cores=2),
        "offsets": lambda members: [Offset(3600.0 * place, 1e-4) for place in range(len(members))],
        "link": lambda planned: Link(bytes_per_second=1e7, round_trip_seconds=2e-4),
    }
    return Cluster(**known | changes)


@pytest.fixture
def ran(monkeypatch):
    """What was to be run over hosts, which ends as `ends_with` says: with a record where that is None."""
    asked = {}

    def run(assignments, hosts, deadline_seconds, log_path, launch_id, files):
        asked.update(assignments=assignments, hosts=[host.name for host in hosts], files=files)
        log_path.write_text(asked.get("log", ""))
        return asked["ends_with"]

    monkeypatch.setattr(cluster, "run_over_hosts", run)
    return asked


@pytest.fixture
def planned(declare):
    """A function that plans a launch of four workers over so many hosts."""

    def plan(hosts=2, bandwidth=None, task=TASK, **changes):
        strategy = declare(**{"launcher": SPREAD} | changes)
        options = strategy.options()
        return PlannedLaunch(strategy, 4, "throughput", 1, task, options, hosts, bandwidth)

    return plan


def told(assignment):
    return msgspec.json.decode(assignment.environment[VARIABLE], type=Site)


def test_each_host_runs_what_the_launcher_says_and_is_told_of_all_hosts_which_the_record_keeps(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(255, failed_host="host2", reason="host2 was lost.")
    launch = planned()
    record = run_planned(launch, tmp_path, cluster_of(3))
    network = "10.0.0.0/24"
    assert [each.commands for each in ran["assignments"]] == [[["host1", "2", network]], [["host2", "2", network]]]
    [first, second] = map(told, ran["assignments"])
    assert first == second
    assert [(host.name, host.workers) for host in first.hosts] == [("host1", 2), ("host2", 2)]
    # All of the comparison's hosts, since launchers start processes of their own accord.
    assert ran["hosts"] == ["host1", "host2", "host3"]
    assert ran["files"] == launch.job(tmp_path).files
    assert (record.status, record.reason, record.name) == ("failed", "host2 was lost.", "numpy_threads, 2 hosts")
    assert [host.clock_offset_seconds for host in record.hosts] == [0.0, 3600.0]
    assert record.link == Link(bytes_per_second=1e7, round_trip_seconds=2e-4)


def test_a_record_that_a_host_left_is_brought_here_with_what_lay_beside_it(ran, planned, tmp_path):
    launch, left = planned(), make_record()
    written = json.dumps(to_json(left)).encode()
    ran["ends_with"] = HostsOutcome(0, files={f"{launch.name}.json": written, "weights.safetensors": b"all"})
    assert run_planned(launch, tmp_path, cluster_of(2)) == left
    assert (tmp_path / "weights.safetensors").read_bytes() == b"all"
    # What can't be kept here is a failure, and no refusal.
    (tmp_path / "taken").mkdir()
    ran["ends_with"] = HostsOutcome(0, files={"taken": b"all"})
    record = run_planned(launch, tmp_path, cluster_of(2))
    assert record.status == "failed"
    assert record.reason.startswith(f"{tmp_path}/taken can't be written")


def test_a_failure_of_an_accounted_launch_is_noticed_when_its_hosts_saw_it(ran, planned, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "described", lambda: SimpleNamespace(names=("host1", "host2")))
    ran["ends_with"] = HostsOutcome(1, noted_boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 10**12)
    launch = planned(task=dataclasses.replace(TASK, inject="kill:rank=1,step=10"))
    run_planned(launch, tmp_path, cluster_of(2, shares_disk=True))
    [attempt] = read_record(recovery_path(tmp_path / f"{launch.name}.json"), Recovery).attempts
    assert attempt.noticed_seconds > attempt.ended_seconds


@pytest.mark.parametrize(
    ("log", "status", "reason"),
    [
        ("host1| waits\nhost2| [3]<stderr>:lockstep: failed: It broke.\n", 1, "host2: It broke."),
        ("host1| rank 3, signal 9\n", 1, "host1: rank 3 ended with signal 9, so all processes were ended."),
        ("", TIMED_OUT_STATUS, "host1: It was ended by its deadline of 600 s."),
    ],
    ids=["the host that said it and not the first that ended", "a signal that the launcher reports", "a deadline"],
)
def test_the_reason_of_a_failure_comes_with_its_host(log, status, reason, ran, planned, tmp_path):
    ran |= {"ends_with": HostsOutcome(status, failed_host="host1"), "log": log}
    reporting = dataclasses.replace(SPREAD, signal_reports=(r"rank (?P<rank>\d+), signal (?P<signal>\d+)",))
    record = run_planned(planned(launcher=reporting), tmp_path, cluster_of(2))
    assert (record.status, record.reason) == ("failed", reason)


def test_what_one_process_holds_is_unsupported_over_hosts_and_nothing_is_started(ran, planned, tmp_path):
    alone = dataclasses.replace(SPREAD, across_hosts=None)
    record = run_planned(planned(launcher=alone), tmp_path, cluster_of(2))
    assert record.status == "unsupported"
    assert record.reason.startswith("numpy_threads has all of its workers in one process")
    assert (tmp_path / record.log).read_text() == f"lockstep: {record.reason}\n"
    assert "assignments" not in ran


def test_a_link_that_misses_what_was_asked_for_ends_the_launch_before_it_starts(ran, planned, tmp_path):
    def missed(planned):
        raise UserError(f"The link misses {planned.bandwidth_bits_per_second:g}.")

    record = run_planned(planned(bandwidth=1e8), tmp_path, cluster_of(2, link=missed, virtual=VIRTUAL))
    assert (record.status, record.reason) == ("unsupported", "The link misses 1e+08.")
    assert record.name == "numpy_threads, 2 hosts, 100 Mbit/s"
    assert "assignments" not in ran


@pytest.mark.parametrize(("cores", "oversubscribed"), [(2, True), (4, False), (None, False)])
def test_virtual_hosts_that_share_cores_are_oversubscribed_together(ran, planned, tmp_path, cores, oversubscribed):
    ran["ends_with"] = HostsOutcome(1)
    spread = Hosts(count=2, slots=2, cores=2, cores_together=cores)
    run_planned(planned(), tmp_path, cluster_of(2, spread=spread))
    assert told(ran["assignments"][0]).oversubscribed is oversubscribed


def test_a_launch_over_virtual_hosts_names_the_delay_or_gets_the_clusters(monkeypatch, planned):
    monkeypatch.setattr(cluster, "calibrate", lambda description: description.link)
    shaped = Mock()
    monkeypatch.setattr(description, "_ask", shaped)
    link = cluster._calibrated(Description(Cable(None, 0.004), None, ("host1", "host2")))
    jobs = [dataclasses.replace(planned().job(Path()), delay_seconds=delay) for delay in (None, 0.01, None, 0.0)]
    assert [link(job).delay_seconds for job in jobs] == [0.004, 0.01, 0.004, 0.0]
    assert shaped.call_count == 3
    made = cluster_of(2, virtual=VIRTUAL)
    assert [made.site(job).virtual.delay_seconds for job in jobs] == [0.0, 0.01, 0.0, 0.0]
