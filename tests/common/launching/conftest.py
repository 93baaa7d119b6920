"""What the tests of hosts share: this machine as hosts that a played ssh reaches, and two hosts that ssh reaches."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from common.launching.hosts.supervisor import LAUNCH
from common.launching.places.ssh import SshHost
from tests import launching
from tests.hosts import Cluster, VirtualHost, cluster_of, processes_of, require_ssh


@pytest.fixture
def launch_id(tmp_path):
    """A name that no launch of another run of these tests has."""
    return f"{tmp_path.name}-{os.getpid()}"


PLAYED_SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
case "$1 $2" in
    gone*) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255;;
    silent*run) echo '{"folder": null}'; exec sleep 600;;
    silent*sweep) exit 255;;
    silent*) exec sleep 600;;
    chatty*run) echo '{"folder": null}'; exec yes;;
    chatty*) printf '{"a": "'; head -c 200000 /dev/zero | tr '\\0' x; echo '"}';;
    hostile*run) echo '{"folder": "a folder"}';;
    hostile*collect) echo '{"run.json": "eA==", "../../x": "eA=="}';;
    hostile*) ;;
    *) echo Welcome!; exec /bin/sh -c "$2";;
esac
"""


@pytest.fixture
def played_ssh(tmp_path, monkeypatch):
    """`ssh` in PATH that reaches this machine, whose shell prints a line first, under any name but four.

    `gone` and `silent` lose what runs, `chatty` never stops to print, and answers more than a pipe holds. `hostile`
    sends back a file that it wasn't asked for.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(PLAYED_SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.fixture
def stray(launch_id):
    """A process of the launch in a session of its own that is no agent's descendant, as mpirun's daemons are none."""
    environment = os.environ | {LAUNCH: launch_id}
    process = subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True)
    yield process
    process.kill()
    process.wait()


@dataclass(frozen=True)
class Site:
    """Two hosts whose clocks are hours apart, each with an ssh server, and `ssh` in PATH that connects from their head.

    What the environment variable SSH_OPTIONS has comes before that `ssh`'s own options.
    """

    machines: tuple[VirtualHost, ...]
    servers: tuple[int, ...]
    """What runs on each host from the beginning."""

    @property
    def hosts(self) -> list[SshHost]:
        """The hosts as a user names them."""
        return [SshHost(machine.name, 2) for machine in self.machines]

    def left(self) -> list[str]:
        """The command lines of what runs on the hosts beside their servers, and the files in their /var/tmp."""
        pids = {pid for machine in self.machines for pid in processes_of(machine)} - {*self.servers}
        files = [line for machine in self.machines for line in machine.run("ls", "/var/tmp").splitlines()]
        return [" ".join(psutil.Process(pid).cmdline()) for pid in pids if launching.is_running(pid)] + files


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two hosts whose clocks are hours apart. Whoever changes them, or leaves something there, undoes it."""
    with cluster_of(2, clocks_apart=True) as made:
        yield made


@pytest.fixture
def site(cluster, tmp_path, monkeypatch) -> Site:
    """The cluster's hosts as real ones."""
    require_ssh()
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(cluster.head.enter(shutil.which("ssh")))} $SSH_OPTIONS "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Site(cluster.hosts, tuple(processes_of(machine)[0] for machine in cluster.hosts))
