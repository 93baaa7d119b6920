"""What the tests within rounds could tell, and who isn't ranked and why."""

import numpy as np

from common.observations import numbers
from common.records.certificate import ALL_REASONS
from common.statistics.paired import POWER, smallest_difference
from reports import blocks
from reports.tables.ranking import OVERSUBSCRIBED, TOO_FEW_ROUNDS, Ranking, main_family, of_regime, tested


def not_ranked(ranking: Ranking, regime: str) -> str:
    """Who isn't ranked in a regime, and why; empty where everybody is, and where no rounds are enough for a test."""
    unranked, found = of_regime(ranking.unranked, regime), []
    for reason in (*ALL_REASONS, OVERSUBSCRIBED, TOO_FEW_ROUNDS):
        own = unranked[unranked["reason"] == reason]
        if len(own) and (reason != TOO_FEW_ROUNDS or len(tested(of_regime(ranking.comparisons, regime)))):
            found.append(f"{blocks.who(own)}, {reason}")
    return f"{'; '.join(found)}." if found else ""


def resolution(ranking: Ranking, regime: str) -> str:
    """From which difference on this machine could tell two strategies apart; empty where nothing was tested.

    It is what the tests of the regime's largest family find with a probability of `POWER`, by the median spread.
    """
    family = main_family(of_regime(ranking.comparisons, regime))
    if family.empty:
        return ""
    smallest = np.array([smallest_difference(np.std(logs, ddof=1), len(logs), len(family)) for logs in family["logs"]])
    spread = "by the spread of the only comparison"
    if len(family) > 1:
        largest = numbers.percent(smallest.max(), 1)
        spread = f"by the median spread of {len(family)} comparisons; {largest} by the largest"
    placement, workers = family["placement"].iloc[0], blocks.workers(int(family["workers"].iloc[0]))
    return (
        f"Today this machine can show differences from {numbers.percent(np.median(smallest), 1)} on with {workers}"
        f"{f' on {placement}' if placement else ''} and n = {blocks.span(family['n'])} rounds (with {100 * POWER:g} % "
        f"power, {spread})."
    )
