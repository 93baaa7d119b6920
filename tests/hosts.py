"""Two hosts joined by a cable, on this machine and for any user: network namespaces and the veth pair between them."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute, NetlinkError

from common.launch import ROOT

ADDRESSES = ("10.77.0.1", "10.77.0.2")

INTERFACE = "veth0"
"""Each host's end of the cable."""

_NO_CABLE_STATUS = 3
"""Exit status of this program where the kernel has no veth pairs."""


@dataclass(frozen=True)
class Host:
    """A network namespace, which lasts as long as a process is in it."""

    address: str
    keeper: int
    """The process that holds the namespace and does nothing else."""

    def enter(self, *command: str) -> list[str]:
        """The command line that runs `command` on this host."""
        return ["nsenter", "--target", str(self.keeper), "--user", "--net", "--preserve-credentials", "--", *command]

    def start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen:
        """Start `command` on this host, from the repository's root, with its output in one pipe."""
        return subprocess.Popen(
            self.enter(*command),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> list[int]:
        """The process ids of all that run on this host, those included whose parent is gone, but its keeper."""
        namespace = os.readlink(f"/proc/{self.keeper}/ns/net")
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            # It may have ended meanwhile, or be another user's.
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if pid != self.keeper and os.readlink(f"/proc/{pid}/ns/net") == namespace:
                    found.append(pid)
        return found

    def kill_processes(self) -> None:
        """Kill all that run on this host, and return when none does."""
        while processes := self.processes():
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def bytes_sent(self) -> int:
        """Bytes that this host has sent over the cable, packet headers included."""
        lines = Path(f"/proc/{self.keeper}/net/dev").read_text().splitlines()
        [counters] = [line.split() for line in lines if line.lstrip().startswith(f"{INTERFACE}:")]
        return int(counters[9])


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other, and nothing else, by their ADDRESSES; they end with all that runs on them.

    Skips the test where the system doesn't let an ordinary user make them.
    """
    if missing := [program for program in ("unshare", "nsenter") if not shutil.which(program)]:
        pytest.skip(f"No test hosts: {' and '.join(missing)} of util-linux not found.")
    with ExitStack() as keepers:
        # One user namespace owns both network namespaces: who is in it may lay the cable between them.
        first = Host(ADDRESSES[0], keepers.enter_context(_keeper(["unshare", "--user", "--map-root-user", "--net"])))
        second = Host(ADDRESSES[1], keepers.enter_context(_keeper(first.enter("unshare", "--net"))))
        _join(first, second)
        try:
            yield first, second
        finally:
            first.kill_processes()
            second.kill_processes()


@contextmanager
def _keeper(unshare: list[str]) -> Iterator[int]:
    """The process id of a new namespace's keeper, which also ends when this process does: its input ends then."""
    command = [*unshare, "sh", "-c", "echo ready && exec cat"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            # nsenter and unshare become the shell, and it becomes cat: all have this process id.
            line = process.stdout.readline().strip()
            if line != "ready":
                pytest.skip(f"No test hosts: the system doesn't let this user make network namespaces ({line}).")
            yield process.pid
        finally:
            process.kill()


def _join(first: Host, second: Host) -> None:
    """Lay a cable between two hosts, and give its ends their addresses."""
    command = first.enter(sys.executable, "-m", "tests.hosts", str(second.keeper))
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if result.returncode == _NO_CABLE_STATUS:
        pytest.skip("No test hosts: this kernel has no veth pairs.")
    if result.returncode:
        raise RuntimeError(f"The test hosts can't be joined:\n{result.stdout}")


def main() -> None:
    """On the first host: join it to the one whose keeper the command line names, and wait until the cable carries."""
    keeper = int(sys.argv[1])
    with IPRoute() as first, IPRoute(netns=f"/proc/{keeper}/ns/net", flags=0) as second:
        try:
            first.link("add", ifname=INTERFACE, kind="veth", peer={"ifname": INTERFACE, "net_ns_pid": keeper})
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                sys.exit(_NO_CABLE_STATUS)
            raise
        ends = [(host, host.link_lookup(ifname=INTERFACE)[0]) for host in (first, second)]
        for (host, index), address in zip(ends, ADDRESSES, strict=True):
            host.addr("add", index=index, address=address, prefixlen=24)
            for up in (index, *host.link_lookup(ifname="lo")):
                host.link("set", index=up, state="up")
        while {host.get_links(index)[0].get_attr("IFLA_OPERSTATE") for host, index in ends} != {"UP"}:
            time.sleep(0.01)


if __name__ == "__main__":
    main()
