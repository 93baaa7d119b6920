"""One launch over several hosts: started on each, logged in one place, ended on all of them whatever happens."""

import dataclasses
import math
import os
import selectors
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from common.errors import FAILED_STATUS
from common.launching import exit_cause
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.launching.places import place
from common.launching.places.place import LOST_STATUS, Host, pipe, values_in
from common.launching.processes import signals_held

_START_SECONDS = 30.0
"""What connecting may take beside the deadline, which counts from where the commands start."""

_LEAVE_SECONDS = 8.0
"""What a host has for ending its processes: five seconds of patience with them, and the connection."""

_SWEEP_SECONDS, _COLLECT_SECONDS = 30.0, 300.0
_PIECE_BYTES = 65536


@dataclass(frozen=True)
class Assignment:
    """What a host does in a launch. `{folder}` in it stands for the path of a new folder on that host."""

    host: Host
    commands: Sequence[Sequence[str]]
    environment: Mapping[str, str]
    """Variables beside those that the host gives; they go over the connection, and on no command line."""


@dataclass(frozen=True)
class HostsOutcome:
    """How a launch over hosts ended."""

    status: int
    """0, or the exit status of what failed first: 124 at the deadline, 255 where a host wasn't reached or was lost."""
    failed_host: str | None = None
    """On which host it failed."""
    reason: str | None = None
    """One sentence; None where it went well, or the status and the log tell."""
    noted_boottime_ns: int = field(default_factory=lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    """When that was seen, before what still ran was ended, by the clock that counts from boot."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The files that were asked for, as the first host that had a folder left them, by name; of a launch that failed
    those that could be had."""


@dataclass(eq=False)
class _Part:
    """A host's part of a launch, as it runs."""

    host: Host
    process: subprocess.Popen[bytes]
    errors: bytes = b""
    """What the connection and the agent have printed; what the commands print, wherever to, is the other output."""
    has_begun: bool = False
    folder: str | None = None
    next_heartbeat: float = 0.0
    """When it is due, on this machine's monotonic clock."""


@dataclass
class _Stream:
    """One output of a part."""

    part: _Part
    is_errors: bool
    rest: bytes = b""


def run_over_hosts(
    assignments: Sequence[Assignment],
    hosts: Sequence[Host],
    deadline_seconds: float,
    log_path: Path,
    launch_id: str,
    files: Sequence[str],
) -> HostsOutcome:
    """Run every host's commands until all have ended, one has failed or the deadline is over; then nothing is left.

    The log gets the output of all, with the host's name before each line. Where the launch fails, lacks the first of
    its `files`, or is ended by a signal, every one of the comparison's `hosts` is swept of the launch's processes:
    launchers start some on hosts of their own accord. `files` names what is to come back from the first host that has a
    folder. Raises UserError where nothing can be started on a host.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    parts: list[_Part] = []
    lost: list[Host] = []
    # As where a signal ends this.
    outcome = HostsOutcome(FAILED_STATUS)
    # Without a buffer, which a full disk would have fail once more when it is closed.
    with log_path.open("wb", buffering=0) as log:
        watch = _Watch(log)
        try:
            for assignment in assignments:
                request = {"launch": launch_id, "deadline_seconds": deadline_seconds}
                request |= {"commands": assignment.commands, "environment": assignment.environment}
                request |= {"heartbeat_seconds": assignment.host.heartbeat_seconds}
                parts.append(_Part(assignment.host, assignment.host.start("run", request)))
                watch.add(parts[-1])
            ended = _until_one_fails(parts, watch, deadline_seconds + _START_SECONDS)
            if watch.unwritten:
                reason = f"{log_path} can't be written to ({watch.unwritten.strerror}): free some space."
                ended = HostsOutcome(FAILED_STATUS, reason=reason)
            if not ended.status:
                watch.end(parts)
            outcome = _with_files(ended, parts, files)
        finally:
            with signals_held():
                watch.end(parts)
                if outcome.status or not set(files[:1]) <= set(outcome.files):
                    answers = place.ask("sweep", {host: {"launch": launch_id} for host in hosts}, _SWEEP_SECONDS)
                    lost = [answer.host for answer in answers if answer.lost]
    # The others often notice a lost host first: for want of a partner they end before the connection does.
    gone = [part.host for part in parts if part.host in lost]
    if not gone or outcome.reason:
        return outcome
    return dataclasses.replace(outcome, failed_host=gone[0].name, reason=gone[0].why_it_was_lost(LOST_STATUS, ""))


class _Watch:
    """The outputs of all parts: they go to the log, and where both of a part's end, so does the part."""

    def __init__(self, log: IO[bytes]) -> None:
        self._log = log
        self.unwritten: OSError | None = None
        """Why the log lacks what came from then on."""
        self._selector = selectors.DefaultSelector()

    def add(self, part: _Part) -> None:
        """Watch a part as well."""
        for stream in (part.process.stdout, part.process.stderr):
            is_errors = stream is part.process.stderr
            self._selector.register(pipe(stream), selectors.EVENT_READ, _Stream(part, is_errors))

    def ends(self, seconds: float) -> Generator[_Part]:
        """The parts as they end, for so many seconds, or until none is left."""
        deadline = time.monotonic() + seconds
        # However much they print.
        while self._selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left, self._beat())):
                part, piece = key.data.part, os.read(key.fd, _PIECE_BYTES)
                self._log_lines(key.data, piece)
                if piece:
                    continue
                self._selector.unregister(key.fileobj)
                if all(other.data.part is not part for other in self._selector.get_map().values()):
                    part.process.wait()
                    yield part

    def _beat(self) -> float:
        """Tell the hosts where that is due that they are still wanted; returns the seconds until it is due again."""
        now, parts = time.monotonic(), {key.data.part for key in self._selector.get_map().values()}
        waiting = [part for part in parts if part.host.heartbeat_seconds]
        for part in waiting:
            if now >= part.next_heartbeat:
                part.next_heartbeat = now + (part.host.heartbeat_seconds or 0.0)
                with suppress(BrokenPipeError, ValueError):  # It has ended, or is being ended.
                    pipe(part.process.stdin).write(b"\n")
        return min((part.next_heartbeat - now for part in waiting), default=math.inf)

    def end(self, parts: Sequence[_Part]) -> None:
        """End what still runs by its lifeline; where a host doesn't answer to that, end this side of the connection."""
        for part in parts:
            pipe(part.process.stdin).close()
        for _ in self.ends(_LEAVE_SECONDS):
            pass
        for key in [*self._selector.get_map().values()]:
            self._selector.unregister(key.fileobj)
        for part in parts:
            part.host.end(part.process)

    def _log_lines(self, stream: _Stream, piece: bytes) -> None:
        """Log the lines that are complete with this piece; an empty one is the end, and completes what there is."""
        part = stream.part
        if stream.is_errors:
            part.errors += piece
        *lines, stream.rest = (stream.rest + piece).split(b"\n")
        if not piece and stream.rest:
            lines, stream.rest = [stream.rest], b""
        named = b""
        for line in lines:
            if not part.has_begun and not stream.is_errors and (answer := values_in(line)) and "folder" in answer:
                part.has_begun, part.folder = True, answer["folder"]
            else:
                named += b"%s| %s\n" % (part.host.name.encode(), line)
        if named and not self.unwritten:
            try:
                self._log.write(named)
            except OSError as error:
                self.unwritten = error


