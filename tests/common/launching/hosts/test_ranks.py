"""common/launching/hosts/ranks.py: a launch over hosts ends on all of them, and says which one it failed on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from common.launching.hosts import ranks as launching
from common.launching.hosts import supervisor
from common.launching.hosts.ranks import Assignment, run_over_hosts
from common.launching.places.ssh import SshHost
from common.paths import ROOT
from tests.launching import is_running

HOSTS = [SshHost("host1", 1), SshHost("host2", 1)]
SLEEP = ["sh", "-c", "echo sleeps; exec sleep 600"]
FILES = ["run.json", "record", "file", "name"]
"""What may come back."""


class Beating(SshHost):
    """A host whose lifeline has a heartbeat, as a node of Slurm's."""

    heartbeat_seconds = 0.3


def shell(source):
    return ["sh", "-c", source]


@pytest.fixture
def launch_id(tmp_path):
    """A name that no launch of another run of these tests has."""
    return f"{tmp_path.name}-{os.getpid()}"


@pytest.fixture
def launch(tmp_path, launch_id):
    """A function that runs a command on each of the hosts; returns the outcome and the log's lines."""

    def run(commands, hosts=HOSTS, deadline_seconds=60):
        assignments = [Assignment(host, [command], {}) for host, command in zip(hosts, commands, strict=False)]
        path = tmp_path / "logs" / "launch.log"
        outcome = run_over_hosts(assignments, hosts, deadline_seconds, path, launch_id, FILES)
        return outcome, path.read_text().splitlines()

    yield run
    assert not belonging_to(launch_id)
    assert not list(supervisor.SCRATCH.glob(f"lockstep-{launch_id}-*"))


