"""The program on a host: it does what the first line of its input asks, and prints the answer.

Question and answer are lines of JSON. Actions that last end with the input, which is the lifeline: it ends when whoever
asked closes it, is killed, or has lost the connection.
"""

import json
import sys
import time

from common.errors import exit_with_one_line
from common.launching.hosts import link, supervisor
from common.launching.places.place import print_answer
from common.launching.places.slurm_node import leave_step
from common.launching.processes import exit_on_signals


def main() -> None:
    """Do the action that the command line names, as the first line of the input says."""
    exit_on_signals()
    leave_step()
    # Without a buffer: a thread may wait for the input's end while this process leaves.
    lines = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    [action] = sys.argv[1:]
    request = json.loads(lines.readline())
    match action:
        case "facts":
            # Here, since the other actions can do without its imports, which take time at every launch.
            from common.launching.hosts.facts import facts

            print_answer(facts(**request))
        case "clock":
            while lines.readline():
                print_answer({"boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)})
        case "run":
            sys.exit(supervisor.run(lines, **request))
        case "collect":
            print_answer(supervisor.collect(**request))
        case "sweep":
            print_answer({"ended": supervisor.sweep(**request)})
        case "link-serve":
            link.serve(**request, answer=print_answer)
        case "link-send":
            print_answer(link.send(**request))
        case _:
            raise ValueError(f"There is no action named {action}.")


if __name__ == "__main__":
    exit_with_one_line(main)
