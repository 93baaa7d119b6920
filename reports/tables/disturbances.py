"""Which launches and rounds something else disturbed: other processes, the hypervisor, slower cores."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from msgspec import structs

from common.records.training import TICK_SECONDS, Record
from reports.tables import columns

TOLERATED_SHARE = 0.05
"""The share of its cores' time that may go to others in a launch that counts as undisturbed: the margin within which
two strategies are called alike, unless somebody asks for another one."""

TOLERATED_SLOWNESS = 0.10
"""By how much a core may be slower than usual in it: the spin of a window varies by a few per cent on a quiet one."""

# What disturbs: the hypervisor, a container's quota, other processes, a spin that takes longer, and a slower clock.
STEAL, QUOTA, OTHERS, SPIN, CLOCK = "steal", "quota", "others", "spin", "clock"
_SPEEDS = ["spin_seconds", "clock_megahertz"]
_MEASURED = ["seconds", "core_seconds", "steal_seconds", "throttled_seconds", "busy_seconds", "own_seconds", *_SPEEDS]


def table(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each launch whose windows tell what else happened around them.

    A round is the plan's repetition; without a plan, the launch's place among its equals in the order of their names.
    """
    # What has to be equal for a core to be as busy with the launch itself, and so as fast.
    kinds = {
        name: str((record.name, record.world_size, record.exchange, record.scaling, record.task.preset, record.host))
        for name, record in records.items()
    }
    rows = [
        {"launch": name, "kind": kinds[name], "has_cores": bool(record.pinned_cores)}
        | {"threads": record.world_size * record.threads_per_worker}
        | structs.asdict(window)
        # The cores of virtual hosts are as few as was asked for.
        | ({"throttled_seconds": None} if record.virtual and record.virtual.cores_per_host else {})
        for name, record in records.items()
        for window in record.windows
        if window.spin_seconds is not None
    ]
    if not rows:
        return columns.table("disturbances", ())
    if plan is None:
        rounds = (pd.Series(kinds).groupby(kinds).cumcount() + 1).to_dict()
    else:
        planned = plan[plan["stage"] == "round"]
        rounds = dict(zip(planned["launch"].astype(str), planned["repetition"].astype(int), strict=True))
    shares = _shares(pd.DataFrame(rows).astype(dict.fromkeys(_MEASURED, float)))
    worst = shares.groupby("launch").max().reset_index()
    return columns.table("disturbances", worst.assign(round=worst["launch"].map(rounds)).to_dict("records"))


def disturbed_rounds(found: pd.DataFrame) -> list[int]:
    """The rounds in which a launch was disturbed."""
    return sorted({int(number) for number in found.loc[found["disturbed"], "round"].dropna()})


def _shares(windows: pd.DataFrame) -> pd.DataFrame:
    """The shares that each rank of a launch lost over all of its windows, and whether that disturbed it.

    The kernel's counts are rounded to whole ticks, so the difference of two has a standard deviation of a tick over the
    root of 6, and one of several thereof together more by the root of their number: what is within three such
    deviations may be rounding. What isn't told is NaN, and counts as nothing lost.
    """
    taken = windows["busy_seconds"] - windows["own_seconds"]
    # Without cores of its own a worker waits for the others of its launch, which is nobody else's doing.
    usual = windows[_SPEEDS].where(windows["has_cores"]).groupby([windows["kind"], windows["rank"]]).transform("median")
    counts = (windows["core_seconds"] / windows["seconds"]).round()
    # A quota stops all threads of the launch at a time, of which as many run as there are cores.
    running = windows["threads"].where(windows["has_cores"], np.minimum(windows["threads"], counts))
    windows = windows.assign(
        taken=taken,
        cores_of_taken=windows["core_seconds"].where(taken.notna()),
        counts=counts,
        stopped=windows["throttled_seconds"] / running,
    ).join(usual.add_prefix("usual_"))
    ranks = windows.groupby(["launch", "rank"])
    lost = ranks[["seconds", "core_seconds", "steal_seconds", "stopped", "taken", "cores_of_taken", "counts"]].sum()
    core_seconds = lost["core_seconds"].clip(lower=TICK_SECONDS)
    speeds = ranks[[*_SPEEDS, *(f"usual_{name}" for name in _SPEEDS)]].median()
    shares = pd.DataFrame(
        {
            STEAL: lost["steal_seconds"] / core_seconds,
            QUOTA: lost["stopped"] / lost["seconds"],
            OTHERS: (lost["taken"] / lost["cores_of_taken"].clip(lower=TICK_SECONDS)).clip(lower=0),
            SPIN: (speeds["spin_seconds"] / speeds["usual_spin_seconds"] - 1).fillna(0.0),
            CLOCK: (1 - speeds["clock_megahertz"] / speeds["usual_clock_megahertz"]).fillna(0.0),
        }
    )
    least = np.maximum(TOLERATED_SHARE * lost["core_seconds"], 3 * TICK_SECONDS * np.sqrt(lost["counts"] / 6))
    is_slow = shares[[SPIN, CLOCK]].max(axis=1) > TOLERATED_SLOWNESS
    is_stopped = shares[QUOTA] > TOLERATED_SHARE
    return shares.assign(disturbed=(lost[["steal_seconds", "taken"]].max(axis=1) > least) | is_slow | is_stopped)
