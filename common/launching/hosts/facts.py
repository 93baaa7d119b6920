"""What a host says of itself: its checkout, environments, cores, network and disk."""

import hashlib
import ipaddress
import json
import platform
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from common.declarations import catalogue
from common.declarations.strategy import Family
from common.environments import inventory
from common.errors import NotInstalledError, UserError
from common.launching.hosts import supervisor
from common.measurement import limits, machine
from common.measurement.limits import Limits
from common.paths import ROOT
from common.records.header import Machine, Part

_DISCARD_PORT = 9
"""Any port would do: nothing is sent."""

_VERSIONS = (
    "import json, sys; from common.measurement import machine; print(json.dumps(machine.versions(sys.argv[1:])))"
)


class Route(Part, frozen=True, kw_only=True):
    """How a host reaches another one."""

    interface: str = ""
    address: str = ""
    """That of the interface, as is the length of its network's prefix."""
    prefix_length: int = 0
    failure: str = ""
    """Why nothing leads there; then the other fields are empty."""

    @property
    def network(self) -> str:
        """The interface's network, such as 10.77.0.0/24."""
        return str(ipaddress.ip_interface(f"{self.address}/{self.prefix_length}").network)


class Facts(Part, frozen=True, kw_only=True):
    """Everything that a comparison has to know of a host."""

    hostname: str
    """What the machine calls itself."""
    boot_id: str
    """The same for all hosts on one kernel."""
    commit: str | None
    changes: str | None
    """A digest of how the checkout's files differ from the commit; None without one."""
    python: str
    environments: dict[str, dict[str, str] | None]
    """By environment the versions in it, or None where it isn't made."""
    cores: int
    """Those that the agent may use, and what it starts with it."""
    limits: Limits = Limits()
    """Of control groups."""
    machine: Machine
    routes: dict[str, Route]
    """By peer."""
    no_room: str | None
    """Why there can't be a folder for a launch's files, in one sentence."""


def facts(peers: Sequence[str]) -> Facts:
    """The facts of this host, whose `peers` are the names of the others."""
    changes = no_room = None
    with suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "-C", str(ROOT), "diff", "--binary", "HEAD"]
        changes = hashlib.sha256(subprocess.run(command, capture_output=True, check=True).stdout).hexdigest()
    try:
        shutil.rmtree(supervisor.make_folder("facts"))
    except UserError as error:
        no_room = str(error)
    return Facts(
        hostname=socket.gethostname(),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip(),
        commit=machine.git_commit(),
        changes=changes,
        python=platform.python_version(),
        environments={name: _versions(family) for name, family in catalogue.families().items()},
        cores=limits.usable_cores(),
        limits=limits.of_this_process(),
        machine=machine.host_facts(),
        routes={peer: route_to(peer) for peer in peers},
        no_room=no_room,
    )


def route_to(peer: str) -> Route:
    """The route to a peer, or why there is none: its name doesn't resolve, or nothing leads there."""
    try:
        resolved = socket.getaddrinfo(peer, _DISCARD_PORT, type=socket.SOCK_DGRAM)
        # The older protocol first, which every framework speaks.
        kind, _, _, _, target = min(resolved, key=lambda each: each[0] != socket.AF_INET)
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            # Sends nothing: the kernel looks up the route.
            probe.connect(target)
            address = probe.getsockname()[0]
    except OSError as error:
        return Route(failure=str(error.strerror))
    for interface, addresses in psutil.net_if_addrs().items():
        for each in addresses:
            if each.address.partition("%")[0] == address and each.netmask:
                prefix_length = int(ipaddress.ip_address(each.netmask)).bit_count()
                return Route(interface=interface, address=address, prefix_length=prefix_length)
    return Route(failure=f"no interface has the address {address}")


def _versions(family: Family) -> dict[str, str] | None:
    """Versions of Python and the packages in a family's environment, or None where it isn't made."""
    with suppress(NotInstalledError, subprocess.CalledProcessError):
        if python := inventory.python_of(family.environment):
            command = [str(python), "-c", _VERSIONS, *family.packages]
            return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return None
