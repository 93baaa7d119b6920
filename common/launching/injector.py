"""Makes a fault happen from outside, when the processes of a launch come to where it is due."""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from common.contract.fault import Fault
from common.launching.virtual_hosts.description import Description
from common.measurement.boundaries import INJECTOR
from common.records.recovery import Moment

_LOOK_SECONDS = 0.005
"""How often it looks for a process that hasn't joined yet: Python's own start takes longer."""

_TURN_SECONDS = 0.02
"""How often a slow process is stopped: a step is longer, or has a part of several turns."""


class Injector:
    """Listens to a launch's processes, and lets the fault happen once."""

    def __init__(
        self,
        fault: Fault | None,
        task_in: Callable[[Mapping[str, str]], str | None],
        hosts: Description | None = None,
        folder: Path | None = None,
    ) -> None:
        """`hosts`: the virtual ones of the launch, whose processes find the injector in a `folder` that they share."""
        self._fault, self._task_in, self._hosts = fault, task_in, hosts
        self._began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        # An abstract name is known in one network namespace, a path wherever the folder is.
        self._address = str(folder / "injector") if folder else f"lockstep-{secrets.token_hex(8)}"
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self.moments: list[Moment] = []
        """What the processes have said, in the order in which it came."""
        self.injected_seconds: float | None = None
        self.injected_process: int | None = None
        self.reached_factor: float | None = None
        """Of a slow process: its time over the part of it in which it could run."""

    @property
    def variables(self) -> dict[str, str]:
        """What tells the processes where to speak to."""
        return {INJECTOR: self._address}

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen while the block runs. What was stopped for a while goes on after it, if it is still there."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address if self._address.startswith("/") else f"\0{self._address}")
            listener.listen()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            # These happen to a process that hasn't said anything yet.
            if self._fault and self._fault.kind in ("late", "missing"):
                threading.Thread(target=self._meet, args=(self._fault,), daemon=True).start()
            try:
                yield
            finally:
                self._is_over.set()
                self.mend()

    def mend(self) -> None:
        """Plug a host in again that was cut off."""
        if self._hosts and self._fault and self._fault.name and self.injected_seconds is not None:
            self._hosts.plug(self._fault.name, True)

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
                    self._inject(fault, self._process_of(fault) or said["process"])
                if waits:
                    lines.write(b"\n")

    def _meet(self, fault: Fault) -> None:
        """Look for the rank's process until it is there."""
        while not self._is_over.is_set():
            if process := self._process_of(fault):
                self._inject(fault, process)
                return
            time.sleep(_LOOK_SECONDS)

    def _inject(self, fault: Fault, process: int) -> None:
        """Send the signals, the first time."""
        with self._lock:
            if self.injected_seconds is not None:
                return
            self.injected_seconds = self.seconds()
            if self._hosts and fault.name:
                self._cut_off(self._hosts, fault, fault.name)
                return
            self.injected_process = process
            # One that has gone meanwhile gets no signal, nor does another one with its number (psutil looks).
            with suppress(psutil.NoSuchProcess):
                victim = psutil.Process(process)
                (victim.kill if fault.kind in ("kill", "server") else victim.suspend)()
                if fault.kind in ("late", "slow"):
                    threading.Thread(target=self._let_go, args=(fault, victim), daemon=True).start()

    def _cut_off(self, hosts: Description, fault: Fault, name: str) -> None:
        """Unplug the host, for the fault's seconds, or for ever, and then kill all of the launch that runs there."""
        hosts.plug(name, False)
        if fault.kind == "cable":
            threading.Thread(target=self._plug_in, args=(fault,), daemon=True).start()
            return
        network = hosts.networks[hosts.names.index(name)]
        for process in self._processes():
            with suppress(psutil.NoSuchProcess, OSError):
                if os.stat(f"/proc/{process.pid}/ns/net").st_ino == network:
                    process.kill()

    def _plug_in(self, fault: Fault) -> None:
        if not self._is_over.wait(fault.seconds):
            self.mend()

    def _let_go(self, fault: Fault, victim: psutil.Process) -> None:
        """Let a late process go on in time, and a slow one for one part of the time in `factor` parts."""
        turn = _TURN_SECONDS / fault.factor
        begun, running = time.monotonic(), 0.0
        with suppress(psutil.NoSuchProcess):
            self._is_over.wait(fault.seconds)
            while fault.kind == "slow" and not self._is_over.wait(_TURN_SECONDS - turn):
                resumed = time.monotonic()
                victim.resume()
                time.sleep(turn)
                victim.suspend()
                running += time.monotonic() - resumed
                self.reached_factor = (time.monotonic() - begun) / running
            victim.resume()

    def _process_of(self, fault: Fault) -> int | None:
        """The first process of the launch that the fault is for by its variables."""
        for process in self._processes():
            with suppress(psutil.Error, OSError):  # It has ended meanwhile.
                if self._task_in(process.environ()) == fault.victim:
                    return process.pid
        return None

    def _processes(self) -> Iterator[psutil.Process]:
        """All processes of the launch: those that know where to speak to, in the order of their numbers."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):  # It has ended meanwhile, or is another user's.
                if process.environ().get(INJECTOR) == self._address:
                    yield process
