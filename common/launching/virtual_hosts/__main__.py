"""Run a command on the head of a virtual cluster, which lasts as long as the command.

    python -m common.launching.virtual_hosts --count 2 --bandwidth 100mbit -- ssh host2 hostname

It ends with the command's status. The hosts are host1, host2 and so on, and ssh to them asks nothing.
"""

import sys
from dataclasses import dataclass

import tyro

from common.errors import UserError, exit_with_one_line
from common.launching.virtual_hosts.description import Cable, parse_bandwidth, parse_duration
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Run a command, which follows `--`, on the head of a virtual cluster."""

    count: int = 2
    """How many hosts there are."""
    bandwidth: str | None = None
    """Of each host's link in either direction, such as 100mbit; none: as fast as it goes."""
    delay: str = "0ms"
    """How long a frame takes from one host to another."""
    cores_per_host: float | None = None
    """How many cores each host has, such as 0.5; none: all of this machine's."""


def main() -> None:
    """Run the command. Raises UserError for a cluster that can't be had, and where there is no command."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options, command = words[:end], words[end + 1 :]
    arguments = tyro.cli(Arguments, description=__doc__, args=options)
    if not command:
        raise UserError("There is no command to run: write it at the end, after --.")
    bandwidth = None if arguments.bandwidth is None else parse_bandwidth(arguments.bandwidth)
    link = Cable(bandwidth, parse_duration(arguments.delay))
    with virtual_hosts(arguments.count, link, arguments.cores_per_host) as cluster:
        status = cluster.run(command)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    exit_with_one_line(main)
