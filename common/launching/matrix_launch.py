"""Start one way to multiply matrices as a user would, with a deadline, and stop all of its processes, always.

To start it: `python -m common.launching.matrix_launch WAY --workers 2 --sizes 64 128`.
"""

import os
import sys
from collections.abc import Sequence

from common.declarations.catalogue import find_way, ways
from common.declarations.products import Products, check_workers, parse_command_line
from common.declarations.way import Way
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching import launch
from common.launching.processes import end_with_parent, free_ports


def main() -> None:
    """Multiply as the command line says; exits with the launch's status, or 124 when the deadline ended it."""
    if parent := os.environ.get(launch.ENDS_WITH):
        end_with_parent(int(parent))
    launch.supervise(*prepare(sys.argv[1:]))


def prepare(arguments: Sequence[str]) -> tuple[Way, Products, list[str]]:
    """The way that the arguments name, its products, and the command that starts it.

    Raises UserError for all that can be refused before anything is started.
    """
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"Name a way to multiply first: one of {', '.join(ways())}.")
    way, given = find_way(arguments[0]), list(arguments[1:])
    products = parse_command_line(f"{way.name}: {way.title}.", given)
    workers = products.workers or way.most_workers or 2
    check_workers(way, products, workers)
    if products.record:
        ensure_writable(products.record)
    told = [*given, "--workers", str(workers)]
    return way, products, launch.command_for(way, workers, told, free_ports(1)[0], way.options)


if __name__ == "__main__":
    exit_with_one_line(main)
