"""What the step of each configuration consists of, round by round: one decomposition, of which tables are views.

A configuration is what is never pooled with another: a regime (preset, task, scaling and machine), a strategy with its
options and hosts, and a number of workers. Launches are compared within one configuration and one round alone, but for
the baseline, which stands in the same round.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from reports.tables import columns, pairs

COMPUTING, ROWS, WAITING, EXCHANGE = "computing", "rows", "slowest rank", "exchange"
UNDIVIDED, REST = "not divided", "the rest"
PARTS = (COMPUTING, ROWS, WAITING, EXCHANGE, UNDIVIDED, REST)
"""What a step takes beyond the ideal one, in the order in which it is shown."""

NAMED_SHARE = 0.02
"""The share of the measured step from which on a part counts as a limit, and the rest is named."""

_TIMES = ["seconds", "input_seconds", "rank_spread"]
_EXPOSED = ("exposed_seconds", "exposed_low", "exposed_high", "exposed_n")
_OF_A_PART = ("part", "seconds", "low", "high", "n", "is_paired")


class StepKey(NamedTuple):
    """What is never pooled with another."""

    regime: str
    strategy: str
    workers: int


@dataclass(frozen=True)
class Step:
    """The step of one configuration, by round: medians over the launches of that round, in seconds per step.

    Each table has the columns `seconds`, `input_seconds` (the wait for rows) and, but for the ideal, `rank_spread` (the
    slowest rank's time over the median rank's). A launch that the plan doesn't name has a round of its own.
    """

    trained: pd.DataFrame
    """With gradient exchange: T_step."""
    computed: pd.DataFrame
    """Without it: T_comp."""
    ideal: pd.DataFrame
    """By the baseline's launches, if N workers were N times as fast; empty without a baseline."""

    @property
    def exposed(self) -> pd.Series:
        """Exposed communication, T_step less T_comp, in every round that has both."""
        return (self.trained["seconds"] - self.computed["seconds"]).dropna()


Steps = Mapping[StepKey, Step]


def configuration(row: Mapping[str, object]) -> StepKey:
    """The configuration of a row of launches or cells."""
    return StepKey(row["regime"], row["strategy"], row["workers"])


def decompose(cells: pd.DataFrame, launches: pd.DataFrame, plan: pd.DataFrame | None) -> dict[StepKey, Step]:
    """The step of each of the `cells` with gradient exchange, from `launches`, both as `summaries` has them."""
    rounds = pairs.with_rounds(launches, plan)["round"].reindex(launches.index)
    numbered = launches.assign(round=rounds.where(rounds.notna(), -1.0 - np.arange(len(launches))))
    keys = [*StepKey._fields, "exchange"]
    times = numbered.groupby([*keys, "round"])[_TIMES].median()
    of_launches = {key: group.droplevel(keys) for key, group in times.groupby(level=keys)}
    nothing, trained = times.iloc[:0].droplevel(keys), cells[cells["exchange"]].to_dict("records")
    # With one worker, weak and strong scaling are the same work.
    baselines: dict[tuple[str, str], list[dict[str, object]]] = {}
    for cell in trained:
        if cell["workers"] == 1:
            baselines.setdefault((cell["work"], cell["strategy"]), []).append(cell)
    steps = {}
    for cell in trained:
        key, ideal = configuration(cell), nothing
        if candidates := baselines.get((cell["work"], cell["base"])):
            # As `summaries.cells` chooses it: of the same regime, else of the other scaling.
            baseline = min(candidates, key=lambda one: one["regime"] != cell["regime"])
            share = cell["global_batch"] / (cell["workers"] * baseline["global_batch"])
            ideal = share * of_launches[*configuration(baseline), True][["seconds", "input_seconds"]]
        steps[key] = Step(of_launches[*key, True], of_launches.get((*key, False), nothing), ideal)
    return steps


