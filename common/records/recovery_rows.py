"""What launches that suffered a fault tell: a row for each strategy, fault and way to go on, over all rounds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from common.contract.fault import parse
from common.declarations.strategy import name_of
from common.records import certificate
from common.records.files import read_record
from common.records.recovery import Recovery, recovery_path
from common.records.training import Record
from common.statistics.intervals import Interval, median_interval

ENDED, AGAIN, BY_ITSELF, WAITED = "ended for good", "started again", "went on by itself", "waited for it"
"""What became of a launch: it ended for good, was started again from its checkpoint, or went on with all its workers or
with fewer; or the fault, such as a slow worker, ends nothing."""

_DASH = "\N{EN DASH}"

OTHER = "trained something else"
"""What became of a launch that went on and doesn't follow the oracle."""


@dataclass(frozen=True)
class Suffered:
    """One launch, and what it left."""

    launch: str
    record: Record
    account: Recovery
    verdict: str
    """That of the certificate; empty where it ended for good."""

    @property
    def has_recovered(self) -> bool:
        """Whether it came to its end, and trained what it should."""
        return self.record.status == "ok" and self.verdict != certificate.DEVIATES

    @property
    def goodput(self) -> float:
        """Steps of the training that were done, per second of the whole launch; 0 where it didn't recover."""
        return self.record.task.steps / self.account.total_seconds if self.has_recovered else 0.0

    @property
    def became(self) -> str:
        """What became of it, in a few words."""
        if self.record.status != "ok":
            return ENDED
        if not self.has_recovered:
            return OTHER
        if len(self.account.attempts) > 1:
            return AGAIN
        if self.record.task.workers and self.record.world_size < self.record.task.workers:
            return f"went on with {self.record.world_size} of {self.record.task.workers}"
        return WAITED if parse(self.account.fault).kind in ("slow", "late", "cable") else BY_ITSELF


@dataclass(frozen=True)
class Row:
    """What launches of a strategy tell that suffered the same fault, and could go on in the same way."""

    strategy: str
    """With its label."""
    colors: Sequence[str]
    fault: str
    """In words."""
    restarts: int
    """How often the launcher would start it again."""
    launches: Sequence[Suffered]
    became: Mapping[str, int]
    """What became of so many."""
    detection_seconds: Interval | None
    """From the fault to the first process that ended for it; None where none did."""
    noticed_by: Mapping[str, int]
    message: str
    """The most frequent one."""
    next_step_seconds: Interval | None
    steps_again: Interval | None
    goodput: Interval | None
    """Over that of the undisturbed launch in the same round; None where no round has both."""
    verdicts: Mapping[str, int]
    """The certificate's, on those that came to their end."""


def suffered(folder: Path, records: Mapping[str, Record]) -> list[Suffered]:
    """Every launch with an account, in the order of their names. Raises UserError for a damaged account."""
    verdicts = {each.launch: each.verdict for each in certificate.compare(records, folder)}
    return [
        Suffered(
            launch=launch,
            record=record,
            account=read_record(path, Recovery),
            verdict=verdicts.get(launch, ""),
        )
        for launch, record in records.items()
        if (path := recovery_path(folder / f"{launch}.json")).exists()
    ]


def rows(found: Sequence[Suffered]) -> list[Row]:
    """The rows on all launches that suffered a fault, each beside its strategy's undisturbed ones."""
    undisturbed = {
        (each.record.strategy, each.account.repetition): each.goodput
        for each in found
        if not each.account.fault and each.has_recovered
    }
    groups: dict[tuple[str, str, int], list[Suffered]] = {}
    for each in found:
        if each.account.fault:
            name = name_of(each.record.strategy, each.record.label)
            groups.setdefault((name, each.account.fault, each.record.task.restarts), []).append(each)
    return [_row(key, own, undisturbed) for key, own in groups.items()]


@dataclass(frozen=True)
class Saving:
    """What saving checkpoints costs a strategy's undisturbed launches while they train."""

    strategy: str
    seconds: Interval
    """For each checkpoint that is saved on the way."""
    share: Interval
    """Of the time from the first clocked window to the last one's end."""
    n: int
    """Launches."""


