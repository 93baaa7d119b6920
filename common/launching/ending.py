"""How a launch ended: told by an exit status and by the lines that `common.errors` prints, and read from both here."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from common.errors import FAILED, NOTE, PREFIX

TIMED_OUT_STATUS = 124
"""Exit status of a launch that its deadline ended, as timeout(1) gives."""


@dataclass(frozen=True)
class Ended:
    """How a launch ended."""

    status: Literal["ok", "unsupported", "failed"]
    """`unsupported`: it refused before anything was trained or measured."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""


OK = Ended("ok")
NO_RECORD = Ended("failed", "It ended without leaving a record.")


def sentences(text: str) -> Iterator[Ended]:
    """The refusals and failures that a launch's output tells of, in their order; notes are left out."""
    for line in text.splitlines():
        _, prefix, sentence = line.partition(PREFIX)
        if sentence.startswith(FAILED):
            yield Ended("failed", sentence.removeprefix(FAILED))
        elif prefix and not sentence.startswith(NOTE):
            yield Ended("unsupported", sentence)


def read(status: int, deadline_seconds: float, log: str, signal_reports: Sequence[str] = ()) -> Ended:
    """How a launch ended, from its exit status, its log, and how its launcher reports signals there.

    What a rank says of its failure counts before a signal, and that before any refusal.
    """
    if status == 0:
        return OK
    if status == TIMED_OUT_STATUS:
        return Ended("failed", f"It was ended by its deadline of {deadline_seconds:g} s.")
    found = sorted(sentences(log), key=lambda each: each.status != "failed")
    if found and found[0].status == "failed":
        return found[0]
    for match in filter(None, (re.search(report, log) for report in signal_reports)):
        reason = f"rank {match['rank']} ended with signal {match['signal']}, so all processes were ended."
        return Ended("failed", reason)
    return found[0] if found else Ended("failed", f"It ended with status {status}.")


def exit_status(status: int) -> int:
    """The exit status by which a shell tells of a process's own, which is negative for a signal."""
    return status if status >= 0 else 128 - status
