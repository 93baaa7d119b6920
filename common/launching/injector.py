"""Sends the signals of a fault from outside, when the processes of a launch come to where it is due."""

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress

import psutil

from common.contract.fault import Fault
from common.measurement.boundaries import INJECTOR
from common.records.recovery import Moment

_LOOK_SECONDS = 0.005
"""How often it looks for a process that hasn't joined yet: Python's own start takes longer."""

_TURN_SECONDS = 0.02
"""How often a slow process is stopped: a step is longer, or has a part of several turns."""


class Injector:
    """Listens to a launch's processes, and lets the fault happen once."""

    def __init__(self, fault: Fault | None, task_in: Callable[[Mapping[str, str]], str | None]) -> None:
        self._fault, self._task_in = fault, task_in
        self._began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._address = f"lockstep-{secrets.token_hex(8)}"
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self.moments: list[Moment] = []
        """What the processes have said, in the order in which it came."""
        self.injected_seconds: float | None = None
        self.injected_process: int | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What tells the processes where to speak to."""
        return {INJECTOR: self._address}

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen while the block runs. What was stopped for a while goes on after it, if it is still there."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{self._address}")
            listener.listen()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            if self._fault and self._fault.is_before_joining:
                threading.Thread(target=self._meet, args=(self._fault,), daemon=True).start()
            try:
                yield
            finally:
                self._is_over.set()

    def seconds(self, boottime_ns: int | None = None) -> float:
        """Seconds since the launch began, now or at that time."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if boottime_ns is None else boottime_ns
        return max(0, now - self._began) / 1e9

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # It is closed when the launch is over.
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        """Note what one process says until it ends. Where it waits, the fault comes before it is answered."""
        with suppress(OSError), connection, connection.makefile("rwb", buffering=0) as lines:
            for line in lines:
                said = json.loads(line)
                waits, seconds = said.pop("waits"), self.seconds(said.pop("boottime_ns"))
                with self._lock:
                    self.moments.append(Moment(**said, seconds=seconds))
                fault = self._fault
                begins_slowly = fault is not None and fault.kind == "slow" and said["rank"] == fault.rank
                if fault and (waits or begins_slowly) and self.injected_seconds is None:
                    self._inject(fault, self._process_of(fault.victim) or said["process"])
                if waits:
                    lines.write(b"\n")

    def _meet(self, fault: Fault) -> None:
        """Look for the rank's process until it is there."""
        while not self._is_over.is_set():
            if process := self._process_of(fault.victim):
                self._inject(fault, process)
                return
            time.sleep(_LOOK_SECONDS)

    def _inject(self, fault: Fault, process: int) -> None:
        """Send the signals, the first time."""
        with self._lock:
            if self.injected_seconds is not None:
                return
            self.injected_seconds, self.injected_process = self.seconds(), process
            # One that has gone meanwhile gets no signal, nor does another one with its number (psutil looks).
            with suppress(psutil.NoSuchProcess):
                victim = psutil.Process(process)
                (victim.kill if fault.kind in ("kill", "server") else victim.suspend)()
                if fault.kind in ("late", "slow"):
                    threading.Thread(target=self._let_go, args=(fault, victim), daemon=True).start()

    def _let_go(self, fault: Fault, victim: psutil.Process) -> None:
        """Let a late process go on in time, and a slow one for one part of the time in `factor` parts."""
        running = _TURN_SECONDS / fault.factor
        with suppress(psutil.NoSuchProcess):
            self._is_over.wait(fault.seconds)
            while fault.kind == "slow" and not self._is_over.wait(_TURN_SECONDS - running):
                victim.resume()
                time.sleep(running)
                victim.suspend()
            victim.resume()

    def _process_of(self, task: str) -> int | None:
        """The first process below this one that is this task by its variables."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, OSError):  # It has ended meanwhile.
                if self._task_in(process.environ()) == task:
                    return process.pid
        return None
