"""Which launches and rounds something else disturbed: other processes, the hypervisor, slower cores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.measurement.disturbance import TICK_SECONDS
from common.records.training import Record, Window

TOLERATED_SHARE = 0.05
"""The share of its cores' time that may go to others in a launch that counts as undisturbed: the margin within which
two strategies are called alike, unless somebody asks for another one."""

TOLERATED_SLOWNESS = 0.10
"""By how much a core may be slower than usual in it: the spin of a window varies by a few per cent on a quiet one."""

STEAL, OTHERS, SPIN, CLOCK = "steal", "others", "spin", "clock"
"""What disturbs: the hypervisor, other processes, a spin that takes longer, and a clock that is slower than usual."""


@dataclass(frozen=True)
class Disturbance:
    """What else happened on the cores of one launch."""

    launch: str
    round: int | None
    """None beside the rounds."""
    shares: Mapping[str, float]
    """By what disturbs, the share of the time or speed of its cores that the worst rank lost; 0 where nothing tells."""
    disturbed: bool


def table(records: Mapping[str, Record], plan: pd.DataFrame | None) -> list[Disturbance]:
    """One row for each launch whose windows tell what else happened around them.

    A round is the plan's repetition; without a plan, the launch's place among its equals in the order of their names.
    """
    told: dict[tuple[str, int], list[Window]] = {}
    of_kind: dict[tuple[str, int], list[Window]] = {}
    for name, record in records.items():
        for window in record.windows:
            if window.spin_seconds is not None:
                told.setdefault((name, window.rank), []).append(window)
                # Without cores of its own a worker waits for the others of its launch, which is nobody else's doing.
                if record.pinned_cores:
                    of_kind.setdefault((_kind(record), window.rank), []).append(window)
    ranks: dict[str, list[tuple[dict[str, float], bool]]] = {}
    for (name, rank), windows in told.items():
        ranks.setdefault(name, []).append(_of_rank(windows, of_kind.get((_kind(records[name]), rank), [])))
    rounds, found = _rounds(records, plan), []
    for name, judged in ranks.items():
        shares = {cause: max(own[cause] for own, _ in judged) for cause in (STEAL, OTHERS, SPIN, CLOCK)}
        found.append(Disturbance(name, rounds.get(name), shares, any(disturbed for _, disturbed in judged)))
    return found


def disturbed_rounds(found: Sequence[Disturbance]) -> list[int]:
    """The rounds in which a launch was disturbed."""
    return sorted({row.round for row in found if row.disturbed and row.round is not None})


def _of_rank(windows: Sequence[Window], of_kind: Sequence[Window]) -> tuple[dict[str, float], bool]:
    """The shares of all windows of one rank, and whether it was disturbed, beside the windows `of_kind`.

    The kernel's counts are rounded to whole ticks, so the difference of two has a standard deviation of a tick over the
    root of 6, and one of several thereof together more by the root of their number: what is within three such
    deviations may be rounding.
    """
    core, stolen = _numbers(windows, "core_seconds"), float(np.nansum(_numbers(windows, "steal_seconds")))
    taken = _numbers(windows, "busy_seconds") - _numbers(windows, "own_seconds")
    counts = np.nansum(np.maximum(1, np.round(core / _numbers(windows, "seconds"))))
    least = max(TOLERATED_SHARE * np.nansum(core), 3 * TICK_SECONDS * np.sqrt(counts / 6))
    shares = {
        STEAL: stolen / max(np.nansum(core), TICK_SECONDS),
        OTHERS: max(0.0, np.nansum(taken) / max(np.nansum(core[~np.isnan(taken)]), TICK_SECONDS)),
        SPIN: _over_usual(windows, of_kind, "spin_seconds") - 1,
        CLOCK: 1 - _over_usual(windows, of_kind, "clock_megahertz"),
    }
    is_slow = max(shares[SPIN], shares[CLOCK]) > TOLERATED_SLOWNESS
    return shares, bool(stolen > least or np.nansum(taken) > least or is_slow)


def _numbers(windows: Sequence[Window], name: str) -> np.ndarray:
    """A field of each window; NaN where it isn't told."""
    return np.array([getattr(window, name) for window in windows], float)


def _over_usual(windows: Sequence[Window], of_kind: Sequence[Window], name: str) -> float:
    """The median of a field over that of all windows of its kind; 1 where that isn't known."""
    own, usual = _numbers(windows, name), _numbers(of_kind, name)
    if np.isnan(own).all() or np.isnan(usual).all():
        return 1.0
    return float(np.nanmedian(own) / np.nanmedian(usual))


def _kind(record: Record) -> str:
    """What has to be equal for a core to be as busy with the launch itself, and so as fast."""
    machine = f"{record.host.name} {record.host.processor} {record.host.cores}"
    return f"{record.name} {record.world_size} {record.exchange} {record.scaling} {record.task.preset} {machine}"


def _rounds(records: Mapping[str, Record], plan: pd.DataFrame | None) -> dict[str, int]:
    """The round of each launch that belongs to one."""
    if plan is None:
        equals: dict[str, list[str]] = {}
        for name, record in records.items():
            equals.setdefault(_kind(record), []).append(name)
        return {name: place for names in equals.values() for place, name in enumerate(names, start=1)}
    # A plan without stages is an older one's, of nothing but rounds.
    rounds = plan[plan["stage"] == "round"] if "stage" in plan else plan
    return dict(zip(rounds["launch"].astype(str), rounds["repetition"].astype(int), strict=True))
