"""The program on a host: it does what the first line of its input asks, and prints the answer.

Question and answer are lines of JSON. Actions that last end with the input, which is the lifeline: it ends when whoever
asked closes it, is killed, or has lost the connection.
"""

import json
import sys
import time
from typing import IO

from common.errors import exit_with_one_line
from common.launching.hosts import link, work
from common.launching.processes import exit_on_signals


def answer(values: dict[str, object]) -> None:
    """Print an answer, at once."""
    print(json.dumps(values), flush=True)


def main() -> None:
    """Do the action that the command line names, as the first line of the input says."""
    exit_on_signals()
    # Without a buffer: a thread may wait for the input's end while this process leaves.
    lines = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    [action] = sys.argv[1:]
    request = json.loads(lines.readline())
    match action:
        case "facts":
            # Here, since the other actions can do without its imports, which take time at every launch.
            from common.launching.hosts.facts import facts

            answer(facts(request["peers"]))
        case "clock":
            tell_clocks(lines)
        case "run":
            sys.exit(work.run(work.Order(**request), lines, answer))
        case "collect":
            answer(work.collect(request["folder"], request["names"]))
        case "sweep":
            answer({"ended": work.sweep(request["launch"])})
        case "link-serve":
            link.serve(request["address"], request["seconds"], answer)
        case "link-send":
            answer(link.send(request["address"], request["port"], request["seconds"]))


def tell_clocks(lines: IO[bytes]) -> None:
    """For every line answer with this host's time since it started, and its time of day, in nanoseconds."""
    while lines.readline():
        answer({"boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME), "time_of_day_ns": time.time_ns()})


if __name__ == "__main__":
    exit_with_one_line(main)
