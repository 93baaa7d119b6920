"""What came of a configuration that two checkouts launched, in words, and whether the gate is shut for it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.records.tables import read_rows
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MOST_ROUNDS, POWER

FILE = "against.csv"
"""The file in a comparison's folder with a row for each configuration that both checkouts launched."""

COMPARED = ("slower", "faster", "within", "can't tell")
"""Verdicts on configurations with enough rounds; the others are `deviates`, `fails`, `fails in both`, `too few rounds`
and `not compared`."""


@dataclass(frozen=True)
class Configuration:
    """What has a row of its own: launches of two configurations are never pooled."""

    strategy: str
    """With its label."""
    workers: int
    preset: str
    scaling: str
    exchange: bool

    def in_words(self) -> str:
        """The strategy, its workers, its preset and scaling."""
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        exchange = "" if self.exchange else " without exchange"
        return f"{self.strategy} with {workers}{exchange}, {self.preset} {self.scaling}"


@dataclass(frozen=True, kw_only=True)
class Change(Configuration):
    """A configuration that both checkouts were to launch, and what came of it: a row of the file."""

    n: int
    """How many pairs of launches ended ok in both checkouts, at the same work."""
    here_seconds: float | None = None
    """Per step: the median over the pairs, as for `there_seconds`."""
    there_seconds: float | None = None
    ratio: float | None = None
    """How many times as long a step takes here as there: the geometric mean over the pairs."""
    low: float | None = None
    """The beginning of the simultaneous 95 % interval over all rows with six pairs, which are one family."""
    high: float | None = None
    fewest: float | None = None
    """With this many rounds the interval would lie within the tolerance with 80 % power, were both equal."""
    most: float | None = None
    verdict: str
    note: str = ""
    """Why pairs are missing, what was made again, which options differ."""
    rev: str
    commit: str
    here: str
    tolerance: float
    notes: str = ""

    def interval_in_words(self) -> str | None:
        """The interval of the ratio; None where there is none."""
        return None if self.low is None or self.high is None else f"{self.low:.3f} to {self.high:.3f}"

    def evidence(self) -> str:
        """What the verdict rests on."""
        if self.verdict == "slower":
            return f"{self.ratio:.3f} times the seconds per step, {self.interval_in_words()}"
        return self.note

    def verdict_in_words(self) -> str:
        """The verdict; where nothing can be told, with the rounds that it would take."""
        if self.verdict != "can't tell":
            return self.verdict
        if self.most is not None and self.most <= self.n:
            return "can't tell: it is about as large as the tolerance"
        if self.fewest is None:
            return f"can't tell: it takes more than {MOST_ROUNDS:,} rounds for {100 * POWER:g} % power"
        most = f"more than {MOST_ROUNDS:,}" if self.most is None else f"{self.most:,.0f}"
        return f"can't tell: it takes {self.fewest:,.0f} to {most} rounds for {100 * POWER:g} % power"

    def commit_in_words(self) -> str:
        """The commit as it was asked for, and the beginning of its name."""
        return self.commit[:10] if self.commit.startswith(self.rev) else f"{self.rev} ({self.commit[:10]})"

    def here_in_words(self) -> str:
        """This checkout's commit, and whether files differ from it."""
        commit, _, changes = self.here.partition("+")
        return commit[:10] + (" with changes" if changes else "")

    def tolerance_in_words(self) -> str:
        """The tolerance in per cent."""
        return f"{100 * self.tolerance:g} %"


def read(folder: Path) -> list[Change]:
    """The rows in a comparison's folder; empty where there is no file. Raises UserError for a damaged one."""
    path = folder / FILE
    return read_rows(path, Change) if path.exists() else []


def failure(rows: Sequence[Change]) -> str | None:
    """Why the gate is shut, in one sentence; None where it is open.

    Something is slower, fails, or doesn't follow the oracle here alone; or nothing was compared.
    """
    if not rows:
        return "Nothing could be compared: no launch was made with both checkouts."
    commit, tolerance = rows[0].commit_in_words(), rows[0].tolerance_in_words()
    causes = {
        "slower": f"slower than {commit} by more than {tolerance}",
        "fails": f"fails here more often than with {commit}",
        "deviates": "doesn't follow the oracle here",
    }
    sentences = list[str]()
    for verdict, cause in causes.items():
        if named := [f"{row.in_words()} ({row.evidence()})" for row in rows if row.verdict == verdict]:
            sentences.append(f"{cause}: {', '.join(named)}")
    if not sentences and not {row.verdict for row in rows} & {*COMPARED}:
        sentences = [f"nothing could be compared with {commit}: {_why_nothing(rows)}"]
    text = "; ".join(sentences)
    return f"{text[0].upper()}{text[1:]}." if text else None


def _why_nothing(rows: Sequence[Change]) -> str:
    """The reason, and the remedy where there is one."""
    if failing := [row for row in rows if row.verdict == "fails in both"]:
        return f"launches fail with both ({failing[0].note})"
    most = max(row.n for row in rows)
    if not most:
        return rows[0].note
    made = "1 round was made" if most == 1 else f"{most} rounds were made"
    return f"{made}, and it takes {FEWEST_LAUNCHES}: raise --minutes, or name fewer --strategies"


def summary(rows: Sequence[Change]) -> str:
    """How many configurations got which verdict, in one sentence, of one row at least."""
    first, counts = rows[0], Counter(row.verdict for row in rows)
    words = {"within": f"within {first.tolerance_in_words()}", "can't tell": "can't be told", "fails": "fails here"}
    words["deviates"] = "deviates from the oracle"
    judged = (*COMPARED, "fails", "fails in both", "deviates")
    parts = [f"{counts[each]} {words.get(each, each)}" for each in judged if counts[each]]
    if others := counts["too few rounds"] + counts["not compared"]:
        parts.append(f"{others} not compared")
    settings = "1 setting" if len(rows) == 1 else f"{len(rows)} settings"
    return f"{first.here_in_words()} against {first.commit_in_words()}, of {settings}: {', '.join(parts)}."
