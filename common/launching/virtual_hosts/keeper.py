"""Make a virtual cluster and keep it: the first process of its namespace of processes, started by unshare(1).

It lives while its input is open, which its maker has the other end of. When the maker ends, however it does, so does
this process, and with it the kernel ends all that runs in the cluster, its namespaces and its links.

    python -m common.launching.virtual_hosts.keeper SETTINGS

prints one line when the cluster is ready, or why there is none.
"""

import asyncio
import json
import os
import pwd
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import asyncssh
from pyroute2 import IPRoute

from common.errors import PREFIX, UserError
from common.launching.virtual_hosts import cables, cores, kernel
from common.launching.virtual_hosts.cables import Cables
from common.launching.virtual_hosts.description import HEAD_ADDRESS, HEAD_NAME, INTERFACE, Link, Settings, address_of
from common.launching.virtual_hosts.link import SOCKET
from common.launching.virtual_hosts.ssh_server import SshServer

SCRATCH = (Path("/dev/shm"), Path("/var/tmp"))
"""What each host has of its own, in memory: as where hosts share no memory, and have disks of their own."""

_HOST_NAMESPACES = kernel.NEW_NETWORK | kernel.NEW_MOUNTS | kernel.NEW_NAME | kernel.NEW_IPC
_SSH_FOLDER = Path("/etc/ssh")
_WAITING_SECONDS = 30.0
_REQUEST_BYTES = 4096


@dataclass(frozen=True)
class Keys:
    """What lets ssh in everywhere without a question: a key for the user, and one for the servers."""

    user: asyncssh.SSHKey
    server: asyncssh.SSHKey

    def authorized(self) -> asyncssh.SSHAuthorizedKeys:
        """Whom the servers let in."""
        return asyncssh.import_authorized_keys(self.user.export_public_key().decode())


@dataclass(frozen=True)
class HostProcess:
    """The process that keeps a host's namespaces, and the way to talk to it."""

    number: int
    pid: int
    control: socket.socket


def main() -> None:
    """Make the cluster of the settings on the command line, and keep it until this program's input ends."""
    if os.getpid() != 1:
        sys.exit(f"{PREFIX}the keeper of virtual hosts ends all processes in the end: start it by unshare(1) alone.")
    settings = Settings.read(sys.argv[1])
    groups: list[Path] = []
    try:
        hosts = _make(settings, groups)
        wires = Cables([host.pid for host in hosts])
        wires.shape(settings.link)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(SOCKET)
            server.listen()
            ready = [
                {"pid": host.pid, "group": str(group)}
                for host, group in zip(hosts, groups or [""] * len(hosts), strict=True)
            ]
            print(json.dumps({"ready": ready}), flush=True)
            _serve(server, wires, settings.names)
    except Exception as error:
        print(json.dumps(_failure(error)), flush=True)
    finally:
        # All in this namespace of processes; the groups can be removed only when these are gone.
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for group in groups:
            cores.remove(group)


