"""Where a session's launches are made: on this machine alone, or over the hosts that its options name."""

import sys

from rich.console import Console

from common.launching.hosts import cluster
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts
from common.measurement import machine


def find(
    console: Console, module: str, selection: Selection, most_workers: int, is_plan: bool
) -> tuple[Cluster | None, Hosts | None]:
    """The hosts to launch over, and what the plan must know of them; None for this machine alone.

    Where virtual hosts have to be made, the session's `module` runs on their head, and this program exits with its
    status; for a plan they aren't made. Raises UserError where hosts can't be had.
    """
    if is_plan and selection.virtual_hosts is not None:
        return None, cluster.spread_of(selection, most_workers)
    if cluster.is_to_be_made(selection):
        # On their head this program runs once more, and finds hosts like any others.
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        with machine.alone() as lock:
            sys.exit(cluster.run_on_virtual_hosts(selection, command, lock))
    if selection.is_here:
        return None, None
    hosts = cluster.find(console, selection, most_workers)
    return hosts, hosts.spread
