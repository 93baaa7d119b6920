"""Why an all-reduce of Open MPI takes longer between hosts than their link does: one setting is changed at a time.

To start it: `.nox/tools/bin/python -m tests.benchmarks.mpi_over_hosts`. It makes virtual hosts with links of 100 Mbit
per second, one worker on each, and all-reduces as many float32 as `pathway` has parameters. Every launch is a new
process, and the settings take turns in shuffled order. Beside each time stand the link's least for a ring's bytes, and
the bytes that each host sent over those of the gradients.
"""

import json
import os
import random
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.model import parameter_bytes
from common.contract.task import PRESETS
from common.environments.inventory import python_of
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.virtual_hosts.description import INTERFACE, Cable
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.measurement import machine
from common.records.metrics import ring_bound
from common.statistics.intervals import median_interval
from tests.hosts import Cluster, seen_from_outside

BITS_PER_SECOND = 100e6
HOSTS, CALLS = (2, 4), 10
GRADIENT_BYTES = parameter_bytes(PRESETS["pathway"])

SETTINGS: dict[str, dict[str, str]] = {
    "as it comes": {},
    "idle workers yield their core": {"mpi_yield_when_idle": "1"},
    "recursive doubling": {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "3"},
    "ring": {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "4"},
    "eager up to 1 MiB": {"btl_tcp_eager_limit": "1048576", "btl_tcp_rndv_eager_limit": "1048576"},
    "sent, never put": {"btl_tcp_flags": "1"},
    "two connections": {"btl_tcp_links": "2"},
}
"""Of Open MPI's parameters, by what they make of it."""

PROGRAM = """
import json, sys, time
import numpy as np
from mpi4py import MPI

def sent_bytes():
    with open("/proc/net/dev") as lines:
        return next(int(line.split()[9]) for line in lines if line.strip().startswith(sys.argv[3] + ":"))

world, calls = MPI.COMM_WORLD, int(sys.argv[2])
values, summed = np.ones(int(sys.argv[1]) // 4, np.float32), np.empty(int(sys.argv[1]) // 4, np.float32)
seconds = []
for call in range(2 + calls):
    world.Barrier()
    if call == 2:
        before = sent_bytes()
    started = time.perf_counter()
    world.Allreduce(values, summed)
    seconds.append(world.allreduce(time.perf_counter() - started, MPI.MAX))
    assert (summed == world.size).all()
world.Barrier()
sent = world.gather((sent_bytes() - before) / calls)
if world.rank == 0:
    print(json.dumps({"seconds": seconds[2:], "bytes": sent}))
"""


@dataclass(frozen=True)
class Arguments:
    """Measure Open MPI's all-reduce between virtual hosts with one setting after another."""

    launches: int = 6
    """Launches of each setting."""


Launched = tuple[float, float]
"""Seconds of a call, the median over a launch's, and the bytes of the host that sent most in one."""


def main() -> None:
    """Measure every setting between each number of hosts and print a row for it."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140)
    table = Table("hosts", "setting", "n", "ms", "95 % interval", "ring's least, ms", "over it", "sent, over gradients")
    with machine.alone():
        for hosts in HOSTS:
            least = ring_bound(GRADIENT_BYTES, hosts, BITS_PER_SECOND)
            with virtual_hosts(hosts, Cable(BITS_PER_SECOND)) as made:
                cluster = seen_from_outside(made)
                cluster.calibrate()
                found = measure(cluster, arguments.launches, console)
            for setting, launched in found.items():
                table.add_row(str(hosts), setting, *row_of(launched, least))
    console.print(table)


def measure(cluster: Cluster, launches: int, console: Console) -> dict[str, list[Launched]]:
    """So many launches of every setting, in turn."""
    found: dict[str, list[Launched]] = {setting: [] for setting in SETTINGS}
    for number in range(launches):
        for setting in random.Random(number).sample([*SETTINGS], len(SETTINGS)):
            found[setting].append(launch(cluster, SETTINGS[setting]))
        console.print(f"{len(cluster.hosts)} hosts: {number + 1} of {launches} launches of each setting")
    return found


def launch(cluster: Cluster, parameters: dict[str, str]) -> Launched:
    """Start one worker on each host. Raises LaunchFailedError where that doesn't end well."""
    python = python_of("torch")
    if python is None:
        raise LaunchFailedError("torch isn't installed: run `nox -s torch` once, which makes its environment.")
    names = ",".join(f"{host.name}:1" for host in cluster.hosts)
    network = ["--mca", "btl_tcp_if_include", f"{cluster.hosts[0].address}/24"]
    chosen = [word for name, value in parameters.items() for word in ("--mca", name, value)]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = [str(python.parent / "mpirun"), "--bind-to", "none", *root, "--host", names, *network, *chosen]
    program = [str(python), "-c", PROGRAM, str(GRADIENT_BYTES), str(CALLS), INTERFACE]
    result = subprocess.run(cluster.enter(*mpirun, *program), capture_output=True, text=True)
    if result.returncode:
        raise LaunchFailedError(f"mpirun ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    measured = json.loads(result.stdout.splitlines()[-1])
    return statistics.median(measured["seconds"]), max(measured["bytes"])


def row_of(launched: Sequence[Launched], least_seconds: float) -> list[str]:
    """The median over launches with its interval, beside the least that the link takes."""
    seconds = median_interval([seconds for seconds, _ in launched])
    interval = "" if seconds.low is None else f"{1e3 * seconds.low:.1f} to {1e3 * seconds.high:.1f}"
    sent = statistics.median(sent for _, sent in launched) / GRADIENT_BYTES
    times = f"{seconds.median / least_seconds:.2f}"
    return [str(seconds.n), f"{1e3 * seconds.median:.1f}", interval, f"{1e3 * least_seconds:.1f}", times, f"{sent:.3f}"]


if __name__ == "__main__":
    exit_with_one_line(main)
