"""Virtual hosts for tests, which are skipped where the system doesn't let an ordinary user make them."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import psutil
import pytest

from common.errors import UserError
from common.launching.virtual_hosts import virtual_cluster
from common.launching.virtual_hosts.description import HEAD_NAME, INTERFACE, TEMPORARY_FOLDER
from common.launching.virtual_hosts.virtual_cluster import ENTER, virtual_hosts
from common.paths import ROOT
from tests import hosts_apart
from tests.conftest import run_command


@dataclass(frozen=True)
class VirtualHost:
    """A virtual host, or the head, as its tests see it from outside."""

    name: str
    keeper: int
    """The process that holds the namespaces, and is none of those that run on the host."""
    network: int
    """The inode of its network namespace."""

    def enter(self, *command: str) -> list[str]:
        """The command line that runs `command` on this host, with its cores, and its folder for temporary files."""
        words = [] if self.name == HEAD_NAME else [f"TMPDIR={TEMPORARY_FOLDER}"]
        pinned = ["taskset", "--cpu-list", ",".join(map(str, os.sched_getaffinity(self.keeper)))]
        place = [str(self.keeper), str(self.network), str(ROOT)]
        return [*pinned, *ENTER, *place, *words, "--", *command]

    def run(self, *command: str) -> str:
        """Run `command` and return what it printed; raises RuntimeError, which has that, where it fails."""
        status, output = run_command(self.enter(*command))
        if status:
            raise RuntimeError(f"{self.name}: {' '.join(command)} ended with {status}:\n{output}")
        return output

    def start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start `command` on this host, from the repository's root, with its output in one pipe."""
        return subprocess.Popen(
            self.enter(*command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )


@dataclass(frozen=True)
class Cluster:
    """A virtual cluster and its hosts."""

    made: virtual_cluster.VirtualCluster
    hosts: tuple[VirtualHost, ...]
    head: VirtualHost


def seen_from_outside(made: virtual_cluster.VirtualCluster) -> Cluster:
    """The cluster's hosts, by the numbers that their processes have here."""
    description, here = made.description, {}
    for process in psutil.Process(made.head).children(recursive=True):
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
            [both] = [line.split() for line in lines if line.startswith("NSpid:")]
            here[int(both[-1])] = process.pid
    known = zip(description.names, description.keepers, description.networks, strict=True)
    hosts = tuple(VirtualHost(name, here[keeper], network) for name, keeper, network in known)
    return Cluster(made, hosts, VirtualHost(HEAD_NAME, made.head, made.network))


@contextmanager
def cluster_of(count: int, clocks_apart: bool = False, **settings: object) -> Iterator[Cluster]:
    """A virtual cluster, as `virtual_hosts` makes it with these settings; skips the test where it can't be had."""
    keeper = hosts_apart.__name__ if clocks_apart else virtual_cluster.KEEPER
    with ExitStack() as stack:
        try:
            with mock.patch.object(virtual_cluster, "KEEPER", keeper):
                made = stack.enter_context(virtual_hosts(count, **settings))
        except UserError as error:
            pytest.skip(f"No test hosts: {str(error).removeprefix('No virtual hosts: ')}")
        yield seen_from_outside(made)


@contextmanager
def two_hosts() -> Iterator[tuple[VirtualHost, VirtualHost]]:
    """Two hosts that reach each other, and nothing else, by their names, and whose clocks are hours apart."""
    with cluster_of(2, clocks_apart=True) as cluster:
        yield cluster.hosts


def processes_of(host: VirtualHost) -> list[int]:
    """The process ids of all that run on the host, those included whose parent is gone, but its keeper.

    They are those of whoever asks: on the host itself they are others.
    """
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        # It may have ended meanwhile, or be another user's.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if pid != host.keeper and os.stat(f"/proc/{pid}/ns/net").st_ino == host.network:
                found.append(pid)
    return found


def kill_processes_of(host: VirtualHost) -> None:
    """Kill all that run on the host, its ssh server with it, and return when none does."""
    while processes := processes_of(host):
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def bytes_sent_by(host: VirtualHost) -> int:
    """Bytes that the host has sent over its cable, packet headers included."""
    lines = Path(f"/proc/{host.keeper}/net/dev").read_text(encoding="utf-8").splitlines()
    [counters] = [line.split() for line in lines if line.lstrip().startswith(f"{INTERFACE}:")]
    return int(counters[9])


def require_ssh() -> None:
    """Skip the test where there is no ssh."""
    if not shutil.which("ssh"):
        pytest.skip("No ssh between the test hosts: the program ssh isn't found.")