def saving(launches: Sequence[Suffered]) -> list[Saving]:
    """A row for each strategy whose undisturbed launches tell what saving costs."""
    costs: dict[str, list[tuple[float, float]]] = {}
    for each in launches:
        if not each.account.fault and each.record.status == "ok" and (cost := _cost_of_saving(each.record)):
            costs.setdefault(name_of(each.record.strategy, each.record.label), []).append(cost)
    rows: list[Saving] = []
    for name, own in costs.items():
        seconds, shares = zip(*own, strict=True)
        rows.append(Saving(name, median_interval(seconds), median_interval(shares), len(own)))
    return rows


def _cost_of_saving(record: Record) -> tuple[float, float] | None:
    """Seconds for each checkpoint on the way, and the share of all that they take; None where nothing tells.

    Between windows rank 0 also reads losses, which takes as long where nothing is saved and isn't counted.
    """
    clocked = [
        (each.step, each.started_seconds, each.started_seconds + each.seconds)
        for each in record.windows
        if each.rank == 0 and each.started_seconds is not None
    ]
    every = record.task.checkpoint_steps
    gaps = [(every and step % every == 0, start - end) for (_, _, end), (step, start, _) in pairwise(clocked)]
    saved = [gap for is_saved, gap in gaps if is_saved]
    others = [gap for is_saved, gap in gaps if not is_saved]
    if not saved or not others:
        return None
    seconds = median(saved) - median(others)
    return seconds, seconds * len(saved) / (clocked[-1][2] - clocked[0][1])


def _row(key: tuple[str, str, int], own: Sequence[Suffered], undisturbed: Mapping[tuple[str, int], float]) -> Row:
    strategy, fault, restarts = key
    shares = [
        each.goodput / undisturbed[pair]
        for each in own
        if (pair := (each.record.strategy, each.account.repetition)) in undisturbed
    ]
    recovered = [each for each in own if each.has_recovered]
    messages = Counter(each.account.message for each in own if each.account.message)
    return Row(
        strategy=strategy,
        colors=own[0].record.colors,
        fault=parse(fault).in_words,
        restarts=restarts,
        launches=own,
        became=Counter(each.became for each in own),
        detection_seconds=_interval([each.account.detection_seconds for each in own]),
        noticed_by=Counter(each.account.noticed_by for each in own if each.account.noticed_by),
        message=messages.most_common(1)[0][0] if messages else "",
        next_step_seconds=_interval([each.account.next_step_seconds for each in recovered]),
        steps_again=_interval([each.account.steps_again for each in recovered]),
        goodput=_interval(shares),
        verdicts=Counter(each.verdict for each in own if each.verdict),
    )


def _interval(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return median_interval(known) if known else None


COLUMNS = (
    *("strategy", "fault", "noticed after, s", "by", "then", "next step after, s", "steps again"),
    *("of undisturbed", "the maths then", "n"),
)
"""The columns of the table of rows."""


def cells(row: Row) -> list[str]:
    """A row in words, in the order of COLUMNS: medians, with their intervals from six launches on."""
    return [
        row.strategy,
        row.fault,
        _number(row.detection_seconds, 1),
        _counts(row.noticed_by) or "nobody",
        _counts(row.became),
        _number(row.next_step_seconds, 1),
        _number(row.steps_again, 0),
        _number(row.goodput, 2),
        _counts(row.verdicts) or _DASH,
        str(len(row.launches)),
    ]


def _number(values: Interval | None, digits: int) -> str:
    if values is None:
        return _DASH
    median = f"{values.median:.{digits}f}"
    if values.low is None or values.high is None or values.low == values.high:
        return median
    return f"{median} ({values.low:.{digits}f} to {values.high:.{digits}f})"


def _counts(found: Mapping[str, int]) -> str:
    """What was found, with how often where it wasn't always the same."""
    return ", ".join(name if len(found) == 1 else f"{count} {name}" for name, count in found.items())
