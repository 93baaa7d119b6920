"""Which windows, launches and rounds something else disturbed: other processes, the hypervisor, slower cores."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.measurement.disturbance import TICK_SECONDS
from common.records.training import Record
from reports.tables import columns

TOLERATED_SHARE = 0.05
"""The share of its cores' time that may go to others in a launch that counts as undisturbed: the margin within which
two strategies are called alike, unless somebody asks for another one."""

TOLERATED_SLOWNESS = 0.10
"""By how much a core may be slower than usual in it: the spin of a window varies by a few per cent on a quiet one."""

_BESIDE = "beside the plan"
_READ = (
    *("core_seconds", "steal_seconds", "busy_seconds", "own_seconds"),
    *("involuntary_switches", "spin_seconds", "clock_megahertz"),
)


def table(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each launch whose windows tell what else happened around them: what it was, and whether it disturbed.

    A round is the plan's repetition; without a plan, the launch's place among its equals in the order of their names.
    What nothing tells is NaN.
    """
    windows = _windows(records)
    if windows.empty:
        return columns.table("disturbances", ())
    launches, places = windows.groupby("launch", sort=False), _places(records, plan)
    found = launches[["spin_seconds", "clock_megahertz"]].median()
    found = found.rename(columns={"clock_megahertz": "megahertz"})
    found["windows"], found["disturbed_windows"] = launches.size(), launches["disturbed"].sum()
    found["switches"] = launches["involuntary_switches"].sum() / launches["seconds"].sum()
    worst = _ranks(windows)[["disturbed", "steal", "others", "slowness", "slower_clock"]].groupby(level="launch").max()
    found["part"], found["round"] = zip(*(places[launch] for launch in found.index), strict=True)
    return columns.table("disturbances", found.join(worst).reset_index().to_dict("records"))


def disturbed_rounds(found: pd.DataFrame) -> set[int]:
    """The rounds in which a launch was disturbed, of the rows of `table`."""
    return {int(number) for number in found.loc[found["disturbed"] & in_rounds(found), "round"]}


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
    read = {name: [getattr(window, name) for _, window in found] for name in ("rank", "seconds", *_READ)}
    windows = pd.DataFrame({"launch": [name for name, _ in found], **read}).astype(dict.fromkeys(_READ, float))
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


def in_rounds(found: pd.DataFrame) -> pd.Series:
    return found["part"] == "round"
