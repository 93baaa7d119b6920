"""The rows of the first page's table: each strategy beside the fastest."""

import math
from dataclasses import dataclass

import pandas as pd

from common.observations.answers import EQUIVALENT, FASTEST, NOT_RANKED, UNDECIDED
from reports.tables import certificate, ranking, summaries
from reports.tables.decomposition import largest
from reports.tables.material import Material

SLOWER = "slower"

MOST_ROWS = 12
"""The table and the figure of the first page have room for as many strategies, the fastest of more."""

_VERDICTS = {"faster": SLOWER, "alike": EQUIVALENT, "can't tell": UNDECIDED}
"""What the verdict of a pair, the fastest first, says of the other strategy."""

_BEATEN = _VERDICTS | {"faster": UNDECIDED}
"""The same where the fastest by median stands second: a strategy that beats it in their rounds isn't slower."""


@dataclass(frozen=True)
class Limit:
    """The largest part of a step beyond the ideal one."""

    part: str
    share: float
    """Of the measured step."""
    counts: bool
    """Whether it is large enough to be called a limit."""


@dataclass(frozen=True)
class Standing:
    """One strategy beside the fastest with the same number of workers on the same hosts."""

    strategy: str
    bare_strategy: str
    """Its name without its options and hosts."""
    workers: int
    n: int
    """Launches."""
    rate: float
    """Samples per second of the median launch."""
    relative: float
    """How many times as long as the fastest it takes for the same work."""
    low: float
    high: float
    """The family's simultaneous 95 % interval of `relative`; NaN where none was worked out."""
    baseline: str | None
    baseline_rate: float
    """Samples per second of one worker of the baseline, the median of `baseline_n` launches."""
    baseline_n: int
    speed_up: float
    """Over one worker of the baseline; NaN without a baseline."""
    limit: Limit | None
    """What takes most of a step beyond the ideal one; None where nothing is known of it."""
    certificate: str
    """The gravest verdict on its launches; empty where none was compared."""
    verdict: str
    reason: str
    """Why it isn't ranked; empty where it is."""


def of_regime(material: Material, regime: str) -> list[Standing]:
    """The strategies with the regime's largest tested number of workers, the fastest first, unranked ones last.

    Without a test those of the largest number of workers that have a core for each thread, if there are any.
    """
    cells = summaries.over_fastest_links(summaries.with_exchange(material.cells, regime))
    comparisons = material.ranking.comparisons
    family = ranking.main_family(comparisons[comparisons["regime"] == regime])
    cells = _of_world(cells, family)
    leader = "" if family.empty else ranking.fastest_of(family)
    pairs = beside(family, leader)
    unranked = material.ranking.unranked
    unranked = unranked[(unranked["regime"] == regime) & unranked["workers"].isin(cells["workers"])]
    unranked = unranked[unranked["placement"].isin(cells["placement"])]
    reasons = dict(zip(unranked["strategy"], unranked["reason"], strict=True))
    best = cells.loc[(cells["strategy"] == leader) | (not leader), "samples_per_second"].max()
    limits = {
        (row["strategy"], int(row["workers"])): Limit(row["part"], row["share"], bool(row["is_limit"]))
        for row in largest(material.parts[material.parts["regime"] == regime]).to_dict("records")
    }
    verdicts = [row for row in material.certificates.to_dict("records") if row["exchange"]]
    # Of several the gravest counts.
    verdicts.sort(key=lambda row: certificate.GRAVEST_FIRST.index(row["verdict"]), reverse=True)
    keys = ("preset", "global_batch", "strategy", "workers")
    certificates = {tuple(row[key] for key in keys): str(row["verdict"]) for row in verdicts}
    rows = []
    for cell in cells.sort_values("samples_per_second", ascending=False).to_dict("records"):
        name, workers = cell["strategy"], int(cell["workers"])
        by_medians = float(best / cell["samples_per_second"]), math.nan, math.nan, ""
        relative, low, high, verdict = pairs.get(name, by_medians)
        reason = reasons.get(name, "")
        rows.append(
            Standing(
                strategy=name,
                bare_strategy=cell["bare_strategy"],
                workers=workers,
                n=int(cell["n"]),
                rate=cell["samples_per_second"],
                relative=relative,
                low=low,
                high=high,
                baseline=cell["base"] if isinstance(cell["base"], str) else None,
                baseline_rate=cell["base_samples_per_second"],
                baseline_n=int(cell["base_n"]),
                speed_up=cell["speed_up"],
                limit=limits.get((name, workers)),
                certificate=certificates.get(tuple(cell[key] for key in keys), ""),
                verdict=verdict or (NOT_RANKED if reason else UNDECIDED),
                reason="" if verdict else reason,
            )
        )
    return sorted(rows, key=lambda row: (row.verdict == NOT_RANKED, row.strategy != leader))


def _of_world(cells: pd.DataFrame, family: pd.DataFrame) -> pd.DataFrame:
    """The cells of the family's world, or else of the largest one that fits the machine."""
    if len(family):
        first = family.iloc[0]
        return cells[(cells["workers"] == first["workers"]) & (cells["placement"] == first["placement"])]
    fitting = cells if cells["oversubscribed"].all() else cells[~cells["oversubscribed"]]
    most = fitting[fitting["workers"] == fitting["workers"].max()]
    return most[most["hosts"] == most["hosts"].max()]


def beside(family: pd.DataFrame, leader: str) -> dict[str, tuple[float, float, float, str]]:
    """By strategy its time relative to the leader's with the ends of the interval, and the verdict."""
    pairs: dict[str, tuple[float, float, float, str]] = {}
    for row in family.to_dict("records"):
        if row["strategy"] == leader:
            pairs[row["other"]] = row["ratio"], row["low"], row["high"], _VERDICTS[row["verdict"]]
        elif row["other"] == leader:
            pairs[row["strategy"]] = 1 / row["ratio"], 1 / row["high"], 1 / row["low"], _BEATEN[row["verdict"]]
    if leader:
        undecided = any(verdict == UNDECIDED for *_, verdict in pairs.values())
        pairs[leader] = 1.0, math.nan, math.nan, UNDECIDED if undecided else FASTEST
    return pairs
