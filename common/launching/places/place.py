"""A host on which an agent of ours is asked, whatever reaches it, and how it is asked."""

import json
import os
import re
import select
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import msgspec

from common.errors import UserError
from common.launching import exit_cause
from common.paths import ROOT

AGENT = "common.launching.hosts.agent"
"""The program that does on a host what it is asked to do."""

LOST_STATUS = 255
"""Exit status of a process on a host that wasn't reached, or whose connection was lost: ssh's, and so every place's."""

_NOT_THERE = (126, 127)
"""Exit statuses of a shell that can't start a program."""

_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Host(ABC):
    """A machine on which this checkout's Python is started, by ssh or by whatever else reaches it.

    This Python and this checkout are at the same path on every host: the frameworks' launchers and mpirun need that
    too. What was started there ends with its input.
    """

    client: ClassVar[str]
    """What reaches it, in words."""
    losses: ClassVar[Sequence[tuple[str, str]]]
    """What `client` prints where the host is lost, and the sentence on that; the first that is found counts."""
    loss: ClassVar[str]
    """The sentence on a loss of which nothing is printed."""
    is_lost_by_words: ClassVar[bool] = False
    """Whether what is printed tells a loss whatever the exit status is, or with LOST_STATUS alone."""
    heartbeat_seconds: ClassVar[float | None] = None
    """How often what runs there is told that it is still wanted; None: the end of its input suffices."""
    name: str
    """By which the user knows it."""
    slots: int
    """How many workers it takes."""

    def address(self) -> str:
        """The name or address by which the other hosts reach it."""
        return self.name

    @abstractmethod
    def command(self, words: Sequence[str]) -> list[str]:
        """The command line that starts Python there with these words, in this checkout."""

    def variables(self) -> dict[str, str]:
        """Environment variables that a launch needs there, beside those that the host gives."""
        return {}

    def why_it_was_lost(self, status: int, errors: str) -> str | None:
        """One sentence with the host, the cause and the remedy, from an exit status and what was printed.

        None where the host was reached, and what was started there ended by itself.
        """
        if status == LOST_STATUS or self.is_lost_by_words:
            for pattern, sentence in self.losses:
                if match := re.search(pattern, errors):
                    return sentence.format(host=self.name, detail=match[1].strip() if match.groups() else "")
        return self.loss.format(host=self.name) if status == LOST_STATUS else None

    def start(self, action: str, request: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Have the agent there do an action, which ends with the process's input; its three streams are pipes.

        Raises UserError where this machine can't start anything.
        """
        command, pipes = self.command(["-m", AGENT, action]), subprocess.PIPE
        try:
            # In a session of its own, so that ^C ends what runs on the hosts in order, through this process.
            process = subprocess.Popen(
                command, bufsize=0, start_new_session=True, stdin=pipes, stdout=pipes, stderr=pipes
            )
        except FileNotFoundError as error:
            raise UserError(
                f"{self.name} can't be reached without {command[0]}: install {self.client} here."
            ) from error
        # Here and on no command line, which everybody can read.
        with suppress(BrokenPipeError):
            pipe(process.stdin).write(json.dumps(request).encode() + b"\n")
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End what was started there, in bounded time."""
        self.break_off(process)
        with process:
            pass

    def break_off(self, process: subprocess.Popen[bytes]) -> None:
        """Have what reaches the host leave at once, and what was started there end."""
        process.kill()

    def why_it_failed(self, status: int, errors: str) -> str:
        """One sentence with the host, the cause and the remedy, from an exit status and what was printed."""
        name = self.name
        if lost := self.why_it_was_lost(status, errors):
            return lost
        if ended := next(exit_cause.sentences(errors), None):
            reason = str(ended.reason)
            return reason if re.search(rf"\b{re.escape(name)}\b", reason) else f"{name}: {reason}"
        # As a shell says it, and slurmstepd, which tries to start the program without the checkout as well.
        is_elsewhere = "couldn't chdir to" in errors
        if status in _NOT_THERE or ("execve(): " in errors and not is_elsewhere):
            return (
                f"{name} has no {sys.executable}: make the same environments there, at the same path, by `nox -s "
                "tools` and the like."
            )
        if is_elsewhere or (re.search(r"\bcd\b", errors) and str(ROOT) in errors):
            return f"{name} has no checkout in {ROOT}: make one there, at the same path."
        if re.search(r"No module named '?common", errors):
            return f"{name} has another checkout in {ROOT}: make it the same commit there as here."
        last = errors.strip().splitlines()[-1:] or ["it printed nothing"]
        program = self.command([])[0]
        words = f"what {program} started there ended with status {status} ({last[0].strip()})"
        return f"{name}: {words}: try `{program} {name}`."


@dataclass(frozen=True)
class Answer:
    """What a host's agent answered, or why there is no answer."""

    host: Host
    values: Mapping[str, Any]
    """Empty where there is no answer."""
    failure: str | None = None
    """One sentence, with the host, that says why there is none."""
    lost: bool = False
    """Whether the host wasn't reached."""


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """A stream of what a host has started, which is there: all are pipes."""
    assert stream
    return stream


def ask(action: str, requests: Mapping[Host, Mapping[str, Any]], seconds: float = _ANSWER_SECONDS) -> list[Answer]:
    """The answers of all hosts, which are asked at the same time. Raises UserError as `Host.start` does."""
    with ExitStack() as ends:
        conversations = [ends.enter_context(conversation(host, action, each)) for host, each in requests.items()]
        deadline = time.monotonic() + seconds
        # All are read side by side, so that a host that is silent takes no time from the others.
        with ThreadPoolExecutor(max_workers=len(conversations) or 1) as pool:
            try:
                return [*pool.map(lambda each: each.answer(deadline), conversations)]
            finally:
                # Where a signal ends this, the readers come to the end of their streams.
                for each in conversations:
                    each.host.break_off(each.process)


def print_answer(values: object) -> None:
    """Print an agent's answer, a mapping or a struct, at once."""
    print(msgspec.json.encode(values).decode(), flush=True)


def values_in(line: bytes) -> dict[str, Any] | None:
    """What an agent said in a line, or None where something else printed it, such as the user's shell as it started."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=dict[str, Any])
    return None


@dataclass
class Conversation:
    """An agent with which this process exchanges lines."""

    host: Host
    process: subprocess.Popen[bytes]
    _rest: bytes = b""

    def say(self) -> None:
        """Ask for the next answer."""
        with suppress(BrokenPipeError):  # Where it is gone, `hear` says why.
            pipe(self.process.stdin).write(b"\n")

    def hear(self, seconds: float) -> dict[str, Any]:
        """The next answer. Raises UserError with the reason where none comes in so many seconds."""
        output, deadline = pipe(self.process.stdout), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                if (values := values_in(line)) is not None:
                    return values
            elif select.select([output], [], [], left)[0]:
                piece = os.read(output.fileno(), 65536)
                if not piece:
                    raise UserError(self.answer(deadline).failure)
                self._rest += piece
        raise UserError(self._silence)

    def answer(self, deadline: float) -> Answer:
        """The last answer until the agent ends, or why there is none by the deadline."""
        host = self.host
        try:
            output, errors = self.process.communicate(timeout=max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return Answer(host, {}, self._silence, lost=True)
        if status := self.process.returncode:
            printed = errors.decode(errors="replace")
            lost = host.why_it_was_lost(status, printed) is not None
            return Answer(host, {}, host.why_it_failed(status, printed), lost)
        for line in reversed(output.splitlines()):
            if (values := values_in(line)) is not None:
                return Answer(host, values)
        return Answer(host, {}, f"{host.name} gave no answer: make it the same commit there as here.")

    @property
    def _silence(self) -> str:
        return f"{self.host.name} didn't answer in time: see whether it is up, and starts programs."


@contextmanager
def conversation(host: Host, action: str, request: Mapping[str, Any]) -> Generator[Conversation]:
    """A conversation with a host's agent, which ends with the block. Raises UserError as `Host.start` does."""
    process = host.start(action, request)
    try:
        yield Conversation(host, process)
    finally:
        host.end(process)
