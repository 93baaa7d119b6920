"""Where a session's launches are made: on this machine alone, or over the hosts that its options name."""

from collections.abc import Sequence

from rich.console import Console

from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import Hosts


def find(
    console: Console, module: str, selection: SlurmOptions, workers: Sequence[int], is_plan: bool
) -> tuple[Cluster | None, Hosts | None]:
    """The hosts to launch worlds of so many workers over, and what the plan must know of them; None: this machine.

    Launches that one machine has all of are made on the first node of an allocation of Slurm's, and a plan of them
    knows no hosts. Where virtual hosts have to be made, the session's `module` runs on their head, and this program
    exits with its status; for a plan they aren't made. Raises UserError where hosts can't be had.
    """
    if not isinstance(selection, Selection):
        needs_node = selection.slurm and not is_plan
        return cluster.find(console, Selection(slurm=True), (1,)) if needs_node else None, None
    if is_plan and selection.virtual_hosts is not None:
        return None, cluster.spread_of(selection, max(workers))
    cluster.move_to_virtual_hosts(selection, module)
    if selection.is_here:
        return None, None
    hosts = cluster.find(console, selection, workers)
    return hosts, hosts.spread


def identity(scope: object, selection: SlurmOptions, hosts: Cluster | None) -> str:
    """What an interrupted session has in common with the one that goes on with it: what is asked for, over which hosts.

    The nodes of another allocation of Slurm's have to be of the same kind.
    """
    kind = hosts.kind if hosts and hosts.allocation else ""
    return f"{scope!r}\n{selection}{kind}" if hosts else repr(scope)
