"""Whether this checkout is slower than a commit, from pairs of launches: both checkouts make those of the same rounds.

To start it: `nox -s compare -- --against-commit REV`.
"""

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from common.declarations.strategy import has_exchange, label, name_of
from common.launching import executor
from common.launching.executor import ThisMachine
from common.launching.planned import PlannedLaunch
from common.launching.processes import signals_held
from common.paths import ROOT
from common.records import certificate, manifest
from common.records.change import FILE, Change, Configuration, failure, summary
from common.records.files import read_records
from common.records.metrics import throughput
from common.records.tables import write_rows
from common.records.training import Record
from common.sessions.other_checkout import RECORDS, Against
from common.sessions.session import Stage
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import Judgement, judge

_MORE_FAILURES = 2
"""In so many rounds more than there launches have to fail here, though they were made again once."""

_MORE_FIRST_FAILURES = 3
"""In so many rounds more than there, and in half of all rounds, first attempts have to fail here."""

_NOT_WORK = {"record", "checkpoint", "data_dir", "deadline_seconds"}
"""Fields of a task that decide neither what is computed nor how it is clocked."""

_FIRST_ATTEMPT = ".first"
"""What the log and the record of a launch that failed, and was made again, have behind their names."""


@dataclass(frozen=True)
class _Pair:
    """A launch as both checkouts made it: here, then there."""

    here: Record | None
    there: Record | None
    was_made_again: tuple[bool, bool]

    def records(self) -> list[Record]:
        """Those that there are."""
        return [record for record in (self.here, self.there) if record]

    def problems(self) -> tuple[str, str]:
        """Why each side was no good launch; empty: it was."""
        return _problem(self.here, "here"), _problem(self.there, "there")

    def gap(self) -> str:
        """Why both make no pair; empty: they do."""
        if problem := self.problems()[0] or self.problems()[1]:
            return problem
        ours, theirs = (dataclasses.asdict(record.task) for record in self.records())
        rows = [{"rows per step": record.examples_per_step} for record in self.records()]
        differences = _differences(ours, theirs, _NOT_WORK) or _differences(*rows)
        return f"not the same work: {', '.join(differences)}" if differences else ""


def _problem(record: Record | None, place: str) -> str:
    if record is None:
        return f"not launched {place}"
    if record.status != "ok":
        # The rest says how to mend it.
        cause = (record.reason or "").partition(": ")[0].rstrip(".")
        return f"{record.status} {place}: {cause}"
    return "" if record.windows else f"nothing was clocked {place}"


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object], but: Collection[str] = ()) -> list[str]:
    """What both have and differs. What only one of them has is at its default, without effect."""
    return [
        f"{name} is {value} here and {theirs[name]} there"
        for name, value in ours.items()
        if name in theirs and theirs[name] != value and name not in but
    ]


def is_paired(stage: Stage[Any] | None, launch: object) -> bool:
    """Whether both checkouts make this launch of a comparison: those of its rounds that tell the speed."""
    is_in_round = stage is not None and stage.name == "round"
    return is_in_round and isinstance(launch, PlannedLaunch) and launch.purpose == "throughput"


def run_both(launch: PlannedLaunch, folder: Path, checkout: Path) -> tuple[Record, Record]:
    """Make a launch with this checkout and with the other, one right after the other; their records in this order.

    Which comes first alternates from round to round, so that neither has the better place.
    """
    sides = [(folder, ROOT), (folder / RECORDS, checkout)]
    if launch.repetition % 2 == 0:
        sides.reverse()
    records: dict[Path, Record] = {}
    try:
        for place, code in sides:
            records[code] = _run(launch, place, code)
    finally:
        with signals_held():
            if len(records) < len(sides):
                # Half a pair doesn't count: both are made again when the comparison goes on.
                for place, _ in sides:
                    (place / f"{launch.name}.json").unlink(missing_ok=True)
            left = [folder / RECORDS / f"{launch.name}.json", *manifest.files_of(folder / RECORDS, launch.name)]
            manifest.note(folder, left)
    return records[ROOT], records[checkout]


