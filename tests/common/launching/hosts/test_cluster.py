"""common/launching/hosts/cluster.py: a launch over hosts is started by its own launcher and leaves one record here."""

import dataclasses
import json
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from common.contract.task import PRESETS
from common.declarations.strategy import Launcher, Options
from common.errors import UserError
from common.launching.executor import run_planned
from common.launching.hosts import cluster
from common.launching.hosts.clocks import Offset
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.facts import Route
from common.launching.hosts.ranks import HostsOutcome
from common.launching.hosts.survey import HostFacts
from common.launching.places.ssh import SshHost
from common.launching.planned import Hosts, PlannedLaunch
from common.launching.virtual_hosts.description import Cable, Description
from common.records.files import read_record, to_json
from common.records.header import Link, Machine, Virtual
from common.records.recovery import Recovery, recovery_path
from common.records.site import VARIABLE, Site

TASK = dataclasses.replace(PRESETS["digits"], workers=4)
SPREAD = Launcher(
    name="spread",
    command=lambda launch: ["spread"],
    across_hosts=lambda launch: [[[place.name, str(place.workers), place.network]] for place in launch.hosts],
)


VIRTUAL = Virtual(delay_seconds=0.0)


def member(number):
    route = Route(interface="eth0", address=f"10.0.0.{number}", prefix_length=24)
    return HostFacts(
        host=SshHost(f"host{number}", 2),
        hostname=f"machine{number}",
        boot_id="one",
        commit="abc",
        changes=None,
        python="3.11",
        environments={},
        cores=2,
        machine=Machine(processor="a processor"),
        routes={"another": route},
        no_room=None,
        clock=Offset(0.0, 0.0),
    )


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


