"""common/launching/hosts/ranks.py: a launch over hosts ends on all of them, and says which one it failed on."""

import os
import signal
from contextlib import suppress

import psutil
import pytest

from common.launching.hosts import ranks as launching
from common.launching.hosts import supervisor
from common.launching.hosts.ranks import Assignment, run_over_hosts
from common.launching.places.ssh import SshHost
from tests.launching import is_running

HOSTS = [SshHost("host1", 1), SshHost("host2", 1)]
SLEEP = ["sh", "-c", "echo sleeps; exec sleep 600"]


def shell(source):
    return ["sh", "-c", source]


@pytest.fixture
def launch(tmp_path, launch_id):
    """A function that runs a command on each of the hosts; returns the outcome and the log's lines."""

    def run(commands, hosts=HOSTS, deadline_seconds=60, **environment):
        pairs = zip(hosts, commands, strict=False)
        assignments = [Assignment(host, [command], environment) for host, command in pairs]
        path = tmp_path / "logs" / "launch.log"
        outcome = run_over_hosts(assignments, hosts, deadline_seconds, path, launch_id, ["run.json", "record"])
        return outcome, path.read_text().splitlines()

    yield run
    assert not belonging_to(launch_id)
    assert not list(supervisor.SCRATCH.glob(f"lockstep-{launch_id}-*"))


def belonging_to(launch_id):
    """The processes of a launch that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(supervisor.LAUNCH) == launch_id and is_running(process.pid):
                found.append(process)
    return found


@pytest.mark.usefixtures("played_ssh")
class TestOnHostsThatArePlayed:
    """`ssh` starts the agents on this machine."""

    def test_the_log_has_all_output_with_the_hosts_names_and_the_first_hosts_files_come_back(self, launch, monkeypatch):
        # As of a node of Slurm's. Without its heartbeat the first host would end all after 0.9 seconds.
        monkeypatch.setattr(SshHost, "heartbeat_seconds", 0.3)
        # Of the lifeline `cat` wouldn't see an end.
        write = "printf '\\001\\377' > {folder}/run.json; touch {folder}/core; test {folder} = $WHERE && cat"
        first = shell(f"{write}; echo one; echo two >&2; sleep 1.5; printf three")
        second = shell("echo other > {folder}/run.json; echo '{}'")
        outcome, lines = launch([first, second], WHERE="{folder}")
        assert (outcome.status, outcome.reason, outcome.failed_host) == (0, None, None)
        assert outcome.files == {"run.json": b"\1\377"}
        of_first = [line.removeprefix("host1| ") for line in lines if line.startswith("host1| ")]
        assert of_first == ["Welcome!", "one", "two", "three"]
        assert [line for line in lines if not line.startswith("host1| ")] == ["host2| Welcome!", "host2| {}"]

    def test_one_that_fails_ends_all_and_what_the_first_had_left_comes_back(self, launch, stray, tmp_path):
        first = f"echo half > {{folder}}/record; touch {tmp_path}/seen; sleep 600"
        second = f"until [ -e {tmp_path}/seen ]; do sleep 0.02; done; echo 'lockstep: failed: It is Sunday.'; exit 7"
        outcome, lines = launch([shell(first), shell(second)])
        assert (outcome.status, outcome.failed_host, outcome.reason) == (7, "host2", None)
        assert "host2| lockstep: failed: It is Sunday." in lines
        assert outcome.files == {"record": b"half\n"}
        assert stray.wait(30) == -signal.SIGTERM, "What others have started on a host is swept."

    def test_what_others_started_is_swept_where_a_launch_ends_well_but_leaves_no_record(self, launch, stray):
        outcome, _ = launch([shell("echo half > {folder}/record")], HOSTS)
        assert (outcome.status, outcome.files) == (0, {"record": b"half\n"})
        assert stray.wait(30) == -signal.SIGTERM

    def test_what_a_host_was_not_asked_for_is_not_kept(self, launch):
        outcome, _ = launch([["true"]], [SshHost("hostile", 1)])
        assert (outcome.status, outcome.files) == (0, {"run.json": b"x"})
        outcome, _ = launch([["true", "{folder}"], ["true"]], [HOSTS[0], SshHost("hostile", 1)])
        assert (outcome.status, outcome.files) == (0, {})

    def test_files_that_are_gone_when_they_are_fetched_fail_the_launch(self, launch):
        outcome, _ = launch([shell("rm -r {folder}")])
        assert (outcome.status, outcome.failed_host) == (1, "host1")
        assert "the launch's files are gone or can't be read" in outcome.reason

    def test_the_deadline_ends_all(self, launch):
        outcome, _ = launch([SLEEP, SLEEP], deadline_seconds=0.3)
        assert (outcome.status, outcome.reason) == (124, None)

    def test_hosts_that_never_begin_or_never_stop_to_print_are_ended_some_time_after_the_deadline(
        self, launch, monkeypatch
    ):
        monkeypatch.setattr(launching, "_START_SECONDS", 0.3)
        monkeypatch.setattr(launching, "_LEAVE_SECONDS", 0.3)
        outcome, lines = launch([SLEEP, SLEEP], [SshHost("chatty", 1), SshHost("silent", 1)], deadline_seconds=0.1)
        assert (outcome.status, outcome.failed_host) == (124, "silent")
        assert outcome.reason.startswith("silent was lost (its connection ended)")
        assert lines[0] == "chatty| y"

    @pytest.mark.parametrize(
        ("command", "other", "ended", "reason"),
        [
            (SLEEP, "gone", (255, "gone"), "gone can't be reached by ssh (No route to host)"),
            (shell("exit 1"), "silent", (1, "silent"), "silent was lost (its connection ended)"),
            (["/nowhere/program"], "host2", (2, "host1"), "host1: /nowhere/program is missing"),
        ],
        ids=["not reached", "lost, which another one notices first", "without the program"],
    )
    def test_the_host_that_is_the_cause_is_named(self, command, other, ended, reason, launch, monkeypatch):
        monkeypatch.setattr(launching, "_LEAVE_SECONDS", 0.3)
        outcome, _ = launch([command, SLEEP], [HOSTS[0], SshHost(other, 1)])
        assert (outcome.status, outcome.failed_host) == ended
        assert outcome.reason.startswith(reason)

    def test_a_log_that_cannot_be_written_fails_the_launch_and_the_hosts_are_swept_all_the_same(
        self, tmp_path, launch_id, stray
    ):
        (tmp_path / "log").symlink_to("/dev/full")
        assignment = Assignment(HOSTS[0], [shell("echo one")], {})
        outcome = run_over_hosts([assignment], HOSTS, 60, tmp_path / "log", launch_id, [])
        assert (outcome.status, outcome.failed_host) == (1, None)
        assert outcome.reason == f"{tmp_path}/log can't be written to (No space left on device): free some space."
        assert stray.wait(30) == -signal.SIGTERM

    def test_a_signal_that_ends_the_head_leaves_nothing_on_the_hosts(self, launch, stray):
        # Shells have what they start in the background ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                launch([SLEEP, shell(f"kill -INT {os.getpid()}; exec sleep 600")])
        finally:
            signal.signal(signal.SIGINT, before)
        assert stray.wait(30) == -signal.SIGTERM


def test_a_launch_over_two_hosts_leaves_files_on_the_head_and_nothing_on_them(site, launch):
    outcome, lines = launch([shell("hostname > {folder}/record"), shell("hostname")], site.hosts)
    assert outcome.files == {"record": b"host1\n"}
    assert lines == ["host2| host2"]
    assert site.left() == []
