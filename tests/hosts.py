"""Two hosts joined by a cable, on this machine and for any user: namespaces, and the veth pair between them."""

import errno
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest
from pyroute2 import IPRoute, NetlinkError

from common.catalogue import ROOT

ADDRESSES = ("10.77.0.1", "10.77.0.2")

NAMES = ("host1", "host2")
"""The hosts' names, which both resolve to these addresses."""

INTERFACE = "veth0"
"""Each host's end of the cable."""

_NAMESPACES = ("--net", "--uts", "--mount")
"""What a host has of its own: network, name and mounts."""

_SSH_FOLDER = Path("/etc/ssh")
"""Where OpenSSH's client looks for its settings, and for the hosts that it knows."""

_NO_CABLE_STATUS = 3
"""Exit status of this program where the kernel has no veth pairs."""


@dataclass(frozen=True)
class Host:
    """A network namespace, with a name and mounts of its own, which lasts as long as a process is in it."""

    name: str
    address: str
    keeper: int
    """The process that holds the namespace and does nothing else."""

    def enter(self, *command: str) -> list[str]:
        """The command line that runs `command` on this host."""
        namespaces = ["--target", str(self.keeper), "--user", *_NAMESPACES, "--preserve-credentials"]
        return ["nsenter", *namespaces, f"--wd={ROOT}", "--", *command]

    def run(self, *command: str) -> None:
        """Run `command`, which prepares the host; raises RuntimeError, with what it printed, where it fails."""
        result = subprocess.run(self.enter(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            raise RuntimeError(f"{self.name} can't be prepared:\n{result.stdout}")

    def start(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen:
        """Start `command` on this host, from the repository's root, with its output in one pipe."""
        return subprocess.Popen(
            self.enter(*command),
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
    """Two hosts that reach each other, and nothing else, by NAMES and ADDRESSES; they end with all that runs on them.

    Skips the test where the system doesn't let an ordinary user make them.
    """
    if missing := [program for program in ("unshare", "nsenter", "mount") if not shutil.which(program)]:
        pytest.skip(f"No test hosts: {' and '.join(missing)} of util-linux not found.")
    with ExitStack() as keepers:
        # One user namespace owns both network namespaces: who is in it may lay the cable between them.
        unshare = ["unshare", "--user", "--map-root-user", *_NAMESPACES]
        first = Host(NAMES[0], ADDRESSES[0], keepers.enter_context(_keeper(unshare)))
        second = Host(NAMES[1], ADDRESSES[1], keepers.enter_context(_keeper(first.enter("unshare", *_NAMESPACES))))
        _join(first, second)
        folder = Path(keepers.enter_context(tempfile.TemporaryDirectory()))
        for host in (first, second):
            _name(host, folder)
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


def _name(host: Host, folder: Path) -> None:
    """Give a host its name, and the means to find both hosts by theirs."""
    # An ordinary user is let through to the system call, and not to /proc/sys/kernel/hostname.
    host.run(sys.executable, "-c", f"import socket; socket.sethostname({host.name!r})")
    pairs = [("127.0.0.1", "localhost"), *zip(ADDRESSES, NAMES, strict=True)]
    table = folder / "hosts"
    table.write_text("".join(f"{address} {name}\n" for address, name in pairs))
    host.run("mount", "--bind", str(table), "/etc/hosts")


def _join(first: Host, second: Host) -> None:
    """Lay a cable between two hosts, and give its ends their addresses."""
    command = first.enter(sys.executable, "-m", "tests.hosts", str(second.keeper))
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if result.returncode == _NO_CABLE_STATUS:
        pytest.skip("No test hosts: this kernel has no veth pairs.")
    if result.returncode:
        raise RuntimeError(f"The test hosts can't be joined:\n{result.stdout}")


@contextmanager
def ssh_servers(hosts: tuple[Host, ...], folder: Path) -> Iterator[Path]:
    """A real ssh server on port 22 of each host, which lets in who has the private key at the path that this yields.

    On the hosts ssh knows the servers by their keys, and neither reads nor writes what the user has in ~/.ssh and
    /etc/ssh. Skips the test where there is no ssh.
    """
    if not shutil.which("ssh"):
        pytest.skip("No ssh between the test hosts: the program ssh isn't found.")
    folder.mkdir()
    settings, empty = folder / "etc", folder / "empty"
    settings.mkdir()
    empty.mkdir()
    identity, server_key = folder / "identity", folder / "server_key"
    write_key(identity)
    known = write_key(server_key)
    (settings / "ssh_known_hosts").write_text("".join(f"{host.name},{host.address} {known}\n" for host in hosts))
    # Without a terminal to ask at, a password's prompt would be an error; with one, it would wait for somebody.
    (settings / "ssh_config").write_text("IdentitiesOnly yes\n")
    home = Path(pwd.getpwuid(0).pw_dir) / ".ssh"
    with ExitStack() as servers:
        for host in hosts:
            host.run("mount", "--bind", str(settings), str(_SSH_FOLDER))
            with suppress(PermissionError):
                if home.is_dir():
                    host.run("mount", "--bind", str(empty), str(home))
            servers.enter_context(_ssh_server(host, server_key, identity.with_suffix(".pub")))
        yield identity


def write_key(path: Path) -> str:
    """Write a new private key to `path` and its public key beside it; returns the public key's line."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.touch(mode=0o600)
    key.write_private_key(path)
    key.write_public_key(path.with_suffix(".pub"))
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def _ssh_server(host: Host, key: Path, authorized: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.ssh_server", host.address, str(key), str(authorized)]
    with host.start(command, os.environ) as server:
        try:
            line = server.stdout.readline().strip()
            if line != "ready":
                raise RuntimeError(f"No ssh server on {host.name}:\n{line}\n{server.stdout.read()}")
            yield
        finally:
            server.kill()


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
