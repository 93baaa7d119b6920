"""How a launch ended, read from its exit status and from the lines that `common.errors` prints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from common.declarations.strategy import PROCESS, Launcher
from common.errors import FAILED, NOTE, PREFIX

TIMED_OUT_STATUS = 124
"""Exit status of a launch that its deadline ended, as timeout(1) gives."""

_REMEDY = "unset variables by which it was set up, such as OMPI_MCA_btl, or see its own words"

ENDED_WITH_STATUS = "ended with status"
"""What a sentence has where nothing but the status of a process is known."""

ENDED_WITH_SIGNAL, STOPPED_BY_SIGNAL = "ended with signal", "was stopped by a signal"
"""What a sentence has on a signal that ended or stopped the first of the processes, for which others were ended."""

_ERROR = re.compile(
    r"^(?:\S+\| )?(?:\[rank\d+\]: |\[\d+\]<stderr>: ?)?((?:\w+\.)*\w+(?:Error|Exception): \S.*)$", re.MULTILINE
)
"""The line by which Python names an error, behind the host and the rank that some launchers put before it."""

_MOST_LETTERS = 200


@dataclass(frozen=True)
class Ended:
    """How a launch ended; `unsupported`: it refused before anything was trained or measured."""

    status: Literal["ok", "unsupported", "failed"]
    reason: str | None = None
    """Why it isn't ok: one sentence."""


def sentences(text: str) -> Iterator[Ended]:
    """The refusals and failures in a launch's output, in their order, without its notes."""
    for line in text.splitlines():
        _, prefix, sentence = line.partition(PREFIX)
        if sentence.startswith(FAILED):
            yield Ended("failed", sentence.removeprefix(FAILED))
        elif prefix and not sentence.startswith(NOTE):
            yield Ended("unsupported", sentence)


def read(status: int, deadline_seconds: float, log: str, launcher: Launcher = PROCESS) -> Ended:
    """How a launch ended, from its exit status, its log, and how its launcher reports there what it noticed.

    A rank's own sentence on its failure counts before a signal, and a signal before any refusal. Some reports count
    before that sentence, which is about the loss of another process then: on a rank that no longer answers, and on the
    process that ended first, by a report with a `status` or by our own sentence on its signal. The launcher's own cause
    counts where nobody else names one. Where all that is known is a status, the first error that Python printed tells
    more.
    """
    ended = _read(status, deadline_seconds, log, launcher)
    reason, error = (ended.reason or "").rstrip("."), _ERROR.search(log)
    if ENDED_WITH_STATUS in reason and error:
        return Ended("failed", f"{reason}: {error[1][:_MOST_LETTERS].strip().rstrip('.')}.")
    return ended


def _read(status: int, deadline_seconds: float, log: str, launcher: Launcher) -> Ended:
    if status == 0:
        return Ended("ok")
    if status == TIMED_OUT_STATUS:
        return Ended("failed", f"It was ended by its deadline of {deadline_seconds:g} s.")
    silences = filter(None, (re.search(report, log) for report in launcher.silence_reports))
    if silence := min(silences, key=re.Match.start, default=None):
        rank = silence.groupdict().get("rank", "0")
        return Ended("failed", f"rank {rank} stopped answering, so all processes were ended.")
    endings = sorted(sentences(log), key=lambda ended: (ended.status != "failed", not _names_the_first(ended)))
    for match in filter(None, (re.search(report, log) for report in launcher.signal_reports)):
        is_of_first = "status" in match.groupdict()
        if is_of_first or not endings or endings[0].status != "failed":
            number = int(match["status"]) - 128 if is_of_first else match["signal"]
            return Ended("failed", f"rank {match['rank']} {ENDED_WITH_SIGNAL} {number}, so all processes were ended.")
    if endings:
        return endings[0]
    if launcher.cause_report and (match := re.search(launcher.cause_report, log)):
        cause = " ".join(match["cause"].split()).rstrip(".")
        return Ended("failed", f"The launcher gave up ({cause}): {_REMEDY}.")
    return Ended("failed", f"It {ENDED_WITH_STATUS} {status}.")


def _names_the_first(ended: Ended) -> bool:
    """Whether our own sentence names the process that a signal ended or stopped before the others ended."""
    return any(words in (ended.reason or "") for words in (ENDED_WITH_SIGNAL, STOPPED_BY_SIGNAL))


def exit_status(status: int) -> int:
    """The exit status by which a shell reports a process's own, which is negative for a signal."""
    return status if status >= 0 else 128 - status