def _make(settings: Settings, groups: list[Path]) -> list[HostProcess]:
    """The hosts, ready to be used; the control groups that are made for them are noted at once."""
    keys = Keys(asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519"))
    socket.sethostname(HEAD_NAME)
    _mount_settings(settings.names, keys)
    cables.silence_interfaces()
    cables.settle_network()
    hosts = [_start_host(number, settings, keys) for number in range(1, len(settings.names) + 1)]
    cables.lay(HEAD_ADDRESS, [host.pid for host in hosts])
    if settings.cores_per_host is not None:
        for host, name in zip(hosts, settings.names, strict=True):
            groups.append(cores.make(f"{settings.token}-{name}", settings.cores_per_host, [host.pid]))
    for host in hosts:
        _send(host.control, {"go": True})
    for host in hosts:
        _receive(host.control)
    return hosts


def _mount_settings(names: tuple[str, ...], keys: Keys) -> None:
    """Put this cluster's hosts and keys in the place of the system's, for the head and for all that is made from it.

    They are in memory alone, and nothing of the user's ssh is read or written.
    """
    with suppress(OSError):  # There may be none, or none that this user may see, which ssh doesn't either.
        kernel.mount_memory(Path(pwd.getpwuid(0).pw_dir, ".ssh"), "0700")
    folder = SCRATCH[1]
    kernel.mount_memory(folder)
    addresses = {"localhost": "127.0.0.1", HEAD_NAME: HEAD_ADDRESS}
    addresses |= {name: address_of(number) for number, name in enumerate(names, start=1)}
    (folder / "hosts").write_text(
        "".join(f"{address} {name}\n" for name, address in addresses.items()), encoding="utf-8"
    )
    kernel.bind(folder / "hosts", Path("/etc/hosts"))
    ssh = folder / "ssh"
    ssh.mkdir()
    identity, public_key = ssh / "identity", keys.server.export_public_key().decode()
    identity.touch(mode=0o600)
    keys.user.write_private_key(identity)
    known = [f"{name},{address} {public_key}" for name, address in addresses.items()]
    (ssh / "ssh_known_hosts").write_text("".join(known), encoding="utf-8")
    # There is no file of the user's for hosts that aren't known: ssh would ask for each, or write it.
    lines = [f"IdentityFile {_SSH_FOLDER / identity.name}", "IdentitiesOnly yes", "UserKnownHostsFile /dev/null"]
    (ssh / "ssh_config").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if _SSH_FOLDER.is_dir():
        kernel.bind(ssh, _SSH_FOLDER)
    kernel.unmount(folder)


def _start_host(number: int, settings: Settings, keys: Keys) -> HostProcess:
    """A new process in namespaces of its own, which becomes a host when it's told to go."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _reporting(theirs, lambda: _be_host(number, settings, keys, theirs))
    theirs.close()
    ours.settimeout(_WAITING_SECONDS)
    return HostProcess(number, _receive(ours)["pid"], ours)


def _be_host(number: int, settings: Settings, keys: Keys, control: socket.socket) -> NoReturn:
    kernel.unshare(_HOST_NAMESPACES)
    cables.settle_network()
    if settings.clocks_apart_seconds:
        _enter_time(number * settings.clocks_apart_seconds)
    _send(control, {"pid": os.getpid()})
    _receive(control)
    socket.sethostname(settings.names[number - 1])
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores.cores_of(number, len(settings.names), available, settings.cores_per_host))
    for folder in SCRATCH:
        kernel.mount_memory(folder, "1777")
    _raise_interfaces(address_of(number))
    listening, tell = os.pipe()
    if os.fork() == 0:
        _silence()
        server = SshServer(address_of(number), keys.server, keys.authorized())
        _reporting(control, lambda: asyncio.run(server.serve(lambda: os.write(tell, b"!"))))
    os.close(tell)
    if os.read(listening, 1):
        _send(control, {"ready": True})
    _silence()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


def _enter_time(ahead_seconds: float) -> None:
    """Go on as a process whose clocks are ahead (time_namespaces(7))."""
    try:
        kernel.unshare(kernel.NEW_TIME)
        seconds = int(ahead_seconds)
        nanoseconds = int((ahead_seconds - seconds) * 1e9)
        offsets = "".join(f"{clock} {seconds} {nanoseconds}\n" for clock in ("monotonic", "boottime"))
        Path("/proc/self/timens_offsets").write_text(offsets, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"Virtual hosts can't be given clocks of their own ({error.strerror}): this takes Linux 5.6 or newer with "
            "time namespaces; leave the clocks as they are."
        ) from error
    if os.fork():
        os._exit(0)


def _raise_interfaces(address: str) -> None:
    """Switch the host's interfaces on, and return when its cable carries."""
    with IPRoute() as routes:
        [cable] = routes.link_lookup(ifname=INTERFACE)
        routes.addr("add", index=cable, address=address, prefixlen=24)
        for interface in (cable, *routes.link_lookup(ifname="lo")):
            routes.link("set", index=interface, state="up")
        while next(iter(routes.get_links(cable))).get_attr("IFLA_OPERSTATE") != "UP":
            time.sleep(0.005)


def _serve(server: socket.socket, wires: Cables, names: tuple[str, ...]) -> None:
    """Do what programs on the head ask for, until this program's input ends."""
    waker, wakes = socket.socketpair()
    wakes.setblocking(False)
    # The first process is the parent of all whose own has ended.
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    connections: set[socket.socket] = set()
    while True:
        readable, _, _ = select.select([sys.stdin, server, waker, *connections], [], [])
        if sys.stdin in readable and not os.read(sys.stdin.fileno(), 4096):
            return
        if waker in readable:
            waker.recv(4096)
            _reap()
        if server in readable:
            connections.add(server.accept()[0])
        for connection in connections.intersection(readable):
            connections.remove(connection)
            with suppress(OSError):
                _answer(connection, wires, names)
            _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: socket.socket, wires: Cables, names: tuple[str, ...]) -> None:
    """Do what the connection asks for, in one piece: a part of a request is refused, and its rest never waited for."""
    with connection:
        try:
            request = json.loads(connection.recv(_REQUEST_BYTES))
            if "link" in request:
                wires.shape(Link(**request["link"]))
            else:
                wires.plug(names.index(request["host"]) + 1, request["plugged"])
            reply = {"done": True}
        except Exception as error:
            reply = _failure(error)
        _send(connection, reply)


def _reporting(control: socket.socket, work: Callable[[], object]) -> NoReturn:
    """Do the work of a process of its own, and say what went wrong."""
    try:
        work()
    except BaseException as error:
        with suppress(OSError):
            _send(control, _failure(error))
    finally:
        os._exit(1)


def _failure(error: BaseException) -> dict[str, str]:
    if isinstance(error, UserError):
        return {"refused": str(error)}
    return {"failed": "".join(traceback.format_exception(error))}


def _send(control: socket.socket, message: Mapping[str, object]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _receive(control: socket.socket) -> dict[str, Any]:
    """The next message; raises UserError or RuntimeError for one that says what went wrong, or where there is none."""
    line = b""
    while not line.endswith(b"\n"):
        part = control.recv(4096)
        if not part:
            raise RuntimeError("A host's keeper has ended before its time.")
        line += part
    message = json.loads(line)
    if "refused" in message:
        raise UserError(message["refused"])
    if "failed" in message:
        raise RuntimeError(message["failed"])
    return message


def _silence() -> None:
    """Read and write nothing from now on: the maker reads what the first process says alone."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


if __name__ == "__main__":
    main()