def _until_one_fails(parts: Sequence[_Part], watch: _Watch, seconds: float) -> HostsOutcome:
    """How the launch went, when all have ended, or one has failed, or the time is over."""
    running = [*parts]
    for part in watch.ends(seconds):
        if status := part.process.returncode:
            errors = part.errors.decode(errors="replace")
            if lost := part.host.why_it_was_lost(status, errors):
                return HostsOutcome(LOST_STATUS, part.host.name, lost)
            by_itself = part.has_begun and not any(exit_cause.sentences(errors))
            reason = None if by_itself or status == TIMED_OUT_STATUS else part.host.why_it_failed(status, errors)
            return HostsOutcome(status, part.host.name, reason)
        running.remove(part)
    return HostsOutcome(TIMED_OUT_STATUS, running[0].host.name) if running else HostsOutcome(0)


def _with_files(outcome: HostsOutcome, parts: Sequence[_Part], names: Sequence[str]) -> HostsOutcome:
    """The outcome with the files of the first host that has a folder, or a failure where they can't be had.

    A launch that went well leaves no folder on any host. One that failed is asked for what it had left by then, before
    what still runs is ended, since the folder goes with that.
    """
    folders, seconds = [part for part in parts if part.folder], _COLLECT_SECONDS
    if outcome.status:
        is_lost = outcome.status == LOST_STATUS
        folders, seconds = folders[:1], _SWEEP_SECONDS
        folders = [part for part in folders if not (is_lost and part.host.name == outcome.failed_host)]
    requests = {part.host: {"folder": part.folder, "names": names if part is folders[0] else ()} for part in folders}
    answers = place.ask("collect", requests, seconds)
    if failed := next((answer for answer in answers if answer.failure), None):
        status = LOST_STATUS if failed.lost else FAILED_STATUS
        return outcome if outcome.status else HostsOutcome(status, failed.host.name, failed.failure)
    # Any other name that a host sends could be a path to anywhere.
    files = {name: answers[0].values[name] for name in names if name in answers[0].values} if answers else {}
    return dataclasses.replace(outcome, files=msgspec.convert(files, dict[str, bytes]))
