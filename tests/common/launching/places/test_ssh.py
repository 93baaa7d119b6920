"""common/launching/places/ssh.py: its command line is safe, and what goes wrong is said with host, cause and remedy."""

import shlex
import subprocess
import sys

import pytest

from common.launching.places import place, ssh
from common.launching.places.ssh import SshHost
from common.paths import ROOT

HOST = SshHost("host1", 2)


def test_the_command_asks_nothing_and_notices_a_lost_connection():
    words = HOST.command(["-m", "a.module", "facts"])
    assert words[:2] == ["ssh", "-T"]
    assert {"BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3"} <= {*words}
    assert not [word for word in words if "HostKey" in word]
    assert words[-2] == "host1"


def test_what_runs_there_is_quoted_for_a_shell(monkeypatch):
    monkeypatch.setattr(ssh, "ROOT", "/a folder; reboot")
    change, agent = HOST.command(["a 'word'", "$(reboot)"])[-1].split(" && ")
    assert shlex.split(change) == ["cd", "/a folder; reboot"]
    assert shlex.split(agent) == ["PYTHONSAFEPATH=", "exec", sys.executable, "a 'word'", "$(reboot)"]


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("exec /nowhere/python", f"host1 has no {sys.executable}"),
        (f"cd {ROOT}/nowhere && true", f"host1 has no checkout in {ROOT}"),
        (f"{sys.executable} -m common.nothing.agent", "host1 has another checkout"),
        ("echo 'lockstep: No room.' >&2; exit 2", "host1: No room."),
        ("echo 'lockstep: host1 has no room.' >&2; exit 2", "host1 has no room."),
        ("echo 'What?' >&2; exit 3", "ended with status 3 (What?)"),
    ],
)
def test_what_a_shell_there_prints_is_understood(shell, said):
    result = subprocess.run(["sh", "-c", shell], cwd=ROOT, capture_output=True, text=True)
    sentence = HOST.why_it_failed(result.returncode, result.stderr)
    assert sentence.startswith(said) or said in sentence
    assert sentence.endswith(".")


def test_a_machine_without_ssh_is_one_sentence(tmp_path, monkeypatch, refusal):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(lambda: place.ask("facts", {HOST: {}})) == (
        "host1 can't be reached without ssh: install OpenSSH's client here."
    )


OTHER_KEY = "host2 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o PubkeyAuthentication=no", "host2 asks for a password, or doesn't take your key"),
        ("-o GlobalKnownHostsFile=/dev/null", "host2 has a host key that isn't known here"),
        ("-o GlobalKnownHostsFile={folder}/known", "host2 has another host key than"),
        ("-p 1", "host2 can't be reached by ssh (Connection refused)"),
    ],
)
def test_a_server_that_does_not_let_in_is_understood(options, said, site, tmp_path, monkeypatch):
    (tmp_path / "known").write_text(f"{OTHER_KEY}\n")
    monkeypatch.setenv("SSH_OPTIONS", options.format(folder=tmp_path))
    [answer] = place.ask("sweep", {site.hosts[1]: {"launch": "none"}})
    assert answer.failure.startswith(said)
    assert answer.lost
    assert answer.values == {}


def test_the_users_settings_say_where_a_host_is(site, tmp_path, monkeypatch):
    assert site.hosts[1].address() == "host2"
    (tmp_path / "config").write_text("Host other\nHostName host2\nHost *\nIdentityFile /etc/ssh/identity\n")
    monkeypatch.setenv("SSH_OPTIONS", f"-F {tmp_path}/config")
    assert SshHost("other", 1).address() == "host2"
    [answer] = place.ask("sweep", {SshHost("other", 1): {"launch": "none"}})
    assert answer.failure is None
