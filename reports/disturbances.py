"""Which windows, launches and rounds something else disturbed: other processes, the hypervisor, slower cores."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.measurement.disturbance import TICK_SECONDS
from common.records.training import Record
from reports import blocks
from reports.blocks import Block

TOLERATED_SHARE = 0.05
"""The share of its cores' time that may go to others in a launch that counts as undisturbed: the margin within which
two strategies are called alike, unless somebody asks for another one."""

TOLERATED_SLOWNESS = 0.10
"""By how much a core may be slower than usual in it: the spin of a window varies by a few per cent on a quiet one."""

_COOL = "keep the machine cool and its clock rate fixed"
_CAUSES = {
    "others": (TOLERATED_SHARE, "other processes took up to {} of a worker's cores", "close other programs"),
    "steal": (
        *(TOLERATED_SHARE, "the hypervisor gave up to {} of a worker's cores to other machines"),
        "use a machine whose cores are nobody else's",
    ),
    "slowness": (TOLERATED_SLOWNESS, "a fixed piece of work took up to {} longer than usual", _COOL),
    "slower_clock": (TOLERATED_SLOWNESS, "a clock was up to {} slower than usual", _COOL),
}
"""By the column of `table` that shows it: how much is tolerated, what is said where it is more, and the remedy."""

_BESIDE = "beside the plan"
_COLUMNS = (
    *("launch", "part", "round", "windows", "disturbed_windows", "disturbed"),
    *("steal", "others", "slowness", "slower_clock", "switches", "spin_seconds", "megahertz"),
)
_READ = (
    *("core_seconds", "steal_seconds", "busy_seconds", "own_seconds"),
    *("involuntary_switches", "spin_seconds", "clock_megahertz"),
)


def table(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each launch whose windows tell what else happened around them: what it was, and whether it disturbed.

    `part` is the stage of the comparison, `round` its round (the plan's repetition; without a plan, its place among its
    equals in the order of their names). `steal` and `others` are the shares of its cores' time that the hypervisor and
    other processes took, of the rank that lost most to them; `slowness` and `slower_clock` are how much longer its spin
    took, and how much slower its clock was, than usual for the same rank of the same strategy, workers and exchange;
    all four are NaN where nothing tells. `switches` are involuntary context switches per second and process.
    """
    windows = _windows(records)
    if windows.empty:
        return pd.DataFrame(columns=[*_COLUMNS]).astype({"disturbed": bool})
    launches, places = windows.groupby("launch", sort=False), _places(records, plan)
    found = launches[["spin_seconds", "clock_megahertz"]].median()
    found = found.rename(columns={"clock_megahertz": "megahertz"})
    found["windows"], found["disturbed_windows"] = launches.size(), launches["disturbed"].sum()
    found["switches"] = launches["involuntary_switches"].sum() / launches["seconds"].sum()
    worst = _ranks(windows)[["disturbed", "steal", "others", "slowness", "slower_clock"]].groupby(level="launch").max()
    found["part"], found["round"] = zip(*(places[launch] for launch in found.index), strict=True)
    return found.join(worst).reset_index()[[*_COLUMNS]].astype({"disturbed": bool})


def disturbed_rounds(found: pd.DataFrame) -> set[int]:
    """The rounds in which a launch was disturbed, of the rows of `table`."""
    return {int(number) for number in found.loc[found["disturbed"] & _in_rounds(found), "round"]}


def finding(found: pd.DataFrame) -> list[str]:
    """A sentence on how much was disturbed, by what, and what to do about it; none where nothing was."""
    wrong = found[found["disturbed"]]
    if wrong.empty:
        return []
    rounds, beside = disturbed_rounds(found), int((~_in_rounds(wrong)).sum())
    counts = []
    if rounds:
        many = found.loc[_in_rounds(found), "round"].nunique()
        counts.append(f"{len(rounds)} of {many} round{'s' if many > 1 else ''}")
    if beside:
        counts.append(f"{beside} launch{'es' if beside > 1 else ''} beside the rounds")
    causes = _causes(wrong)
    was = "was" if len(rounds) + beside == 1 else "were"
    remedy = blocks.listed([*dict.fromkeys(causes.values())])
    return [
        f"{blocks.listed(counts)} {was} disturbed (‡): {blocks.listed([*causes])}. Nothing is left out. To see smaller "
        f"differences, {remedy}."
    ]


