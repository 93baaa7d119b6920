"""What the tests within rounds could tell, and who isn't ranked and why."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from common.records.certificate import ALL_REASONS, ASYNCHRONOUS, OTHER_MATHS, REASONS
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import POWER, smallest_difference
from reports import blocks
from reports.blocks import listed
from reports.tables import summaries
from reports.tables.ranking import OVERSUBSCRIBED, TOO_FEW_ROUNDS, Ranking, main_family, of_regime, tested

_OTHER_MATHS, _ASYNCHRONOUS = REASONS[OTHER_MATHS], REASONS[ASYNCHRONOUS]

_MOST_NAMED = 3
"""Of more strategies than these a sentence says how many they are."""


def not_ranked(ranking: Ranking, regime: str, left_out: Collection[str] = ()) -> str:
    """Who isn't ranked in a regime, and why; empty where everybody is.

    Strategies of `left_out`, for which the time didn't suffice, aren't named once more for having few rounds; where
    nothing at all is ranked for that reason, nobody is named for it.
    """
    unranked = of_regime(ranking.unranked, regime)
    bare = unranked["strategy"].map(lambda name: name.partition(", ")[0])
    nothing = tested(of_regime(ranking.comparisons, regime)).empty
    unranked = unranked[(unranked["reason"] != TOO_FEW_ROUNDS) | ~(bare.isin(left_out) | nothing)]
    said = []
    for reason in (*ALL_REASONS, OVERSUBSCRIBED, TOO_FEW_ROUNDS):
        found = unranked[unranked["reason"] == reason]
        if len(found):
            if reason in (_OTHER_MATHS, _ASYNCHRONOUS):
                # It's the strategy's own, on whatever hosts.
                found = found.assign(strategy=summaries.without_hosts(found))
            who = blocks.who(found)
            if reason in (OVERSUBSCRIBED, TOO_FEW_ROUNDS) and found["strategy"].nunique() > _MOST_NAMED:
                counts = found.groupby("workers")["strategy"].nunique().items()
                who = listed(
                    [f"{n} strateg{'ies' if n > 1 else 'y'} with {blocks.workers(many)}" for many, n in counts]
                )
            few = f" (n = {blocks.span(found['n'])}, {FEWEST_LAUNCHES} needed)" if reason == TOO_FEW_ROUNDS else ""
            said.append(f"{who}, {reason}{few}")
    return f"{'; '.join(said)}." if said else ""


def resolution(ranking: Ranking, regime: str) -> str:
    """From which difference on this machine could tell two strategies apart; empty where nothing was tested.

    It is what the tests of the regime's largest family find with a probability of `POWER`, by the median spread.
    """
    family = main_family(of_regime(ranking.comparisons, regime))
    if family.empty:
        return ""
    smallest = np.array([smallest_difference(np.std(logs, ddof=1), len(logs), len(family)) for logs in family["logs"]])
    which = "by the spread of the only comparison"
    if len(family) > 1:
        which = f"by the median spread of {len(family)} comparisons; {_percent(smallest.max())} by the largest"
    return (
        f"Today this machine can show differences from {_percent(float(np.median(smallest)))} on with "
        f"{_workers(family)} and {_rounds(family)} (with {100 * POWER:g} % power, {which})."
    )


def _workers(table: pd.DataFrame) -> str:
    """How many workers those of a family have, and on which hosts where these are several."""
    placement = table["placement"].iloc[0]
    return f"{blocks.workers(int(table['workers'].iloc[0]))}{f' on {placement}' if placement else ''}"


def _rounds(comparisons: pd.DataFrame) -> str:
    return f"n = {blocks.span(comparisons['n'])} round{'s' if comparisons['n'].max() > 1 else ''}"


def _percent(share: float) -> str:
    """Per cent in two digits, or in whole ones from 10 on."""
    number = 100 * share
    return f"{number:,.0f} %" if number >= 10 else f"{number:.2g} %"
