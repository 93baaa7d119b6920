"""Virtual hosts for tests, which are skipped where the system doesn't let an ordinary user make them."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from common.errors import UserError
from common.launching.virtual_hosts.cluster import Cluster, VirtualHost, virtual_hosts
from common.launching.virtual_hosts.description import INTERFACE

Host, NAMES = VirtualHost, ("host1", "host2")

HOURS_APART = 3 * 3600.0
"""By how many seconds the clocks of two hosts differ: whatever compares a time of one with another's is far off."""


@contextmanager
def cluster_of(count: int, **settings: object) -> Iterator[Cluster]:
    """A virtual cluster, as `virtual_hosts` makes it with these settings; skips the test where it can't be had."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(virtual_hosts(count, **settings))
        except UserError as error:
            pytest.skip(f"No test hosts: {str(error).removeprefix('No virtual hosts: ')}")
        yield cluster


@contextmanager
def two_hosts() -> Iterator[tuple[VirtualHost, VirtualHost]]:
    """Two hosts that reach each other, and nothing else, by their names, and whose clocks are hours apart."""
    with cluster_of(2, clocks_apart_seconds=HOURS_APART) as cluster:
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


@contextmanager
def ssh_servers(hosts: tuple[VirtualHost, ...], folder: Path) -> Iterator[Path]:
    """Have the hosts' ssh read its settings from `folder`/etc, which the test may change; yields the private key."""
    require_ssh()
    settings = folder / "etc"
    folder.mkdir()
    hosts[0].run("cp", "-r", "/etc/ssh", str(settings))
    for host in hosts:
        host.run("mount", "--bind", str(settings), "/etc/ssh")
    yield settings / "identity"