def parts(cells: pd.DataFrame, steps: Steps) -> pd.DataFrame:
    """One row for each part of the step of each distributed, synchronous cell whose baseline was measured.

    Where the baseline has no launch in any of the rounds, its median over all launches takes its place: then
    `is_paired` is false and there is no interval. What wasn't measured has no row, but the rest always has one. The
    ideal is the step with which efficiency would be 1, so the two agree with the speed-ups of `cells`.
    """
    measured = ("ideal_seconds", "measured_seconds", "measured_low", "measured_high", "measured_n")
    rows = []
    synchronous = is_distributed(cells) & cells["synchronous"] & cells["base_samples_per_second"].notna()
    for cell in cells[synchronous].to_dict("records"):
        ideal = cell["global_batch"] / (cell["workers"] * cell["base_samples_per_second"])
        times = (ideal, cell["seconds"], cell["low_seconds"], cell["high_seconds"], cell["n"])
        about = cell | dict(zip(measured, times, strict=True))
        rest = cell["seconds"] - ideal
        for part in _parts(steps[configuration(cell)], cell["workers"]):
            rest -= part["seconds"]
            rows.append(about | part)
        of_rest = (REST, rest, math.nan, math.nan, cell["n"], True)
        rows.append(about | dict(zip(_OF_A_PART, of_rest, strict=True)))
    return columns.table("parts", rows)


def _parts(step: Step, workers: int) -> Iterator[dict[str, object]]:
    """All parts of a step but the rest. In a round that has every launch they add up exactly."""
    # One worker has nobody to exchange with: its step is all computing and rows.
    is_divided = workers == 1 or len(step.exposed) > 0
    computed = step.computed if is_divided and workers > 1 else step.trained
    straggler = computed["seconds"] * (1 - 1 / computed["rank_spread"])
    shared = computed.index.intersection(step.ideal.index)
    is_paired = len(shared) > 0
    within = computed.loc[shared] if is_paired else computed
    ideal = step.ideal.loc[shared] if is_paired else pd.DataFrame(step.ideal.median().to_dict(), index=computed.index)
    rows = within["input_seconds"] - ideal["input_seconds"].fillna(0.0)
    beyond = within["seconds"] - ideal["seconds"] - rows.fillna(0.0) - straggler.reindex(within.index).fillna(0.0)
    yield from _part(COMPUTING if is_divided else UNDIVIDED, beyond, is_paired)
    yield from _part(ROWS, rows, is_paired)
    if workers > 1:
        yield from _part(WAITING, straggler, True)
        yield from _part(EXCHANGE, step.exposed, True)


def _part(name: str, by_round: pd.Series, is_paired: bool) -> Iterator[dict[str, object]]:
    seconds, low, high, n = pairs.median(by_round.dropna())
    if n:
        interval = (low, high) if is_paired else (math.nan, math.nan)
        yield dict(zip(_OF_A_PART, (name, seconds, *interval, n, is_paired), strict=True))


def split(cells: pd.DataFrame, steps: Steps) -> pd.DataFrame:
    """Cells of more than one worker that were measured without exchange too, or with the bytes on their wire."""
    told, rows = cells.to_dict("records"), []
    silent = {configuration(row): row for row in told if not row["exchange"]}
    for row in told:
        key = configuration(row)
        if row["exchange"] and key.workers > 1 and (key in silent or not math.isnan(row["wire_bytes"])):
            alone = silent.get(key, {"seconds": math.nan, "n": 0})
            times = {"step_seconds": row["seconds"], "step_n": row["n"]}
            times |= {"compute_seconds": alone["seconds"], "compute_n": alone["n"]}
            exposed = zip(_EXPOSED, pairs.median(steps[key].exposed), strict=True)
            rows.append(row | times | dict(exposed))
    return columns.table("exposed", rows)


def is_distributed(cells: pd.DataFrame) -> pd.Series:
    """Whether a cell is of launches that exchange gradients, or would, and not of the baseline itself."""
    return cells["exchange"] & (cells["bare_strategy"] != cells["named_base"])


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Of each strategy and number of workers the largest part, with its `share` of the measured step.

    It `is_limit` where that share counts, unless its interval reaches down to zero.
    """
    if found.empty:
        return found.assign(share=[], is_limit=[])
    share = found["seconds"] / found["measured_seconds"]
    told = found.assign(share=share, is_limit=(share >= NAMED_SHARE) & ~(found["low"] <= 0))
    return told.loc[told.groupby(["strategy", "workers"])["seconds"].idxmax()]
