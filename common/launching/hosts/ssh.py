"""ssh, by which this machine reaches the hosts: its command line, what it starts there, and why that went wrong."""

import json
import os
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from common.errors import UserError
from common.launching.hosts.host import Host
from common.paths import ROOT

LOST_STATUS = 255
"""Exit status of ssh itself: it didn't reach the host, wasn't let in, or lost the connection."""

_SETTINGS = (
    # Nobody is there to answer a question, such as one for a password.
    "BatchMode=yes",
    "ConnectTimeout=10",
    # A connection that is lost in silence ends after fifteen seconds.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    # A connection that others share outlasts this program, and would keep its pipes open.
    "ControlPath=none",
)
_ANSWER_SECONDS = 60.0
_NOT_THERE = (126, 127)
"""Exit statuses of a shell that can't start a program."""

_CAUSES = (
    (
        r"Could not resolve hostname",
        "{host}: no machine is found by this name: correct it, or add it to /etc/hosts, DNS or ~/.ssh/config.",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "{host} has another host key than ~/.ssh/known_hosts says: where that is right, remove the old one by "
        "`ssh-keygen -R {host}`.",
    ),
    (r"Host key verification failed", "{host} has a host key that isn't known here: accept it once by `ssh {host}`."),
    (
        r"Permission denied \(|Too many authentication failures",
        "{host} asks for a password, or doesn't take your key: see to it that `ssh {host}` asks nothing, as by "
        "`ssh-copy-id {host}`.",
    ),
    (
        r"ssh: connect to host .*: (.+)",
        "{host} can't be reached by ssh ({detail}): see whether it is up, and sshd runs there.",
    ),
    (r"timed out during banner exchange", "{host} can't be reached by ssh (its sshd is silent): see whether it is up."),
)
"""What ssh prints, which it does in English alone, and what that means; the first that is found counts."""


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


def command(host: Host, *words: str) -> list[str]:
    """The command line of ssh that starts the agent with these words on a host.

    This Python and this checkout are at the same path on every host: the frameworks' launchers and mpirun need that
    too. What the agent has to know beside its words goes to its input, never here, where everybody can read it.
    """
    settings = [word for setting in _SETTINGS for word in ("-o", setting)]
    agent = shlex.join([sys.executable, "-m", "common.launching.hosts.agent", *words])
    return ["ssh", "-T", *settings, host.name, f"cd {shlex.quote(str(ROOT))} && exec {agent}"]


def why_it_failed(host: Host, status: int, stderr: str) -> str:
    """One sentence with the host, the cause and the remedy, from ssh's exit status and what it printed."""
    if status == LOST_STATUS:
        for pattern, sentence in _CAUSES:
            if found := re.search(pattern, stderr):
                return sentence.format(host=host.name, detail=found[1].strip() if found.groups() else "")
        return f"{host.name} was lost (its connection ended): see whether it and its network are up."
    if refusals := re.findall(r"lockstep: (?:failed: )?(.+)", stderr):
        named = re.search(rf"\b{re.escape(host.name)}\b", refusals[0])
        return refusals[0] if named else f"{host.name}: {refusals[0]}"
    if status in _NOT_THERE:
        return (
            f"{host.name} has no {sys.executable}: make the same environments there, at the same path, by `nox -s "
            "tools` and the like."
        )
    if re.search(r"\bcd\b", stderr) and str(ROOT) in stderr:
        return f"{host.name} has no checkout in {ROOT}: make one there, at the same path."
    if re.search(r"No module named '?common", stderr):
        return f"{host.name} has another checkout in {ROOT}: make it the same commit there as here."
    said = stderr.strip().splitlines()[-1:] or ["it printed nothing"]
    return f"{host.name}: what ssh started there ended with status {status} ({said[0].strip()}): try `ssh {host.name}`."


def start(question: Question) -> subprocess.Popen[bytes]:
    """Start what is asked on the host; its input stays open, and its end is the end of what was asked.

    Raises UserError where ssh isn't installed.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        # In a session of its own, so that ^C ends what runs on the hosts in order, through this process.
        process = subprocess.Popen(command(question.host, question.action), bufsize=0, start_new_session=True, **pipes)
    except FileNotFoundError as error:
        raise UserError(f"{question.host.name} can't be reached without ssh: install OpenSSH's client here.") from error
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(question.request).encode() + b"\n")
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End ssh, where it hasn't ended, and what it started there with it."""
    process.kill()
    with process:
        pass


def ask(questions: Sequence[Question], seconds: float = _ANSWER_SECONDS) -> list[Answer]:
    """The answers to all questions, which are asked at the same time; those that take too long are failures.

    Raises UserError where ssh isn't installed.
    """
    deadline = time.monotonic() + seconds
    asked: list[subprocess.Popen[bytes]] = []
    try:
        for question in questions:
            asked.append(start(question))
        return [_answer(each.host, process, deadline) for each, process in zip(questions, asked, strict=True)]
    finally:
        for process in asked:
            end(process)


def _answer(host: Host, process: subprocess.Popen[bytes], deadline: float) -> Answer:
    try:
        output, errors = process.communicate(timeout=max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return Answer(host, {}, f"{host.name} didn't answer in time: see whether `ssh {host.name}` works.", lost=True)
    if process.returncode:
        failure = why_it_failed(host, process.returncode, errors.decode(errors="replace"))
        return Answer(host, {}, failure, lost=process.returncode == LOST_STATUS)
    for line in reversed(output.splitlines()):
        if (values := values_in(line)) is not None:
            return Answer(host, values)
    return Answer(host, {}, f"{host.name} gave no answer: make it the same commit there as here.")


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
                raise UserError(f"{self.host.name} didn't answer in time: see whether `ssh {self.host.name}` works.")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                errors = self.process.stderr.read().decode(errors="replace")
                raise UserError(why_it_failed(self.host, self.process.wait(), errors))
            self._heard = line + piece


@contextmanager
def conversation(question: Question) -> Iterator[Conversation]:
    """A conversation with a host's agent, which ends with the block. Raises UserError where ssh isn't installed."""
    process = start(question)
    try:
        yield Conversation(question.host, process)
    finally:
        end(process)


def address_of(host: Host) -> str:
    """The name or address by which the user's ssh reaches a host: ~/.ssh/config may give it another than its own."""
    try:
        result = subprocess.run(["ssh", "-G", host.name], capture_output=True, text=True)
    except FileNotFoundError:
        return host.name
    found = re.search(r"^hostname (\S+)$", result.stdout, re.MULTILINE)
    return found[1] if found else host.name
