"""What every place can do, and how the agent on a host is asked."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from common.errors import UserError

AGENT = "common.launching.hosts.agent"
"""The program that does on a host what it is asked to do."""

LOST_STATUS = 255
"""Exit status of a process on a host that wasn't reached, or whose connection was lost: ssh's, and so every place's."""

_ANSWER_SECONDS = 60.0


class Place(Protocol):
    """Where this checkout's Python can be started."""

    def start(self, words: Sequence[str], **streams: object) -> subprocess.Popen[bytes]:
        """Start Python with these words, and with `streams` as subprocess has them.

        Raises UserError where the place can't start anything.
        """
        ...

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End what was started there, in bounded time. Raises LaunchFailedError where some of it is left."""


class Host(Place, Protocol):
    """A machine on which an agent is asked: ssh starts it, or whatever else reaches the machine.

    This Python and this checkout are at the same path on every host: the frameworks' launchers and mpirun need that
    too. What was started there ends with its input.
    """

    @property
    def name(self) -> str:
        """By which the user knows it."""
        ...

    @property
    def slots(self) -> int:
        """How many workers it takes."""
        ...

    def address(self) -> str:
        """The name or address by which the other hosts reach it."""
        ...

    def why_it_failed(self, status: int, errors: str) -> str:
        """One sentence with the host, the cause and the remedy, from an exit status and what was printed."""
        ...


@dataclass(frozen=True)
class Question:
    """What a host's agent is asked."""

    host: Host
    action: str
    request: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a host's agent answered, or why there is no answer."""

    host: Host
    values: dict[str, object]
    """Empty where there is no answer."""
    failure: str | None = None
    """One sentence, with the host, that says why there is none."""
    lost: bool = False
    """Whether there is none because the host wasn't reached."""


def start(question: Question) -> subprocess.Popen[bytes]:
    """Start what is asked on the host; its input stays open, and its end is the end of what was asked.

    Raises UserError where nothing can be started there.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = question.host.start(["-m", AGENT, question.action], **pipes)
    # Here and on no command line, which everybody can read.
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(question.request).encode() + b"\n")
    return process


def ask(questions: Sequence[Question], seconds: float = _ANSWER_SECONDS) -> list[Answer]:
    """The answers to all questions, which are asked at the same time; those that take too long are failures.

    Raises UserError where nothing can be started on a host.
    """
    asked: list[tuple[Host, subprocess.Popen[bytes]]] = []
    try:
        # All are read side by side, so that a host that is silent takes no time from the others.
        with ThreadPoolExecutor(max_workers=len(questions) or 1) as pool:
            try:
                for question in questions:
                    asked.append((question.host, start(question)))
                deadline = time.monotonic() + seconds
                return [*pool.map(lambda each: _answer(*each, deadline), asked)]
            finally:
                # Where a signal ends this, the readers come to the end of their streams.
                for _, process in asked:
                    process.kill()
    finally:
        for host, process in asked:
            host.end(process)


def _answer(host: Host, process: subprocess.Popen[bytes], deadline: float) -> Answer:
    try:
        output, errors = process.communicate(timeout=max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return Answer(host, {}, _silence(host), lost=True)
    if process.returncode:
        failure = host.why_it_failed(process.returncode, errors.decode(errors="replace"))
        return Answer(host, {}, failure, lost=process.returncode == LOST_STATUS)
    for line in reversed(output.splitlines()):
        if (values := values_in(line)) is not None:
            return Answer(host, values)
    return Answer(host, {}, f"{host.name} gave no answer: make it the same commit there as here.")


def _silence(host: Host) -> str:
    return f"{host.name} didn't answer in time: see whether it is up, and starts programs."


def values_in(line: bytes) -> dict[str, object] | None:
    """What an agent said in a line, or None where something else printed it, such as the user's shell as it started."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):  # The latter where lists are nested without end.
        return None
    return values if isinstance(values, dict) else None


@dataclass
class Conversation:
    """An agent with which this process exchanges lines."""

    host: Host
    process: subprocess.Popen[bytes]
    _heard: bytes = b""

    def say(self) -> None:
        """Ask for the next answer."""
        with suppress(BrokenPipeError):  # Where it is gone, `hear` says why.
            self.process.stdin.write(b"\n")

    def hear(self, seconds: float) -> dict[str, object]:
        """The next answer; raises UserError with the reason where none comes in so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            line, newline, rest = self._heard.partition(b"\n")
            if newline:
                self._heard = rest
                if (values := values_in(line)) is not None:
                    return values
                continue
            if not select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise UserError(_silence(self.host))
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                errors = self.process.stderr.read().decode(errors="replace")
                raise UserError(self.host.why_it_failed(self.process.wait(), errors))
            self._heard = line + piece


@contextmanager
def conversation(question: Question) -> Iterator[Conversation]:
    """A conversation with a host's agent, which ends with the block.

    Raises UserError where nothing can be started there.
    """
    process = start(question)
    try:
        yield Conversation(question.host, process)
    finally:
        question.host.end(process)
