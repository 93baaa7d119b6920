"""What a host says of itself: its checkout, environments, cores, network and disk."""

import hashlib
import ipaddress
import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from common.declarations import catalogue
from common.declarations.strategy import Family
from common.environments import inventory
from common.errors import NotInstalledError, UserError
from common.launching.hosts import work
from common.measurement import machine
from common.paths import ROOT
from common.records.files import to_json

_DISCARD_PORT = 9
"""Any port would do: nothing is sent."""

_VERSIONS = (
    "import json, sys; from common.measurement import machine; print(json.dumps(machine.versions(sys.argv[1:])))"
)


def facts(peers: Sequence[str]) -> dict[str, object]:
    """Everything that a comparison has to know of this host, whose `peers` are the names of the others."""
    return {
        "hostname": socket.gethostname(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip(),
        "commit": machine.git_commit(),
        "changes": _changes(),
        "python": platform.python_version(),
        "environments": {name: _versions(family) for name, family in catalogue.families().items()},
        "cores": len(os.sched_getaffinity(0)),
        "machine": to_json(machine.host_facts()),
        "routes": {peer: route_to(peer) for peer in peers},
        "free_bytes": shutil.disk_usage(work.SCRATCH).free,
        "no_room": _no_room(),
    }


def route_to(peer: str) -> dict[str, object]:
    """The `interface`, its `address` and its network's `prefix_length` by which this host reaches a peer.

    It holds `failure` alone where the name doesn't resolve or nothing leads there.
    """
    try:
        found = socket.getaddrinfo(peer, _DISCARD_PORT, type=socket.SOCK_DGRAM)
        # The older protocol first, which every framework speaks.
        kind, _, _, _, target = min(found, key=lambda each: each[0] != socket.AF_INET)
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            # Sends nothing: the kernel looks up the route.
            probe.connect(target)
            own = probe.getsockname()[0]
    except OSError as error:
        return {"failure": error.strerror}
    for interface, addresses in psutil.net_if_addrs().items():
        for each in addresses:
            if each.address.partition("%")[0] == own and each.netmask:
                prefix_length = int(ipaddress.ip_address(each.netmask)).bit_count()
                return {"interface": interface, "address": own, "prefix_length": prefix_length}
    return {"failure": f"no interface has the address {own}"}


def _versions(family: Family) -> dict[str, str] | None:
    """Versions of Python and the packages in a family's environment, or None where it isn't made."""
    try:
        python = inventory.python_of(family.environment)
    except NotInstalledError:
        return None
    if python is None:
        return None
    command = [str(python), "-c", _VERSIONS, *family.packages]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    return json.loads(result.stdout) if result.returncode == 0 else None


def _changes() -> str | None:
    """A digest of how the checkout's files differ from its commit; None without a commit."""
    command = ["git", "-C", str(ROOT), "diff", "--binary", "HEAD"]
    try:
        difference = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return hashlib.sha256(difference).hexdigest()


def _no_room() -> str | None:
    """Why a launch can't have a folder here, in one sentence; None where it can."""
    try:
        shutil.rmtree(work.make_folder("facts"))
    except UserError as error:
        return str(error)
    return None
