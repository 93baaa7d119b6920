"""One launch over several hosts: started on each, logged in one place, ended on all of them whatever happens."""

import base64
import dataclasses
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from common.errors import FAILED_STATUS
from common.launching import ending
from common.launching.ending import TIMED_OUT_STATUS
from common.launching.hosts.work import FOLDER, Order
from common.launching.places import place
from common.launching.places.place import LOST_STATUS, Answer, Host, Question, values_in
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
    waited_for: int | None = None
    """How many of the commands, from the first, have to end by themselves; None: all. With 0 this host serves the
    others, and what it runs is ended with them."""

    @property
    def has_folder(self) -> bool:
        """Whether a folder is spoken of."""
        words = [word for command in self.commands for word in command]
        return any(FOLDER in word for word in (*words, *self.environment.values()))


@dataclass(frozen=True)
class HostsOutcome:
    """How a launch over hosts ended."""

    status: int
    """0, or the exit status of what failed first; 255 where a host wasn't reached or was lost."""
    timed_out: bool = False
    failed_host: str | None = None
    """On which host it failed."""
    reason: str | None = None
    """One sentence; None where it went well, was ended by the deadline, or a command ended by itself, which the log
    tells of."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files that were asked for, as the first host that had a folder left them there, by name; where the launch
    failed, what could be had."""


@dataclass
class _Part:
    """A host's part of a launch, as it runs, and what has been heard of it."""

    assignment: Assignment
    process: subprocess.Popen[bytes]
    errors: bytes = b""
    """What the connection and the agent have printed; what the commands print, wherever to, is the other output."""
    has_begun: bool = False
    folder: str | None = None

    @property
    def host(self) -> Host:
        """Where it runs."""
        return self.assignment.host

    @property
    def is_waited_for(self) -> bool:
        """Whether it has to end by itself."""
        return self.assignment.waited_for != 0


@dataclass
class _Stream:
    """One output of a part."""

    part: _Part
    is_errors: bool
    rest: bytes = b""
    """The line that isn't complete yet."""


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
    folder: a host that sends anything else fails the launch. Raises UserError where nothing can be started on a host.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    parts: list[_Part] = []
    outcome, lost = None, []
    # Without a buffer, which a full disk would have fail once more when it is closed.
    with log_path.open("wb", buffering=0) as log:
        watch = _Watch(log)
        try:
            for assignment in assignments:
                parts.append(_start(assignment, deadline_seconds, launch_id))
                watch.add(parts[-1])
            ended = _until_one_fails(parts, watch, deadline_seconds + _START_SECONDS)
            if watch.unwritten:
                reason = f"{log_path} can't be written to ({watch.unwritten.strerror}): free some space."
                ended = HostsOutcome(FAILED_STATUS, reason=reason)
            if ended.status:
                outcome = _left(parts, files, ended)
            else:
                _end(parts, watch)
                outcome = _collected(parts, files)
        finally:
            with signals_held():
                _end(parts, watch)
                if outcome is None or outcome.status or not set(files[:1]) <= set(outcome.files):
                    lost = _sweep(hosts, launch_id)
    return _blaming(lost, parts, outcome)


class _Watch:
    """The outputs of all parts: they go to the log, and where both of a part's end, so does the part."""

    def __init__(self, log: IO[bytes]) -> None:
        self._log = log
        self.unwritten: OSError | None = None
        """Why the log lacks what came from then on."""
        self._selector = selectors.DefaultSelector()

    def add(self, part: _Part) -> None:
        """Watch a part as well."""
        self._selector.register(part.process.stdout, selectors.EVENT_READ, _Stream(part, is_errors=False))
        self._selector.register(part.process.stderr, selectors.EVENT_READ, _Stream(part, is_errors=True))

    def forget(self, part: _Part) -> None:
        """Watch a part no longer."""
        for key in [key for key in self._selector.get_map().values() if key.data.part is part]:
            self._selector.unregister(key.fileobj)

    def ends(self, seconds: float) -> Iterator[_Part]:
        """The parts as they end, for so many seconds, or until none is left."""
        deadline = time.monotonic() + seconds
        # However much they print.
        while self._selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                stream = key.data
                piece = os.read(key.fd, _PIECE_BYTES)
                self._log_lines(stream, piece)
                if piece:
                    continue
                self._selector.unregister(key.fileobj)
                if all(other.data.part is not stream.part for other in self._selector.get_map().values()):
                    stream.part.process.wait()
                    yield stream.part

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


def _start(assignment: Assignment, deadline_seconds: float, launch_id: str) -> _Part:
    order = Order(
        launch=launch_id,
        commands=[list(command) for command in assignment.commands],
        environment=dict(assignment.environment),
        deadline_seconds=deadline_seconds,
        waited_for=assignment.waited_for or None,
        folder=assignment.has_folder,
    )
    return _Part(assignment, place.start(Question(assignment.host, "run", dataclasses.asdict(order))))


