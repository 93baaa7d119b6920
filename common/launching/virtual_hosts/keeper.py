"""Make a virtual cluster and keep it: the first process of its namespace of processes, started by unshare(1).

It lives as long as its maker, to which its input is a socket. When the maker ends, however it does, so does this
process, and with it the kernel ends all that runs in the cluster, its namespaces and its links.

    python -m common.launching.virtual_hosts.keeper DESCRIPTION TOKEN

answers with the description of what it has made, or why there is none. What outside of the cluster needs a name is
named after the TOKEN.
"""

import asyncio
import os
import pwd
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

import asyncssh
import msgspec
from pyroute2 import IPRoute

from common.errors import PREFIX
from common.launching.virtual_hosts import cables, cores, kernel, packets, ssh_server
from common.launching.virtual_hosts.description import (
    HEAD_ADDRESS,
    HEAD_NAME,
    INTERFACE,
    SOCKET,
    TEMPORARY_FOLDER,
    Description,
    Wish,
    address_of,
)

_HOST_NAMESPACES = kernel.NEW_NETWORK | kernel.NEW_MOUNTS | kernel.NEW_NAME | kernel.NEW_IPC
_SCRATCH = (Path("/dev/shm"), Path(TEMPORARY_FOLDER))
"""What each host has of its own, in memory: as where hosts share no memory, and have disks of their own."""

_SSH_FOLDER = Path("/etc/ssh")
_WAITING_SECONDS = 30.0


def main() -> None:
    """Make the cluster of the description on the command line, and keep it until its maker leaves."""
    if os.getpid() != 1:
        sys.exit(f"{PREFIX}the keeper of virtual hosts ends all processes in the end: start it by unshare(1) alone.")
    maker = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    groups: list[Path] = []
    try:
        description, wires = _make(msgspec.json.decode(sys.argv[1], type=Description), sys.argv[2], groups)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(SOCKET)
            server.listen()
            packets.send(maker, description)
            _serve(maker, server, wires, description.names)
    except Exception as error:
        packets.send(maker, error)
    finally:
        # All in this namespace of processes; the groups can be removed only when these are gone.
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for group in groups:
            cores.remove(group)


def _make(description: Description, token: str, groups: list[Path]) -> tuple[Description, cables.Cables]:
    """The hosts, ready to be used, and their cables; the control groups that are made for them are noted at once."""
    # It lets ssh in everywhere without a question: the user's and the servers' alike.
    key = asyncssh.generate_private_key("ssh-ed25519")
    socket.sethostname(HEAD_NAME)
    _mount_settings(description.names, key)
    cables.settle_network()
    controls = [_start_host(number, description, key) for number in range(1, len(description.names) + 1)]
    keepers = tuple(packets.receive(control, int) for control in controls)
    networks = tuple(os.stat(f"/proc/{keeper}/ns/net").st_ino for keeper in keepers)
    wires = cables.Cables(keepers)
    if description.cores_per_host is not None:
        for name, keeper in zip(description.names, keepers, strict=True):
            groups.append(cores.make(f"{token}-{name}", description.cores_per_host, keeper))
    for control in controls:
        packets.send(control)
    for control in controls:
        packets.receive(control, type(None))
    wires.shape(description.link)
    return replace(description, keepers=keepers, networks=networks), wires


