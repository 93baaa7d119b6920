"""A virtual cluster, as its maker sees it from outside: hosts joined by shaped links, and a head that reaches all.

They are namespaces of this machine, for any user where the system allows it: each host has a network, a name and mounts
of its own, /dev/shm and /var/tmp in memory, and an ssh server that asks nothing. All ends with the process that made
it, however that ends.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from common.errors import UserError
from common.launching.virtual_hosts import cores, packets
from common.launching.virtual_hosts.description import UNSHAPED, Cable, Description
from common.measurement import machine
from common.paths import ROOT

KEEPER = "common.launching.virtual_hosts.keeper"
"""The program that makes a cluster."""

ENTER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("enter.py")))
"""The program that runs a command in the namespaces of a process; its documentation has its arguments."""

_NAMESPACES = ("--user", "--map-root-user", "--net", "--mount", "--uts", "--ipc", "--pid", "--mount-proc")
_READY_SECONDS, _END_SECONDS = 60.0, 15.0


@dataclass(frozen=True)
class VirtualCluster:
    """Hosts that reach each other and the head, and nothing else, by their names."""

    description: Description
    head: int
    """The process that keeps the head's namespaces; the whole cluster ends with it."""
    network: int
    """The inode of the head's network namespace: another process of that number has another one."""

    def enter(self, *command: str, variables: Mapping[str, str] | None = None) -> list[str]:
        """The command line that runs `command` on the head, where it finds the cluster's description.

        It stands for the command: it passes signals on, its end ends the command, and it ends as the command does. The
        command starts at the repository's root, with these variables beside its environment.
        """
        settings = self.description.variables() | dict(variables or {})
        words = [f"{name}={value}" for name, value in settings.items()]
        return [*ENTER, str(self.head), str(self.network), str(ROOT), *words, "--", *command]

    def run(self, command: Sequence[str], lock: int) -> int:
        """Run the command on the head and return its status; it inherits the `lock` that `machine.alone` gave.

        The command gets the signals that ask this process to leave, whose handlers stay: the process ends with it.
        """
        line = self.enter(*command, variables={machine.MEASURES: str(lock)})
        process = subprocess.Popen(line, pass_fds=(lock,))
        # It leaves in order, and the hosts go when it has. A terminal's ^C reaches it by itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: process.send_signal(number))
        return process.wait()


@contextmanager
def virtual_hosts(count: int, link: Cable = UNSHAPED, cores_per_host: float | None = None) -> Generator[VirtualCluster]:
    """So many hosts, named host1, host2 and so on; all that runs on them ends with the block, or with this process.

    Raises UserError where the system doesn't allow all this.
    """
    if cores_per_host is not None:
        cores.remove_abandoned()
    if not shutil.which("unshare"):
        raise UserError("No virtual hosts: unshare of util-linux not found: install util-linux.")
    description = Description(link, cores_per_host, tuple(f"host{number}" for number in range(1, count + 1)))
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    program = [sys.executable, "-m", KEEPER, msgspec.json.encode(description).decode(), token]
    ours, theirs = packets.pair()
    with ours:
        # In a session of its own: a terminal's ^C is for the programs that run on the cluster.
        process = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", *program],
            cwd=ROOT,
            start_new_session=True,
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        theirs.close()
        with process:
            try:
                description = _made(process, ours)
                [head] = psutil.Process(process.pid).children()
                yield VirtualCluster(description, head.pid, os.stat(f"/proc/{head.pid}/ns/net").st_ino)
            finally:
                ours.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()


def _made(process: subprocess.Popen[str], keeper: socket.socket) -> Description:
    """The cluster that the keeper has made. Raises UserError where the system lets nobody make one."""
    keeper.settimeout(_READY_SECONDS)
    try:
        return packets.receive(keeper, Description)
    except (ConnectionError, TimeoutError) as error:
        process.kill()
        lines = process.communicate()[0].strip().splitlines() or [f"nothing happened in {_READY_SECONDS:g} s"]
        raise UserError(
            f"No virtual hosts: the system doesn't let this user make network namespaces ({lines[-1]}): run it as "
            "root, or allow user namespaces (sysctl user.max_user_namespaces and the like)."
        ) from error