def belonging_to(launch_id):
    """The processes of a launch that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(supervisor.LAUNCH) == launch_id and is_running(process.pid):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.fixture
def stray(launch_id):
    """A process of the launch that is no agent's descendant, as mpirun's daemons are none."""
    process = subprocess.Popen(SLEEP, env=os.environ | {supervisor.LAUNCH: launch_id}, stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


@pytest.mark.usefixtures("played_ssh")
class TestOnHostsThatArePlayed:
    """`ssh` starts the agents on this machine."""

    def test_the_log_has_the_output_of_all_with_their_names(self, launch):
        outcome, lines = launch([shell("echo one; echo two >&2; printf three"), shell("echo '{}'")])
        assert (outcome.status, outcome.reason, outcome.failed_host) == (0, None, None)
        assert [line for line in lines if line.startswith("host1| ")] == ["host1| one", "host1| two", "host1| three"]
        assert [line for line in lines if line.startswith("host2| ")] == ["host2| {}"]
        assert len(lines) == 4

    def test_the_first_hosts_files_come_back_and_no_folder_stays(self, launch):
        outcome, _ = launch([shell("echo record > {folder}/run.json"), shell("echo other > {folder}/run.json")])
        assert outcome.files == {"run.json": b"record\n"}

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("../../x", "eA=="),
            ("/tmp/x", "eA=="),
            ("other.json", "eA=="),
            ("a\nb", "eA=="),
            ("record", 1),
            ("record", ["eA=="]),
            ("record", "no base64"),
        ],
    )
    @pytest.mark.parametrize("command", ["true", "false"])
    def test_a_host_that_sends_what_it_was_not_asked_for_fails_the_launch_with_one_sentence(
        self, command, name, content, launch, monkeypatch
    ):
        monkeypatch.setenv("COLLECTED", json.dumps({"run.json": "eA==", name: content}))
        hosts = [SshHost("hostile", 1), HOSTS[0]] if command == "false" else [SshHost("hostile", 1)]
        outcome, _ = launch([["true"], [command]], hosts)
        assert (outcome.status, outcome.failed_host, outcome.files) == (1, "hostile", {})
        assert outcome.reason.startswith("hostile sent back something else than the files that it was asked for")
        assert f"({name!a})" in outcome.reason

    def test_a_host_of_which_no_files_are_asked_may_send_none(self, launch, monkeypatch):
        monkeypatch.setenv("COLLECTED", json.dumps({"run.json": "eA=="}))
        outcome, _ = launch([["true", "{folder}"], ["true"]], [HOSTS[0], SshHost("hostile", 1)])
        assert (outcome.status, outcome.failed_host, outcome.files) == (1, "hostile", {})

    @pytest.mark.parametrize("answer", ["[]", '"run.json"', "no JSON", "[" * 100_000])
    def test_an_answer_that_is_no_table_of_files_fails_the_launch_with_one_sentence(self, answer, launch, monkeypatch):
        monkeypatch.setenv("COLLECTED", answer)
        outcome, _ = launch([["true"]], [SshHost("hostile", 1)])
        assert (outcome.status, outcome.failed_host) == (1, "hostile")
        assert outcome.reason == "hostile gave no answer: make it the same commit there as here."

    def test_a_host_with_a_heartbeat_gets_one_as_long_as_its_commands_run(self, launch):
        # Without a heartbeat it would end all after 0.9 seconds.
        outcome, lines = launch([shell("sleep 2; echo done")], [Beating("host1", 1)])
        assert (outcome.status, lines) == (0, ["host1| done"])

    def test_one_that_fails_ends_the_others_and_its_log_says_why(self, launch):
        outcome, lines = launch([SLEEP, shell("echo 'lockstep: failed: It is Sunday.'; exit 7")])
        assert (outcome.status, outcome.failed_host, outcome.reason) == (7, "host2", None)
        assert "host2| lockstep: failed: It is Sunday." in lines
        assert not outcome.files

    @pytest.mark.parametrize(
        ("own", "others"),
        [("exit 7", "sleep 600"), ("sleep 600", "until [ -e {seen} ]; do sleep 0.02; done; exit 7")],
        ids=["the first host fails", "another host fails"],
    )
    def test_what_the_first_host_had_left_before_one_fails_comes_back(self, own, others, launch, tmp_path):
        seen = tmp_path / "seen"
        write = f"echo half > {{folder}}/record; touch {seen}; {own}"
        outcome, _ = launch([shell(write), shell(others.format(seen=seen))])
        assert outcome.status == 7
        assert outcome.files == {"record": b"half\n"}

    def test_the_deadline_ends_all(self, launch):
        outcome, _ = launch([SLEEP, SLEEP], deadline_seconds=0.3)
        assert (outcome.status, outcome.reason) == (124, None)

    def test_a_host_that_does_not_even_begin_is_ended_some_time_after_the_deadline(self, launch, monkeypatch):
        monkeypatch.setattr(launching, "_START_SECONDS", 0.3)
        monkeypatch.setattr(launching, "_LEAVE_SECONDS", 0.3)
        outcome, _ = launch([SLEEP], [SshHost("silent", 1)], deadline_seconds=0.1)
        assert (outcome.status, outcome.failed_host) == (124, "silent")
        assert outcome.reason.startswith("silent was lost (its connection ended)")

    @pytest.mark.parametrize(
        ("name", "said"), [("gone", "gone can't be reached by ssh (No route to host)"), ("lost", "lost was lost")]
    )
    def test_a_host_that_is_not_reached_or_lost_is_the_reason(self, name, said, launch):
        outcome, _ = launch([SLEEP, SLEEP], [HOSTS[0], SshHost(name, 1)])
        assert (outcome.status, outcome.failed_host) == (255, name)
        assert outcome.reason.startswith(said)

    def test_a_host_whose_loss_the_others_notice_first_is_the_reason_all_the_same(self, launch, monkeypatch):
        monkeypatch.setattr(launching, "_LEAVE_SECONDS", 0.3)
        outcome, _ = launch([shell("exit 1"), SLEEP], [HOSTS[0], SshHost("silent", 1)])
        assert (outcome.status, outcome.failed_host) == (1, "silent")
        assert outcome.reason.startswith("silent was lost (its connection ended)")

    def test_what_others_started_on_a_host_is_swept_where_the_launch_fails(self, launch, stray):
        launch([shell("exit 1")], HOSTS)
        assert stray.wait(30) == -signal.SIGTERM

    def test_what_others_started_is_swept_where_a_launch_ends_well_but_leaves_no_record(self, launch, stray):
        outcome, _ = launch([shell("echo half > {folder}/record")], HOSTS)
        assert (outcome.status, outcome.files) == (0, {"record": b"half\n"})
        assert stray.wait(30) == -signal.SIGTERM

    def test_a_log_that_cannot_be_written_fails_the_launch_and_the_hosts_are_swept_all_the_same(
        self, tmp_path, launch_id, stray
    ):
        (tmp_path / "log").symlink_to("/dev/full")
        assignment = Assignment(HOSTS[0], [shell("echo one")], {})
        outcome = run_over_hosts([assignment], HOSTS, 60, tmp_path / "log", launch_id, [])
        assert (outcome.status, outcome.failed_host) == (1, None)
        assert outcome.reason == f"{tmp_path}/log can't be written to (No space left on device): free some space."
        assert stray.wait(30) == -signal.SIGTERM

    def test_a_host_that_never_stops_to_print_is_ended_at_the_deadline_all_the_same(self, launch, monkeypatch):
        monkeypatch.setattr(launching, "_START_SECONDS", 0.1)
        monkeypatch.setattr(launching, "_LEAVE_SECONDS", 0.1)
        outcome, lines = launch([SLEEP], [SshHost("chatty", 1)], deadline_seconds=0.1)
        assert (outcome.status, outcome.failed_host) == (124, "chatty")
        assert lines[0] == "chatty| y"

    def test_without_room_for_files_the_reason_names_the_host(self, launch, tmp_path):
        # The longest name of a file is 255 bytes.
        assignment = Assignment(HOSTS[0], [["true", "{folder}"]], {})
        outcome = run_over_hosts([assignment], [], 60, tmp_path / "log", "x" * 255, [])
        assert outcome.status == 2
        assert "can't keep files in /var/tmp (File name too long)" in outcome.reason

    def test_a_program_that_is_missing_is_said_with_the_host(self, launch):
        outcome, _ = launch([["/nowhere/program"]])
        assert outcome.reason.startswith("host1: /nowhere/program is missing")


HEAD = """
import json, sys
from pathlib import Path
from common.launching.places.ssh import SshHost
from common.launching.hosts.ranks import Assignment, run_over_hosts
from common.launching.processes import exit_on_signals
exit_on_signals()
names, log, launch = json.loads(sys.argv[1])
assignments = [Assignment(SshHost(name, 1), [["sh", "-c", "echo sleeps; exec sleep 600"]], {}) for name in names]
run_over_hosts(assignments, [each.host for each in assignments], 60, Path(log), launch, [])
"""


def wait_until(happened):
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("played_ssh")
def test_a_signal_that_ends_the_head_leaves_nothing_on_the_hosts(number, tmp_path, launch_id):
    log = tmp_path / "log"
    arguments = json.dumps([["host1", "host2"], str(log), launch_id])
    with subprocess.Popen([sys.executable, "-c", HEAD, arguments], cwd=ROOT) as head:
        wait_until(lambda: log.exists() and log.read_text().count("sleeps") == 2)
        assert belonging_to(launch_id)
        head.send_signal(number)
        head.wait(30)
    wait_until(lambda: not belonging_to(launch_id))


def test_a_launch_over_two_hosts_leaves_files_on_the_head_and_nothing_on_them(site, launch):
    outcome, lines = launch([shell("hostname > {folder}/name"), shell("hostname")], site.hosts)
    assert outcome.files == {"name": b"host1\n"}
    assert lines == ["host2| host2"]
    assert site.left() == []


def test_a_disk_that_is_full_fails_on_its_host(site, launch):
    machine = site.machines[1]
    machine.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/var/tmp")
    try:
        outcome, _ = launch([SLEEP, ["true", "{folder}"]], site.hosts)
    finally:
        machine.run("umount", "/var/tmp")
    assert (outcome.status, outcome.failed_host) == (2, "host2")
    assert outcome.reason == "host2 can't keep files in /var/tmp (No space left on device): make room there."
    assert site.left() == []


def test_a_host_whose_connection_breaks_is_lost_and_what_ran_there_ends(own_site, launch):
    def break_connection():
        wait_until(lambda: sum("sleep" in line for line in own_site.left()) == 2)
        os.kill(own_site.servers[1], signal.SIGKILL)

    thread = threading.Thread(target=break_connection)
    thread.start()
    outcome, _ = launch([SLEEP, SLEEP], own_site.hosts)
    thread.join()
    assert (outcome.status, outcome.failed_host) == (255, "host2")
    assert outcome.reason == "host2 was lost (its connection ended): see whether it and its network are up."
    wait_until(lambda: own_site.left() == [])