def _mount_settings(names: tuple[str, ...], key: asyncssh.SSHKey) -> None:
    """Put this cluster's hosts and key in the place of the system's, for the head and for all that is made from it.

    They are in memory alone, and nothing of the user's ssh is read or written.
    """
    with suppress(OSError):  # There may be none, or none that this user may see, which ssh doesn't either.
        kernel.mount_memory(Path(pwd.getpwuid(0).pw_dir, ".ssh"), "0700")
    folder = _SSH_FOLDER if _SSH_FOLDER.is_dir() else Path(TEMPORARY_FOLDER)
    kernel.mount_memory(folder)
    addresses = {"localhost": "127.0.0.1", HEAD_NAME: HEAD_ADDRESS}
    addresses |= {name: address_of(number) for number, name in enumerate(names, start=1)}
    lines = "".join(f"{address} {name}\n" for name, address in addresses.items())
    (folder / "hosts").write_text(lines, encoding="utf-8")
    kernel.bind(folder / "hosts", Path("/etc/hosts"))
    identity, public_key = folder / "identity", key.export_public_key().decode()
    identity.touch(mode=0o600)
    key.write_private_key(identity)
    lines = "".join(f"{name},{address} {public_key}" for name, address in addresses.items())
    (folder / "ssh_known_hosts").write_text(lines, encoding="utf-8")
    # There is no file of the user's for hosts that aren't known: ssh would ask for each, or write it.
    lines = f"IdentityFile {identity}\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\n"
    (folder / "ssh_config").write_text(lines, encoding="utf-8")


def _start_host(number: int, description: Description, key: asyncssh.SSHKey) -> socket.socket:
    """Start the process that becomes the host of this number, counted from 1, and return the way to talk to it.

    It tells its own number when it is in namespaces of its own, goes on when it gets an answer, and tells when it is
    ready.
    """
    ours, theirs = packets.pair()
    if os.fork() == 0:
        ours.close()
        _reporting(theirs, lambda: be_host(number, description, key, theirs))
    theirs.close()
    ours.settimeout(_WAITING_SECONDS)
    return ours


def be_host(number: int, description: Description, key: asyncssh.SSHKey, control: socket.socket) -> NoReturn:
    """Become the host of this number, counted from 1, as `control` asks, and stay it."""
    kernel.unshare(_HOST_NAMESPACES)
    cables.settle_network()
    packets.send(control, os.getpid())
    packets.receive(control, type(None))
    socket.sethostname(description.names[number - 1])
    available = sorted(os.sched_getaffinity(0))
    share = cores.cores_of(number, len(description.names), available, description.cores_per_host)
    os.sched_setaffinity(0, share)
    for folder in _SCRATCH:
        kernel.mount_memory(folder, "1777")
    address = address_of(number)
    with IPRoute() as routes:
        [cable] = routes.link_lookup(ifname=INTERFACE)
        routes.addr("add", index=cable, address=address, prefixlen=24)
        for interface in (cable, *routes.link_lookup(ifname="lo")):
            routes.link("set", index=interface, state="up")
        while next(iter(routes.get_links(cable))).get_attr("IFLA_OPERSTATE") != "UP":
            time.sleep(0.005)
    if os.fork() == 0:
        serving = ssh_server.serve(address, key, lambda: packets.send(control))
        _reporting(control, lambda: asyncio.run(serving))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


def _reporting(control: socket.socket, work: Callable[[], object]) -> NoReturn:
    """Do the work of a process of its own, and say what went wrong."""
    try:
        work()
    except BaseException as error:
        with suppress(OSError):
            packets.send(control, error)
    finally:
        os._exit(1)


def _serve(maker: socket.socket, server: socket.socket, wires: cables.Cables, names: Sequence[str]) -> None:
    """Shape the links of these hosts, and plug them in and out, as programs on the head ask, until the maker leaves."""
    while True:
        _reap()
        readable, _, _ = select.select([maker, server], [], [])
        if maker in readable:
            return
        connection, _ = server.accept()
        # Whoever asks does so at once, but for a busy machine. The maker isn't heard meanwhile.
        connection.settimeout(10.0)
        # Shaping waits for children of its own.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with connection, suppress(OSError):
            try:
                wish = packets.receive(connection, Wish)
                if wish.link:
                    wires.shape(wish.link)
                else:
                    wires.plug(names.index(wish.name), wish.is_in)
                packets.send(connection)
            except Exception as error:
                packets.send(connection, error)


def _reap(_number: int = 0, _frame: FrameType | None = None) -> None:
    """End the entries of processes that have ended, now and later: the first process is the parent of all orphans."""
    signal.signal(signal.SIGCHLD, _reap)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