def _run(launch: PlannedLaunch, folder: Path, code: Path) -> Record:
    """Make a launch with this checkout, and once more where it failed; the first attempt's log and record are kept."""
    place = ThisMachine(code)
    paths = [folder / f"{launch.name}.json", folder / f"{launch.name}.log"]
    kept = {path: path.with_name(f"{path.name}{_FIRST_ATTEMPT}") for path in paths}
    for path in kept.values():
        # An interrupted comparison's, which makes the launch anew.
        path.unlink(missing_ok=True)
    record = executor.run_planned(launch, folder, place)
    if record.status != "failed":
        return record
    for path in paths:
        if path.exists():
            path.replace(kept[path])
    return executor.run_planned(launch, folder, place)


def conclude(console: Console, against: Against, folder: Path, stages: Sequence[Stage[Any]]) -> str | None:
    """Print what came of a comparison and write it to its folder; return why its gate is shut, None where it is open.

    `stages` are those that the comparison has made. Raises UserError for a damaged record.
    """
    places = (folder, folder / RECORDS)
    here, there = (read_records(place, Record) for place in places)
    # Launches that failed and were made again.
    ending = f".json{_FIRST_ATTEMPT}"
    again_here, again_there = ({path.name.removesuffix(ending) for path in each.glob(f"*{ending}")} for each in places)
    planned = {
        Configuration(
            name_of(launch.strategy.name, label(launch.options)),
            launch.workers,
            launch.task.preset,
            launch.task.scaling,
            has_exchange(launch.options),
        )
        for stage in stages
        for launch in stage.launches
        if is_paired(stage, launch)
    }
    rows = changes(here, there, against, _deviating(here, there, folder), (again_here, again_there), planned)
    write_rows(folder / FILE, rows, Change)
    if rows:
        _print(console, rows)
    return failure(rows)


def _deviating(here: Mapping[str, Record], there: Mapping[str, Record], folder: Path) -> dict[Configuration, str]:
    """Why launches don't follow their oracle here, where the same strategy and workers do follow there."""
    ours, theirs = certificate.compare(here, folder), certificate.compare(there, folder / RECORDS)
    there_too = {
        (each.strategy, each.workers, each.exchange) for each in theirs if each.verdict == certificate.DEVIATES
    }
    return {
        Configuration(each.strategy, each.workers, each.preset, each.scaling, each.exchange): each.note
        for each in ours
        if each.verdict == certificate.DEVIATES and (each.strategy, each.workers, each.exchange) not in there_too
    }


def changes(
    here: Mapping[str, Record],
    there: Mapping[str, Record],
    against: Against,
    deviating: Mapping[Configuration, str] | None = None,
    again: tuple[Collection[str], Collection[str]] = ((), ()),
    planned: Collection[Configuration] = (),
) -> list[Change]:
    """A row for each configuration that both checkouts were to launch: all that the other one did, and the `planned`.

    `here` and `there` are records by launch, and `again` the launches that each made again. `verdict`:

    - `deviates`: the configuration is one of the `deviating`, which have the reason; each of them has a row;
    - `fails`: launches failed here, though made again, in at least two rounds more than there; or first attempts did,
      in at least three and in half of the rounds; or none ended ok here, and one did there. A launch that is
      unsupported, has no record or clocks nothing counts as failed;
    - `slower`, `faster`: the interval lies wholly above 1 + tolerance, or wholly below 1 / (1 + tolerance);
    - `within`: it lies wholly between them;
    - `can't tell`: it doesn't;
    - `fails in both`: fewer than six pairs, since launches failed in most rounds of both;
    - `too few rounds`: fewer than six pairs for another reason;
    - `not compared`: no pair for another reason.
    """
    deviating = deviating or {}
    pairs: dict[Configuration, list[_Pair]] = {configuration: [] for configuration in deviating}
    # What only one checkout launches at all, such as its certificates, isn't compared.
    compared = {*map(_configuration, there.values()), *planned}
    for launch in sorted(here.keys() | there.keys()):
        record = here.get(launch) or there[launch]
        if _configuration(record) in compared:
            pair = _Pair(here.get(launch), there.get(launch), (launch in again[0], launch in again[1]))
            pairs.setdefault(_configuration(record), []).append(pair)
    steps = {
        configuration: [
            [throughput(record).seconds_per_step for record in pair.records()] for pair in launches if not pair.gap()
        ]
        for configuration, launches in pairs.items()
    }
    logs = {each: [math.log(ours / theirs) for ours, theirs in seconds] for each, seconds in steps.items() if seconds}
    judged = dict(zip(logs, judge([*logs.values()], against.tolerance, by_interval=True), strict=True))
    rows: list[Change] = []
    for configuration, launches in pairs.items():
        judgement, note = judged.get(configuration), _note(launches)
        row = Change(
            **dataclasses.asdict(configuration),
            n=len(steps[configuration]),
            verdict="deviates" if configuration in deviating else _verdict(judgement, against.tolerance, launches),
            note="; ".join(filter(None, [deviating.get(configuration), note])),
            rev=against.rev,
            commit=against.commit,
            here=against.here,
            tolerance=against.tolerance,
            notes=" ".join(against.notes),
        )
        if judgement:
            ours, theirs = (statistics.median(side) for side in zip(*steps[configuration], strict=True))
            row = dataclasses.replace(row, here_seconds=ours, there_seconds=theirs, ratio=judgement.ratio)
        if judgement and judgement.needed:
            low, high, needed = judgement.low, judgement.high, judgement.needed
            row = dataclasses.replace(row, low=low, high=high, fewest=needed.fewest, most=needed.most)
        rows.append(row)
    return rows


def _configuration(record: Record) -> Configuration:
    return Configuration(record.name, record.world_size, record.task.preset, record.scaling, record.exchange)


def _verdict(judgement: Judgement | None, tolerance: float, launches: Sequence[_Pair]) -> str:
    rounds, sides = len(launches), (0, 1)
    failures = [sum(bool(pair.problems()[side]) for pair in launches) for side in sides]
    at_first = [sum(pair.was_made_again[side] or bool(pair.problems()[side]) for pair in launches) for side in sides]
    if fails(rounds, failures[0], failures[1], at_first[0], at_first[1]):
        return "fails"
    if judgement is None or judgement.n < FEWEST_LAUNCHES:
        records = [[pair.here for pair in launches], [pair.there for pair in launches]]
        failed = [sum(record is not None and record.status == "failed" for record in side) for side in records]
        if min(failed) > rounds / 2:
            return "fails in both"
        return "too few rounds" if judgement else "not compared"
    longest, shortest = 1 + tolerance, 1 / (1 + tolerance)
    if judgement.low > longest:
        return "slower"
    if judgement.high < shortest:
        return "faster"
    return "within" if shortest <= judgement.low and judgement.high <= longest else "can't tell"


def fails(
    rounds: int,
    here: int | np.ndarray,
    there: int | np.ndarray,
    first_here: int | np.ndarray,
    first_there: int | np.ndarray,
) -> bool | np.ndarray:
    """Whether launches failed here so much more often than there that it is hardly an accident.

    `here` and `there` are the rounds in which they failed though made again, the others those in which the first
    attempt did. Where each attempt fails with a probability of 5 % on both sides, fewer than 5 % of comparisons of a
    dozen configurations over 6 to 20 rounds have one that fails; the tests compute it.
    """
    never = (here == rounds) & (there < rounds)
    at_first = first_here - first_there >= max(_MORE_FIRST_FAILURES, rounds / 2)
    return never | (here - there >= _MORE_FAILURES) | at_first


def _note(launches: Sequence[_Pair]) -> str:
    """Why launches of a configuration make no pairs, which were made again, and which of its options differ."""
    gaps, of = Counter(pair.gap() for pair in launches if pair.gap()), f"of {len(launches)}"
    parts = [f"{reason} ({count} {of})" for reason, count in gaps.items()]
    for side, place in enumerate(("here", "there")):
        if count := sum(pair.was_made_again[side] for pair in launches):
            parts.append(f"failed at first {place}, and was made again ({count} {of})")
    pairs = [pair for pair in launches if not pair.gap()]
    if pairs and (options := _differences(*[record.options for record in pairs[0].records()])):
        parts.append(f"options differ: {', '.join(options)}")
    return "; ".join(parts)


def _print(console: Console, rows: Sequence[Change]) -> None:
    table = Table("setting", "n", "ms here", "ms there", "ratio", "95 % interval", "verdict")
    for row in rows:
        seconds = [row.here_seconds, row.there_seconds]
        times = ["-" if each is None else f"{1000 * each:.4g}" for each in seconds]
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
        table.add_row(row.in_words(), str(row.n), *times, ratio, row.interval_in_words() or "-", row.verdict_in_words())
    console.print(table)
    console.print(" ".join(filter(None, [summary(rows), rows[0].notes])), markup=False)
    for row in rows:
        if row.note:
            console.print(f"  note: {row.in_words()}: {row.note}", markup=False)