def section(found: pd.DataFrame) -> list[Block]:
    """What else happened on the workers' cores, by round, and every launch that it disturbed."""
    parts = [blocks.heading("Was the machine quiet?", level=2)]
    if found.empty:
        return [*parts, blocks.text("No launch tells what else happened on its cores.")]
    wrong = found[found["disturbed"]]
    parts += [*_explanation(), _table_by_round(found)]
    if wrong.empty:
        return [*parts, blocks.text("No launch was disturbed.")]
    return [*parts, blocks.heading("Disturbed launches", level=3), _table_of_launches(wrong)]


def _windows(records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each window of each rank that tells of its surroundings: the record's keys, and whether disturbed."""
    found = [
        (name, window)
        for name, record in records.items()
        for window in record.windows
        if window.spin_seconds is not None
    ]
    if not found:
        return pd.DataFrame()
    # Column by column: rows of a hundred thousand mappings take seconds.
    columns = {name: [getattr(window, name) for _, window in found] for name in ("rank", "seconds", *_READ)}
    windows = pd.DataFrame({"launch": [name for name, _ in found], **columns}).astype(dict.fromkeys(_READ, float))
    windows["cell"] = windows["launch"].map({name: _cell(record) for name, record in records.items()})
    windows["is_pinned"] = windows["launch"].map({name: bool(records[name].pinned_cores) for name in records})
    # How many counts of a core its numbers are the difference of.
    windows["counts"] = (windows["core_seconds"] / windows["seconds"]).round().clip(lower=1)
    windows["taken"] = windows["busy_seconds"] - windows["own_seconds"]
    windows["slowness"] = _over_usual(windows, "spin_seconds") - 1
    windows["slower_clock"] = 1 - _over_usual(windows, "clock_megahertz")
    windows["disturbed"] = _is_disturbed(windows)
    return windows


def _over_usual(windows: pd.DataFrame, name: str) -> pd.Series:
    """Over the median of the same rank's windows in all launches of its cell; none without cores of its own.

    There a worker waits for the others of its launch, which is nobody else's doing.
    """
    pinned = windows[windows["is_pinned"]]
    return pinned[name] / pinned.groupby(["cell", "rank"])[name].transform("median")


def _ranks(windows: pd.DataFrame) -> pd.DataFrame:
    """The windows of each rank of each launch together, by launch and rank."""
    told = windows.assign(told_seconds=windows["core_seconds"].where(windows["taken"].notna()))
    groups = told.groupby(["launch", "rank"])
    ranks = groups[["core_seconds", "told_seconds", "steal_seconds", "taken", "counts"]].sum(min_count=1)
    ranks = ranks.join(groups[["slowness", "slower_clock"]].median())
    ranks["disturbed"] = _is_disturbed(ranks)
    ranks["steal"] = ranks["steal_seconds"] / ranks["core_seconds"]
    ranks["others"] = (ranks["taken"] / ranks["told_seconds"]).clip(lower=0)
    return ranks


def _is_disturbed(rows: pd.DataFrame) -> pd.Series:
    """Whether windows, or the windows of ranks together, lost too much of their cores, or their cores were too slow.

    The kernel's counts are rounded to whole ticks, so the difference of two has a standard deviation of a tick over the
    root of 6, and one of several thereof together more by the root of their number: what is within three such
    deviations may be rounding.
    """
    rounding = 3 * TICK_SECONDS * np.sqrt(rows["counts"] / 6)
    least = np.maximum(TOLERATED_SHARE * rows["core_seconds"], rounding)
    lost = (rows["steal_seconds"] > least) | (rows["taken"] > least)
    return lost | (rows["slowness"] > TOLERATED_SLOWNESS) | (rows["slower_clock"] > TOLERATED_SLOWNESS)


def _cell(record: Record) -> str:
    """What has to be equal for a core to be as busy with the launch itself, and so as fast."""
    machine = f"{record.host.name} {record.host.processor} {record.host.cores}"
    return f"{record.name} {record.world_size} {record.exchange} {record.scaling} {record.task.preset} {machine}"


def _places(records: Mapping[str, Record], plan: pd.DataFrame | None) -> dict[str, tuple[str, float]]:
    """The stage and the round of each launch; NaN for one that the plan doesn't name."""
    if plan is None:
        equals: dict[str, int] = {}
        places = {}
        for name, record in records.items():
            equals[_cell(record)] = equals.get(_cell(record), 0) + 1
            places[name] = ("round", float(equals[_cell(record)]))
        return places
    # A plan without stages is an older one's, of nothing but rounds.
    stages = plan["stage"] if "stage" in plan else ["round"] * len(plan)
    planned = zip(plan["launch"].astype(str), stages, plan["repetition"].astype(float), strict=True)
    known = {launch: (str(stage), number) for launch, stage, number in planned}
    return {name: known.get(name, (_BESIDE, math.nan)) for name in records}


def _in_rounds(found: pd.DataFrame) -> pd.Series:
    return found["part"] == "round"


def _causes(wrong: pd.DataFrame) -> dict[str, str]:
    """What disturbed these launches, each with its remedy."""
    found = {}
    for name, (tolerated, cause, remedy) in _CAUSES.items():
        most = wrong[name].max()
        if most > tolerated:
            found[cause.format(blocks.percent(most))] = remedy
    return found


def _explanation() -> list[Block]:
    share, slowness = blocks.percent(TOLERATED_SHARE), blocks.percent(TOLERATED_SLOWNESS)
    about = (
        "Before and after every clocked window each worker reads what else happened on its cores. Numbers are those of "
        "the median launch, in parentheses those of the worst. Nothing that was disturbed is left out of any number of "
        "this report."
    )
    terms = [
        "Stolen: the share of its cores' time that the hypervisor gave to other virtual machines, as far as it tells.",
        "Others: the share in which other processes ran there, at least, since interrupts aren't counted. Known where "
        "a worker has cores of its own.",
        "Switches: how often per second the kernel took a core from one of a worker's threads for another thread, one "
        "of its own or a stranger's.",
        "Spin: a fixed piece of work, the shortest of three tries before and of three after the window. Slower: beside "
        "what it usually takes, the median over all windows of the same rank, strategy, workers and exchange.",
        f"Disturbed (‡): a launch that lost more than {share} of a worker's cores to either, or whose worker's spin or "
        f"clock was more than {slowness} slower than usual, over all its windows; a window by the same measures; a "
        "round with such a launch. The kernel counts in hundredths of a second: what is within three standard "
        "deviations of that rounding, such as 12 ms of a single window, counts as none. Launches with more threads "
        "than cores are judged by what was stolen alone, since their own workers take turns.",
    ]
    return [blocks.text(about), blocks.items(terms)]


def _table_by_round(found: pd.DataFrame) -> Block:
    columns = ["round", "launches", "disturbed", "disturbed windows", "stolen", "others", "switches/s", "spin, µs"]
    columns += ["slower", "clock, MHz"]
    rows = []
    numbers = found["round"].where(_in_rounds(found), 0)
    for (outside, part, number), group in found.groupby([~_in_rounds(found), "part", numbers]):
        wrong = int(group["disturbed"].sum())
        windows = f"{group['disturbed_windows'].sum()} of {group['windows'].sum():,}"
        name = part if outside else f"{number:.0f}"
        rows.append(
            [
                *[f"{name}‡" if wrong else name, str(len(group)), str(wrong), windows],
                *[_shares(group["steal"]), _shares(group["others"]), f"{group['switches'].median():,.0f}"],
                *[f"{1e6 * group['spin_seconds'].median():.0f}", _shares(group["slowness"])],
                f"{group['megahertz'].median():,.0f}",
            ]
        )
    if found["megahertz"].isna().all():
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return blocks.table(columns, rows, [], left=(0,))


def _table_of_launches(wrong: pd.DataFrame) -> Block:
    columns = ["launch", "round", "disturbed windows", "stolen", "others", "spin slower", "clock slower"]
    rows = []
    for row in wrong.sort_values(["round", "launch"]).to_dict("records"):
        measures = [blocks.percent(row[name]) for name in ("steal", "others", "slowness", "slower_clock")]
        name = f"{row['round']:.0f}" if row["part"] == "round" else row["part"]
        rows.append([row["launch"], name, f"{row['disturbed_windows']} of {row['windows']}", *measures])
    if wrong["slower_clock"].isna().all():
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return blocks.table(columns, rows, [], left=(0, 1))


def _shares(values: pd.Series) -> str:
    """The median, and the largest in parentheses."""
    if values.isna().all():
        return blocks.DASH
    return f"{blocks.percent(values.median())} ({blocks.percent(values.max())})"