def test_each_host_runs_what_the_launcher_says_and_is_told_of_all_hosts(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(1, failed_host="host2", reason="host2 was lost.")
    run_planned(planned(), tmp_path, cluster_of(3))
    network = "10.0.0.0/24"
    assert [each.commands for each in ran["assignments"]] == [[["host1", "2", network]], [["host2", "2", network]]]
    [first, second] = map(told, ran["assignments"])
    assert first == second
    assert [(host.name, host.workers) for host in first.hosts] == [("host1", 2), ("host2", 2)]
    # All of the comparison's hosts, since launchers start processes of their own accord.
    assert ran["hosts"] == ["host1", "host2", "host3"]


def test_on_one_host_it_is_started_as_nox_would(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(1)
    run_planned(planned(hosts=1), tmp_path, cluster_of(2))
    [assignment] = ran["assignments"]
    [[_, *words]] = assignment.commands
    assert words[:3] == ["-m", "common.launching.launch", "numpy_threads"]
    assert "{folder}/numpy_threads-digits-strong-4w-1h-01.json" in words


def test_a_record_that_a_host_left_is_brought_here_with_what_lay_beside_it(ran, planned, tmp_path, make_record):
    launch = planned()
    written = json.dumps(to_json(make_record())).encode()
    ran["ends_with"] = HostsOutcome(0, files={f"{launch.name}.json": written, "weights.safetensors": b"all"})
    assert run_planned(launch, tmp_path, cluster_of(2)) == make_record()
    assert (tmp_path / "weights.safetensors").read_bytes() == b"all"


def test_a_record_that_cannot_be_kept_here_is_a_failure_and_no_refusal(ran, planned, tmp_path, monkeypatch):
    def refuse(path, content):
        raise UserError(f"{path.name} can't be written: make room.")

    launch = planned()
    monkeypatch.setattr(cluster, "write_atomically", refuse)
    ran["ends_with"] = HostsOutcome(0, files={f"{launch.name}.json": b"{}"})
    record = run_planned(launch, tmp_path, cluster_of(2))
    assert (record.status, record.reason) == ("failed", f"{launch.name}.json can't be written: make room.")


def test_a_failure_of_an_accounted_launch_is_noticed_when_its_hosts_saw_it(ran, planned, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "described", lambda: SimpleNamespace(names=("host1", "host2")))
    ran["ends_with"] = HostsOutcome(1, noted_boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 10**12)
    launch = planned(task=dataclasses.replace(TASK, inject="kill:rank=1,step=10"))
    run_planned(launch, tmp_path, cluster_of(2, shares_disk=True))
    [attempt] = read_record(recovery_path(tmp_path / f"{launch.name}.json"), Recovery).attempts
    assert attempt.noticed_seconds > attempt.ended_seconds


@pytest.mark.usefixtures("played_ssh")
def test_a_host_that_names_a_file_elsewhere_writes_none_and_its_launch_fails(planned, tmp_path, monkeypatch):
    launch, folder = planned(hosts=1), tmp_path / "results" / "one"
    outside = tmp_path / "outside"
    monkeypatch.setenv(
        "COLLECTED", json.dumps({f"{launch.name}.json": "eA==", "../../x": "eA==", str(outside): "eA=="})
    )
    hostile = msgspec.structs.replace(member(1), host=SshHost("hostile", 4))
    record = run_planned(launch, folder, cluster_of(1, members=[hostile]))
    assert record.status == "failed"
    assert record.reason.startswith("hostile sent back something else than the files that it was asked for ('../../x')")
    assert {path.name for path in folder.iterdir()} == {f"{launch.name}.json", f"{launch.name}.log"}
    assert not (tmp_path / "x").exists()
    assert not outside.exists()


@dataclasses.dataclass(frozen=True)
class TracedOptions(Options):
    trace: bool = True


def test_what_a_host_is_asked_for_is_what_its_launch_leaves(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(1)
    launch = planned()
    run_planned(launch, tmp_path, cluster_of(2))
    assert ran["files"] == [f"{launch.name}.json", f"{launch.name}.evidence"]
    run_planned(planned(options=TracedOptions), tmp_path, cluster_of(2))
    assert [Path(name).suffix for name in ran["files"]] == [".json", ".evidence", ".trace"]
    run_planned(planned(task=dataclasses.replace(TASK, checkpoint=Path("weights"))), tmp_path, cluster_of(2))
    assert ran["files"] == [f"{launch.name}{suffix}" for suffix in (".json", ".evidence", ".safetensors")]


def test_a_launch_that_failed_keeps_its_hosts_their_clocks_and_the_reason(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(255, failed_host="host2", reason="host2 was lost (its connection ended): see.")
    record = run_planned(planned(), tmp_path, cluster_of(2))
    assert (record.status, record.reason) == ("failed", "host2 was lost (its connection ended): see.")
    assert record.name == "numpy_threads, 2 hosts"
    assert [host.clock_offset_seconds for host in record.hosts] == [0.0, 3600.0]
    assert record.link == Link(bytes_per_second=1e7, round_trip_seconds=2e-4)


def test_what_a_worker_says_before_it_fails_is_the_reason_with_its_host(ran, planned, tmp_path):
    ran |= {"ends_with": HostsOutcome(1, failed_host="host2"), "log": "host2| lockstep: failed: the wire broke.\n"}
    record = run_planned(planned(), tmp_path, cluster_of(2))
    assert (record.status, record.reason) == ("failed", "host2: the wire broke.")


def test_the_host_in_the_reason_is_the_one_that_said_it_and_not_the_first_that_ended(ran, planned, tmp_path):
    log = "host1| waits\nhost2| [3]<stderr>:lockstep: failed: the wire broke.\nhost1| lockstep: failed: host2 left.\n"
    ran |= {"ends_with": HostsOutcome(1, failed_host="host1"), "log": log}
    assert run_planned(planned(), tmp_path, cluster_of(2)).reason == "host2: the wire broke."


def test_a_signal_that_the_launcher_reports_is_the_reason_over_hosts_too(ran, planned, tmp_path):
    ran |= {"ends_with": HostsOutcome(1, failed_host="host1"), "log": "host1| spread: rank 3, signal 9\n"}
    reporting = dataclasses.replace(SPREAD, signal_reports=(r"rank (?P<rank>\d+), signal (?P<signal>\d+)",))
    record = run_planned(planned(launcher=reporting), tmp_path, cluster_of(2))
    assert record.reason == "host1: rank 3 ended with signal 9, so all processes were ended."


def test_a_deadline_is_told_as_on_one_machine(ran, planned, tmp_path):
    ran["ends_with"] = HostsOutcome(124, failed_host="host1")
    record = run_planned(planned(), tmp_path, cluster_of(2))
    assert record.reason == "host1: It was ended by its deadline of 600 s."


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
    shaped = []

    class Made(Description):
        def shape(self, link):
            shaped.append(link)
            return dataclasses.replace(self, link=link)

    link = cluster._calibrated(Made(Cable(None, 0.004), None, ("host1", "host2")))
    jobs = [dataclasses.replace(planned().job(Path()), delay_seconds=delay) for delay in (None, 0.01, None, 0.0)]
    assert [link(job).delay_seconds for job in jobs] == [0.004, 0.01, 0.004, 0.0]
    assert len(shaped) == 3
    made = cluster_of(2, virtual=VIRTUAL)
    assert [made.site(job).virtual.delay_seconds for job in jobs] == [0.0, 0.01, 0.0, 0.0]
