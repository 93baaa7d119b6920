"""A virtual cluster, as its maker sees it from outside: hosts joined by shaped links, and a head that reaches all.

They are namespaces of this machine, for any user where the system allows it: each host has a network, a name, mounts
and, where asked for, clocks of its own, /dev/shm and /var/tmp in memory, and an ssh server that asks nothing. All ends
with the process that made it, however that ends.
"""

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import psutil

from common.errors import PREFIX, REFUSED_STATUS, UserError
from common.launching.virtual_hosts import calibration, cores
from common.launching.virtual_hosts.calibration import Calibration
from common.launching.virtual_hosts.description import (
    HEAD_ADDRESS,
    HEAD_NAME,
    MOST_HOSTS,
    TEMPORARY_FOLDER,
    UNSHAPED,
    Description,
    Link,
    Settings,
    address_of,
)
from common.launching.virtual_hosts.link import plug_request, shape_request
from common.paths import ROOT

_ENTER = Path(__file__).with_name("enter.py")
_NAMESPACES = ("--user", "--map-root-user", "--net", "--mount", "--uts", "--ipc", "--pid", "--mount-proc")
_READY_SECONDS, _END_SECONDS = 60.0, 15.0


@dataclass(frozen=True)
class VirtualHost:
    """Namespaces with a name and an address, which last as long as the process that keeps them."""

    name: str
    address: str
    keeper: int
    """The process that holds the namespaces, and is none of those that run on the host."""
    network: int
    """The inode of its network namespace: another process of the keeper's number has another one."""
    group: str = ""
    """The folder of the control group that limits what the host computes; empty where it has all cores."""
    head: "VirtualHost | None" = None
    """The other end of its cable; the head has none."""

    def enter(self, *command: str, variables: Mapping[str, str] | None = None) -> list[str]:
        """The command line that runs `command` on this host, from the repository's root.

        It stands for the command: it passes signals on, its end ends the command, and it ends as the command does. Any
        `variables` are set beside the environment that it is started with.
        """
        own = {"TMPDIR": TEMPORARY_FOLDER} if self.head else {}
        words = [f"{name}={value}" for name, value in (own | dict(variables or {})).items()]
        enter = [sys.executable, "-I", "-S", str(_ENTER), str(self.keeper), str(self.network), str(ROOT), self.group]
        return [*enter, *words, "--", *command]

    def run(self, *command: str) -> str:
        """Run `command` and return what it printed; raises RuntimeError, which has that, where it fails."""
        result = subprocess.run(
            self.enter(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        if result.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(command)} ended with {result.returncode}:\n{result.stdout}")
        return result.stdout

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

    def pull_cable(self) -> None:
        """From now on nothing reaches this host, and nothing from it anybody."""
        _ask(self.head or self, plug_request(self.name, plugged=False))

    def plug_cable(self) -> None:
        """Undo `pull_cable`."""
        _ask(self.head or self, plug_request(self.name, plugged=True))


class Cluster:
    """Hosts that reach each other and the head, and nothing else, by their names."""

    def __init__(self, hosts: tuple[VirtualHost, ...], head: VirtualHost, description: Description) -> None:
        self.hosts = hosts
        self.head = head
        self.description = description
        """As the programs on the head find it."""

    @property
    def interface(self) -> str:
        """Each host's end of its cable."""
        return self.description.interface

    def enter(self, *command: str) -> list[str]:
        """The command line that runs `command` on the head, where it finds the cluster's description."""
        return self.head.enter(*command, variables=self.description.variables())

    def shape(self, link: Link) -> None:
        """Make the cables like this from now on; what is on its way is lost. Raises UserError where they can't be."""
        _ask(self.head, shape_request(link))
        self.description = replace(self.description, link=link)

    def calibrate(self) -> Calibration:
        """What the link is like by measurement; raises UserError where that isn't what was asked for."""
        output = _output_of(self.enter(sys.executable, "-m", calibration.__name__))
        return Calibration(**json.loads(output))


@contextmanager
def virtual_hosts(
    count: int, link: Link = UNSHAPED, cores_per_host: float | None = None, clocks_apart_seconds: float = 0.0
) -> Generator[Cluster]:
    """So many hosts, named host1, host2 and so on; all that runs on them ends with the block, or with this process.

    With `clocks_apart_seconds` the clocks of each host that count from the machine's start (CLOCK_MONOTONIC and
    CLOCK_BOOTTIME) are as much ahead of the last one's, and the first one's of the head's. Raises UserError where the
    system doesn't allow all this.
    """
    if not 1 <= count <= MOST_HOSTS:
        raise UserError(f"{count} virtual hosts: give 1 to {MOST_HOSTS}.")
    if cores_per_host is not None:
        cores.check(cores_per_host)
        cores.remove_abandoned()
    names = tuple(f"host{number}" for number in range(1, count + 1))
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    settings = Settings(names, link, cores_per_host, clocks_apart_seconds, token)
    with _keeper(settings) as (process, ready):
        outside = _outside_numbers(process.pid)
        head = VirtualHost(HEAD_NAME, HEAD_ADDRESS, outside[1], _network_of(outside[1]))
        numbers = [outside[made["pid"]] for made in ready]
        hosts = tuple(
            VirtualHost(name, address_of(number), keeper, _network_of(keeper), made["group"], head)
            for number, (name, keeper, made) in enumerate(zip(names, numbers, ready, strict=True), start=1)
        )
        keepers, networks = tuple(made["pid"] for made in ready), tuple(host.network for host in hosts)
        yield Cluster(hosts, head, Description(link, cores_per_host, names, keepers, networks))


@contextmanager
def _keeper(settings: Settings) -> Generator[tuple[subprocess.Popen[bytes], list[dict[str, Any]]]]:
    """The process that has made the cluster's keeper, and what that says of its hosts when they are ready.

    It is in a session of its own: a terminal's ^C is for the programs that run on the cluster.
    """
    if not shutil.which("unshare"):
        raise UserError("No virtual hosts: unshare of util-linux not found: install util-linux.")
    program = [sys.executable, "-m", "common.launching.virtual_hosts.keeper", json.dumps(asdict(settings))]
    command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", *program]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin, "It was started with a pipe."
    assert process.stdout, "It was started with a pipe."
    try:
        yield process, _first_words(process.stdout)
    finally:
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _first_words(output: IO[bytes]) -> list[dict[str, Any]]:
    """What the keeper says of its hosts. Raises UserError where the system lets nobody make them."""
    line = b""
    if select.select([output], [], [], _READY_SECONDS)[0]:
        line = output.readline()
    try:
        words = json.loads(line)
    except ValueError as error:
        said = line.decode(errors="replace").strip() or f"nothing happened in {_READY_SECONDS:g} s"
        raise UserError(
            f"No virtual hosts: the system doesn't let this user make network namespaces ({said}): run it as root, or "
            "allow user namespaces (sysctl user.max_user_namespaces and the like)."
        ) from error
    if "refused" in words:
        raise UserError(words["refused"])
    if "failed" in words:
        raise RuntimeError(f"The virtual hosts can't be made:\n{words['failed']}")
    return words["ready"]


def _outside_numbers(ancestor: int) -> dict[int, int]:
    """Of each descendant its number here, by its number in the cluster's namespace of processes."""
    numbers = {}
    for process in psutil.Process(ancestor).children(recursive=True):
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
            [both] = [line.split() for line in lines if line.startswith("NSpid:")]
            numbers[int(both[-1])] = process.pid
    return numbers


def _network_of(process: int) -> int:
    return os.stat(f"/proc/{process}/ns/net").st_ino


def _ask(head: VirtualHost, request: Mapping[str, object]) -> None:
    _output_of(head.enter(sys.executable, "-m", "common.launching.virtual_hosts.link", json.dumps(request)))


def _output_of(command: list[str]) -> str:
    """What a program of ours on the head prints; raises UserError where it refuses."""
    result = subprocess.run(command, capture_output=True, encoding="utf-8")
    if result.returncode == REFUSED_STATUS:
        raise UserError(result.stderr.strip().removeprefix(PREFIX))
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout
