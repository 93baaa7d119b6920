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

import numpy as np
import pandas
from rich.console import Console
from rich.table import Table

from common.contract.task import Task
from common.declarations.strategy import name_of
from common.errors import UserError
from common.files import write_atomically
from common.launching import supervision
from common.launching.planned import PlannedLaunch
from common.launching.processes import signals_held
from common.launching.supervision import ThisMachine
from common.paths import ROOT
from common.records import certificate, manifest
from common.records.files import read_records
from common.records.metrics import throughput
from common.records.training import Record
from common.sessions.other_checkout import RECORDS, Against, launcher_of
from common.sessions.session import Stage
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MOST_ROUNDS, POWER, Judgement, Needed, judge

FILE = "against.csv"
"""The file in a comparison's folder with what came of it: one row for each setting that both checkouts launched."""

COMPARED = ("slower", "faster", "within", "can't tell")
"""Verdicts on settings with enough rounds; the others are `deviates`, `fails`, `fails in both`, `too few rounds` and
`not compared`."""

_SETTING = ("strategy", "workers", "preset", "scaling", "exchange")
_NUMBERS = ("n", "here_seconds", "there_seconds", "ratio", "low", "high", "fewest", "most")
_WORDS = ("verdict", "note")
_ABOUT = ("rev", "commit", "here", "tolerance", "notes")
"""Columns of the table: what a row is about, what was measured, what is said of it; and what all rows have alike."""

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
    """A launch as both checkouts made it: each side's record, None where it has none, and whether it was made again."""

    here: Record | None
    there: Record | None
    again_here: bool = False
    again_there: bool = False

    @property
    def gap(self) -> str:
        """Why both make no pair; empty: they do."""
        for record, place in ((self.here, "here"), (self.there, "there")):
            if record is None:
                return f"not launched {place}"
            if record.status != "ok":
                # The rest says how to mend it.
                cause = (record.reason or "").partition(": ")[0].rstrip(".")
                return f"{record.status} {place}: {cause}"
            if not record.windows:
                return f"nothing was clocked {place}"
        work = [_work(record.task) for record in (self.here, self.there)]
        rows = [{"rows per step": record.examples_per_step} for record in (self.here, self.there)]
        differences = _differences(*work) or _differences(*rows)
        return f"not the same work: {', '.join(differences)}" if differences else ""

    def seconds_per_step(self) -> tuple[float, float]:
        """Of both sides, which make a pair."""
        return throughput(self.here).seconds_per_step, throughput(self.there).seconds_per_step


def _work(task: Task) -> dict[str, object]:
    return {name: value for name, value in dataclasses.asdict(task).items() if name not in _NOT_WORK}


def is_paired(stage: Stage, launch: PlannedLaunch) -> bool:
    """Whether both checkouts make this launch of a comparison: those of its rounds that tell the speed."""
    return stage.name == "round" and launch.purpose == "throughput"


def run_both(launch: PlannedLaunch, folder: Path, checkout: Path, root: Path = ROOT) -> tuple[Record, Record]:
    """Make a launch with this checkout and with the other, one right after the other; their records in this order.

    Which comes first alternates from round to round, so that neither has the better place.
    """
    sides = [(folder, root), (folder / RECORDS, checkout)]
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
    return records[root], records[checkout]


def _run(launch: PlannedLaunch, folder: Path, code: Path) -> Record:
    """Make a launch with this checkout, and once more where it failed; the first attempt's log and record are kept."""
    place = ThisMachine(launcher_of(code), code)
    paths = [folder / f"{launch.name}.json", folder / f"{launch.name}.log"]
    kept = {path: path.with_name(f"{path.name}{_FIRST_ATTEMPT}") for path in paths}
    for path in kept.values():
        # An interrupted comparison's, which makes the launch anew.
        path.unlink(missing_ok=True)
    record = supervision.run_planned(launch, folder, place)
    if record.status != "failed":
        return record
    for path in paths:
        if path.exists():
            path.replace(kept[path])
    return supervision.run_planned(launch, folder, place)


def _failed_at_first(folder: Path) -> set[str]:
    """The launches in the folder that failed and were made again, by name."""
    ending = f".json{_FIRST_ATTEMPT}"
    return {path.name.removesuffix(ending) for path in folder.glob(f"*{ending}")}


def conclude(console: Console, against: Against, folder: Path) -> str | None:
    """Print what came of a comparison and write it to its folder; return why its gate is shut, None where it is open.

    Raises UserError for a damaged record.
    """
    folders = (folder, folder / RECORDS)
    here, there = (read_records(each, Record) for each in folders)
    again = tuple(map(_failed_at_first, folders))
    table = changes(here, there, against.tolerance, _deviating(here, there, folder), again, _planned(folder))
    about = (against.rev, against.commit, against.here, against.tolerance, " ".join(against.notes))
    table = table.assign(**dict(zip(_ABOUT, about, strict=True)))
    write_atomically(folder / FILE, table.to_csv(index=False).encode())
    _print(console, table)
    return failure(table)


def read(folder: Path) -> pandas.DataFrame | None:
    """What `conclude` wrote into a comparison's folder; None where there is nothing.

    Raises UserError for a damaged file.
    """
    path = folder / FILE
    if not path.exists():
        return None
    remedy = "delete it and run the comparison again"
    texts = {"strategy", "preset", "scaling", *_WORDS, *_ABOUT} - {"tolerance"}
    try:
        # What looks like a number or like nothing may be a commit's name.
        missing = {name: [""] for name in _NUMBERS}
        table = pandas.read_csv(path, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=missing)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read ({error}): {remedy}.") from error
    if lacking := [name for name in (*_SETTING, *_NUMBERS, *_WORDS, *_ABOUT) if name not in table.columns]:
        raise UserError(f"{path} has no column {', '.join(lacking)}: {remedy}.")
    return table


def _planned(folder: Path) -> set[tuple]:
    """The settings that both checkouts were to launch, by the comparison's plan, as `is_paired` has it."""
    path = folder / "plan.csv"
    rows = pandas.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    return {
        (name_of(row["strategy"], row["label"]), *(row[name] for name in _SETTING[1:]))
        for row in rows
        if row["stage"] == "round" and row["purpose"] == "throughput"
    }


def _deviating(here: Mapping[str, Record], there: Mapping[str, Record], folder: Path) -> dict[tuple, str]:
    """By setting why a launch doesn't follow its oracle here, where the same strategy and workers do follow there."""
    ours, theirs = certificate.compare(here, folder), certificate.compare(there, folder / RECORDS)
    known = {(each.strategy, each.workers, each.exchange) for each in theirs if each.verdict == certificate.DEVIATES}
    return {
        (each.strategy, each.workers, each.preset, each.scaling, each.exchange): each.note
        for each in ours
        if each.verdict == certificate.DEVIATES and (each.strategy, each.workers, each.exchange) not in known
    }


def changes(
    here: Mapping[str, Record],
    there: Mapping[str, Record],
    tolerance: float,
    deviating: Mapping[tuple, str] | None = None,
    again: tuple[Collection[str], Collection[str]] = ((), ()),
    planned: Collection[tuple] = (),
) -> pandas.DataFrame:
    """How many times as long a step takes here as there: a row for each setting that both checkouts were to launch.

    Those are all that the other one launched, and the `planned` ones. Both are records by launch. A pair is a launch
    that ended ok in both, at the same work; `n` counts the pairs, `here_seconds` and `there_seconds` are medians over
    them, of the seconds per step. `ratio` is their geometric mean, `low` to `high` the simultaneous 95 % interval over
    all rows with six pairs, which are one family. `verdict`:

    - `deviates`: the setting is one of the `deviating`, which have the reason; each of them has a row;
    - `fails`: launches failed here, though made again, in at least two rounds more than there; or first attempts did,
      in at least three and in half of the rounds; or none ended ok here, and one did there. A launch that is
      unsupported, has no record or clocks nothing counts as failed;
    - `slower`, `faster`: the interval lies wholly above 1 + tolerance, or wholly below 1 / (1 + tolerance);
    - `within`: it lies wholly between them;
    - `can't tell`: it doesn't; `fewest` to `most` rounds would bring it between them with 80 % power, were both equal;
    - `fails in both`: fewer than six pairs, since launches failed in most rounds of both;
    - `too few rounds`: fewer than six pairs for another reason;
    - `not compared`: no pair for another reason. `note` says why pairs are missing, and what was made `again`.
    """
    deviating = deviating or {}
    settings: dict[tuple, list[_Pair]] = {setting: [] for setting in deviating}
    paired_settings = {*map(_setting, there.values()), *planned}
    for launch in sorted(here.keys() | there.keys()):
        pair = _Pair(here.get(launch), there.get(launch), launch in again[0], launch in again[1])
        setting = _setting(pair.here or pair.there)
        # What only one checkout launches at all, such as its certificates, isn't compared.
        if setting in paired_settings:
            settings.setdefault(setting, []).append(pair)
    seconds = {
        setting: [pair.seconds_per_step() for pair in launched if not pair.gap]
        for setting, launched in settings.items()
    }
    paired = [setting for setting in settings if seconds[setting]]
    logs = [[math.log(ours / theirs) for ours, theirs in seconds[setting]] for setting in paired]
    judged = dict(zip(paired, judge(logs, tolerance, by_interval=True), strict=True))
    rows = []
    for setting, launched in settings.items():
        row = dict(zip(_SETTING, setting, strict=True)) | _numbers(seconds[setting], judged.get(setting))
        verdict, note = _verdict(judged.get(setting), tolerance, launched), _note(launched)
        if setting in deviating:
            verdict, note = "deviates", "; ".join(filter(None, [deviating[setting], note]))
        rows.append(row | {"verdict": verdict, "note": note})
    return pandas.DataFrame(rows, columns=[*_SETTING, *_NUMBERS, *_WORDS])


def _setting(record: Record) -> tuple:
    return record.name, record.world_size, record.task.preset, record.scaling, record.exchange


def failure(table: pandas.DataFrame) -> str | None:
    """Why the gate is shut, in one sentence; None where it is open.

    Something is slower, fails, or doesn't follow the oracle here alone; or nothing was compared.

    `table` is what `conclude` writes.
    """
    if table.empty:
        return "Nothing could be compared: no launch was made with both checkouts."
    about, rows = table.iloc[0], table.to_dict("records")
    slower = [f"{setting_in_words(row)} ({_ratio_in_words(row)})" for row in rows if row["verdict"] == "slower"]
    fails = [f"{setting_in_words(row)} ({row['note']})" for row in rows if row["verdict"] == "fails"]
    said = [f"slower than {commit_in_words(about)} by more than {share(about)}: {', '.join(slower)}"] if slower else []
    said += [f"fails here more often than with {commit_in_words(about)}: {', '.join(fails)}"] if fails else []
    deviates = [f"{setting_in_words(row)} ({row['note']})" for row in rows if row["verdict"] == "deviates"]
    said += [f"doesn't follow the oracle here: {', '.join(deviates)}"] if deviates else []
    if not said and not table["verdict"].isin(COMPARED).any():
        said = [f"nothing could be compared with {commit_in_words(about)}: {_why_nothing(table)}"]
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else None


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
    dozen settings over 6 to 20 rounds have one that fails; the tests simulate it.
    """
    never = (here == rounds) & (there < rounds)
    at_first = first_here - first_there >= max(_MORE_FIRST_FAILURES, rounds / 2)
    return never | (here - there >= _MORE_FAILURES) | at_first


def summary(table: pandas.DataFrame) -> str:
    """How many settings got which verdict, in one sentence. `table` is what `conclude` writes, with a row at least."""
    about, counts = table.iloc[0], table["verdict"].value_counts()
    others = {"too few rounds", "not compared"}
    words = {"within": f"within {share(about)}", "can't tell": "can't be told", "fails": "fails here"}
    words["deviates"] = "deviates from the oracle"
    named = (*COMPARED, "fails", "fails in both", "deviates")
    found = [f"{counts[each]} {words.get(each, each)}" for each in named if each in counts]
    found += [f"{count} not compared"] if (count := int(table["verdict"].isin(others).sum())) else []
    settings = "1 setting" if len(table) == 1 else f"{len(table)} settings"
    return f"{here_in_words(about)} against {commit_in_words(about)}, of {settings}: {', '.join(found)}."


def verdict_in_words(row: Mapping[str, object]) -> str:
    """A row's verdict; where nothing can be told, with the rounds that it would take."""
    if row["verdict"] != "can't tell":
        return str(row["verdict"])
    if row["most"] <= row["n"]:
        return "can't tell: it is about as large as the tolerance"
    if math.isnan(row["fewest"]):
        return f"can't tell: it takes more than {MOST_ROUNDS:,} rounds for {100 * POWER:g} % power"
    most = f"more than {MOST_ROUNDS:,}" if math.isnan(row["most"]) else f"{row['most']:,.0f}"
    return f"can't tell: it takes {row['fewest']:,.0f} to {most} rounds for {100 * POWER:g} % power"


def setting_in_words(row: Mapping[str, object]) -> str:
    """What a row is about: the strategy, its workers, its regime."""
    workers = "1 worker" if row["workers"] == 1 else f"{row['workers']} workers"
    alone = "" if row["exchange"] else " without exchange"
    return f"{row['strategy']} with {workers}{alone}, {row['preset']} {row['scaling']}"


def commit_in_words(row: Mapping[str, object]) -> str:
    """The commit as it was asked for, and the beginning of its name."""
    rev, commit = str(row["rev"]), str(row["commit"])
    return commit[:10] if commit.startswith(rev) else f"{rev} ({commit[:10]})"


def here_in_words(row: Mapping[str, object]) -> str:
    """This checkout's commit, and whether files differ from it."""
    commit, _, changed = str(row["here"]).partition("+")
    return commit[:10] + (" with changes" if changed else "")


def share(row: Mapping[str, object]) -> str:
    """The tolerance in per cent."""
    return f"{100 * row['tolerance']:g} %"


def _numbers(seconds: Sequence[tuple[float, float]], judgement: Judgement | None) -> dict[str, float]:
    """A row's numbers, NaN where there is none; `judgement` is None without pairs."""
    if judgement is None:
        return {"n": 0} | dict.fromkeys(_NUMBERS[1:], math.nan)
    ours, theirs = map(statistics.median, zip(*seconds, strict=True))
    needed = judgement.needed or Needed(None, None)
    rounds = {"fewest": needed.fewest, "most": needed.most}
    return {
        **{"n": judgement.n, "here_seconds": ours, "there_seconds": theirs},
        **{"ratio": judgement.ratio, "low": judgement.low, "high": judgement.high},
        **{name: math.nan if count is None else count for name, count in rounds.items()},
    }


def _verdict(judgement: Judgement | None, tolerance: float, launched: Sequence[_Pair]) -> str:
    here, there = [_has_failed(pair.here) for pair in launched], [_has_failed(pair.there) for pair in launched]
    first_here = [failed or pair.again_here for failed, pair in zip(here, launched, strict=True)]
    first_there = [failed or pair.again_there for failed, pair in zip(there, launched, strict=True)]
    if fails(len(launched), sum(here), sum(there), sum(first_here), sum(first_there)):
        return "fails"
    if judgement is None or judgement.n < FEWEST_LAUNCHES:
        ended = [pair.here for pair in launched], [pair.there for pair in launched]
        failures = [sum(record is not None and record.status == "failed" for record in side) for side in ended]
        if min(failures) > len(launched) / 2:
            return "fails in both"
        return "too few rounds" if judgement else "not compared"
    longest, shortest = 1 + tolerance, 1 / (1 + tolerance)
    if judgement.low > longest:
        return "slower"
    if judgement.high < shortest:
        return "faster"
    return "within" if shortest <= judgement.low and judgement.high <= longest else "can't tell"


def _has_failed(record: Record | None) -> bool:
    return record is None or record.status != "ok" or not record.windows


def _note(launched: Sequence[_Pair]) -> str:
    """Why launches of a setting make no pairs, which were made again, and which options of the strategy differ."""
    gaps = Counter(pair.gap for pair in launched if pair.gap)
    said = [f"{reason} ({count} of {len(launched)})" for reason, count in gaps.items()]
    counts = {"here": sum(pair.again_here for pair in launched), "there": sum(pair.again_there for pair in launched)}
    for place, count in counts.items():
        if count:
            said.append(f"failed at first {place}, and was made again ({count} of {len(launched)})")
    pairs = [pair for pair in launched if not pair.gap]
    options = _differences(pairs[0].here.options, pairs[0].there.options) if pairs else []
    return "; ".join([*said, f"options differ: {', '.join(options)}"] if options else said)


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """What both have and differs. What only one of them has is at its default, without effect."""
    return [
        f"{name} is {value} here and {theirs[name]} there"
        for name, value in ours.items()
        if name in theirs and theirs[name] != value
    ]


def _why_nothing(table: pandas.DataFrame) -> str:
    """The reason, and the remedy where there is one."""
    failing = table[table["verdict"] == "fails in both"]
    if len(failing):
        return f"launches fail with both ({failing['note'].iloc[0]})"
    most = int(table["n"].max())
    if not most:
        return str(table["note"].iloc[0])
    made = "1 round was made" if most == 1 else f"{most} rounds were made"
    return f"{made}, and it takes {FEWEST_LAUNCHES}: raise --minutes, or name fewer --strategies"


def _ratio_in_words(row: Mapping[str, object]) -> str:
    return f"{row['ratio']:.3f} times the seconds per step, {row['low']:.3f} to {row['high']:.3f}"


def _print(console: Console, table: pandas.DataFrame) -> None:
    if table.empty:
        return
    shown = Table("setting", "n", "ms here", "ms there", "ratio", "95 % interval", "verdict")
    for row in table.to_dict("records"):
        numbers = ["-"] * 4
        if row["n"]:
            times = [f"{1000 * row[name]:.4g}" for name in ("here_seconds", "there_seconds")]
            interval = "-" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"
            numbers = [*times, f"{row['ratio']:.3f}", interval]
        shown.add_row(setting_in_words(row), str(row["n"]), *numbers, verdict_in_words(row))
    console.print(shown)
    about = table.iloc[0]
    console.print(" ".join(filter(None, [summary(table), about["notes"]])), markup=False)
    for row in table.to_dict("records"):
        if row["note"]:
            console.print(f"  note: {setting_in_words(row)}: {row['note']}", markup=False)
