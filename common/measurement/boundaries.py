"""Where a run that is to suffer a fault stands: it says so outside at the end of each window, and waits for the fault.

Without `--inject` and `--restarts` nobody is told anything.
"""

import json
import os
import socket
import time

from common.contract.task import Task
from common.errors import UserError

INJECTOR = "LOCKSTEP_INJECTOR"
"""Environment variable with the address (unix(7)) at which whoever injects the fault listens: a path, or a name."""


class Boundaries:
    """What one process tells whoever injects the fault."""

    def __init__(self, task: Task, rank: int, only_run: bool) -> None:
        """`only_run`: whether this process says it for all ranks, which are other processes or none.

        Raises UserError where a fault is asked for and nobody is there to inject it.
        """
        fault, self._rank = task.fault, rank
        self._waits_at = fault.step if fault and (only_run or rank == fault.rank) else None
        address = os.environ.get(INJECTOR)
        if address is None:
            if task.is_accounted:
                raise UserError("--inject and --restarts: nobody is there to do it; start the strategy by `nox -s`.")
            self._told = None
            return
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address if address.startswith("/") else f"\0{address}")
        self._told = connection.makefile("rwb", buffering=0)

    def reach(self, step: int) -> None:
        """Say that so many steps are computed; where the fault comes now, wait until it has come."""
        if self._told is None:
            return
        moment = {"rank": self._rank, "process": os.getpid(), "step": step, "waits": step == self._waits_at}
        moment["boottime_ns"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._told.write(json.dumps(moment).encode() + b"\n")
        if moment["waits"]:
            self._told.readline()