def _until_one_fails(parts: Sequence[_Part], watch: _Watch, seconds: float) -> HostsOutcome:
    """How the launch went, when all that are waited for have ended, or one has failed, or the time is over."""
    waited_for = [part for part in parts if part.is_waited_for] or [*parts]
    for part in watch.ends(seconds):
        if part.process.returncode:
            return _failure(part)
        waited_for = [other for other in waited_for if other is not part]
        if not waited_for:
            return HostsOutcome(0)
    return HostsOutcome(TIMED_OUT_STATUS, timed_out=True, failed_host=waited_for[0].host.name)


def _failure(part: _Part) -> HostsOutcome:
    status, errors = part.process.returncode, part.errors.decode(errors="replace")
    if status == TIMED_OUT_STATUS:
        return HostsOutcome(status, timed_out=True, failed_host=part.host.name)
    by_itself = part.has_begun and status != LOST_STATUS and not any(ending.sentences(errors))
    reason = None if by_itself else part.host.why_it_failed(status, errors)
    return HostsOutcome(status, failed_host=part.host.name, reason=reason)


def _collected(parts: Sequence[_Part], files: Sequence[str]) -> HostsOutcome:
    """The outcome of a launch that went well on all hosts, whose folders are gone then."""
    folders = [part for part in parts if part.is_waited_for and part.folder]
    questions = [_collect(part, files if part is folders[0] else ()) for part in folders]
    outcome = HostsOutcome(0)
    for question, answer in zip(questions, place.ask(questions, _COLLECT_SECONDS), strict=True):
        if answer.failure:
            status = LOST_STATUS if answer.lost else FAILED_STATUS
            return HostsOutcome(status, failed_host=answer.host.name, reason=answer.failure)
        outcome = _received(question, answer, outcome)
    return outcome


def _left(parts: Sequence[_Part], files: Sequence[str], ended: HostsOutcome) -> HostsOutcome:
    """The outcome with what a launch that failed had left by then, unless the host that has it isn't reached.

    It is asked for before what still runs is ended, since the folder goes with that.
    """
    keeper = next((part for part in parts if part.is_waited_for and part.folder), None)
    is_lost = ended.status == LOST_STATUS and keeper is not None and keeper.host.name == ended.failed_host
    if keeper is None or is_lost:
        return ended
    question = _collect(keeper, files)
    [answer] = place.ask([question], _SWEEP_SECONDS)
    return _received(question, answer, ended)


def _collect(part: _Part, names: Sequence[str]) -> Question:
    return Question(part.host, "collect", {"folder": part.folder, "names": names})


def _received(question: Question, answer: Answer, outcome: HostsOutcome) -> HostsOutcome:
    """The outcome with the files that a host sent; a failure without any where it sent what it wasn't asked for."""
    files = dict(outcome.files)
    for name, content in answer.values.items():
        try:
            if name not in question.request["names"]:
                raise ValueError(name)
            files[name] = base64.b64decode(content, validate=True)
        except (TypeError, ValueError):
            host = answer.host.name
            reason = (
                f"{host} sent back something else than the files that it was asked for ({name[:99]!a}), and nothing of "
                f"it was kept: see who has changed the checkout on {host}."
            )
            return HostsOutcome(outcome.status or FAILED_STATUS, failed_host=host, reason=reason)
    return dataclasses.replace(outcome, files=files)


def _end(parts: Sequence[_Part], watch: _Watch) -> None:
    """End what still runs: by its lifeline, then, where a host doesn't answer to that, this end of the connection."""
    for part in parts:
        part.process.stdin.close()
    for _ in watch.ends(_LEAVE_SECONDS):
        pass
    for part in parts:
        watch.forget(part)
        part.host.end(part.process)


def _sweep(hosts: Sequence[Host], launch_id: str) -> list[Host]:
    """End what is left of the launch on all hosts; returns those that can't be reached for it."""
    answers = place.ask([Question(host, "sweep", {"launch": launch_id}) for host in hosts], _SWEEP_SECONDS)
    return [answer.host for answer in answers if answer.lost]


def _blaming(lost: Sequence[Host], parts: Sequence[_Part], outcome: HostsOutcome) -> HostsOutcome:
    """The outcome, whose cause is the loss of a host where one of the launch's is lost.

    The others often notice first: their own ends, for want of a partner, come before the connection's.
    """
    gone = [part.host for part in parts if part.host in lost]
    if not gone or outcome.reason:
        return outcome
    reason = gone[0].why_it_failed(LOST_STATUS, "")
    return dataclasses.replace(outcome, failed_host=gone[0].name, reason=reason)
