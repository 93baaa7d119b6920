"""Where a session's launches are made: on this machine alone, or over the hosts that its options name."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from common.launching.executor import HERE, Executor
from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import Hosts


def find(
    console: Console, module: str, selection: Selection, workers: Sequence[int], is_plan: bool
) -> tuple[Cluster | None, Hosts | None]:
    """The hosts to launch worlds of so many workers over, and what the plan must know of them; None: this machine.

    Where virtual hosts have to be made, the session's `module` runs on their head, and this program exits with its
    status; for a plan they aren't made. Raises UserError where hosts can't be had.
    """
    if is_plan and selection.virtual_hosts is not None:
        return None, cluster.spread_of(selection, max(workers))
    cluster.move_to_virtual_hosts(selection, module)
    if selection.is_here:
        return None, None
    hosts = cluster.find(console, selection, workers)
    return hosts, hosts.spread


def on_one_host(console: Console, options: SlurmOptions) -> Executor[Any]:
    """Where launches are made that one machine has all of: the first node of an allocation of Slurm's, or this machine.

    Raises UserError where there is no allocation, or its node can't be had.
    """
    return cluster.find(console, Selection(slurm=True), (1,)) if options.slurm else HERE


def kind_of(hosts: Executor[Any] | None) -> str:
    """What another allocation's nodes have to be alike in to go on with a session; empty outside of Slurm."""
    return hosts.kind if isinstance(hosts, Cluster) and hosts.allocation else ""
