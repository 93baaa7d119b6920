"""What disturbed the launches: a sentence with causes and remedies."""

import pandas as pd

from common.observations import numbers
from reports import blocks
from reports.tables.disturbances import (
    CLOCK,
    OTHERS,
    QUOTA,
    SPIN,
    STEAL,
    TOLERATED_SHARE,
    TOLERATED_SLOWNESS,
    disturbed_rounds,
)

_COOL = "keep the machine cool and its clock rate fixed"
_CAUSES = {
    OTHERS: (TOLERATED_SHARE, "other processes took up to {} of a worker's cores", "close other programs"),
    STEAL: (
        TOLERATED_SHARE,
        "the hypervisor gave up to {} of a worker's cores to other machines",
        "use a machine whose cores are nobody else's",
    ),
    QUOTA: (
        TOLERATED_SHARE,
        "a quota of the container kept its processes off their cores for up to {} of the time",
        "give the container a quota of as many cores as it has threads",
    ),
    SPIN: (TOLERATED_SLOWNESS, "a fixed piece of work took up to {} longer than usual", _COOL),
    CLOCK: (TOLERATED_SLOWNESS, "a clock was up to {} slower than usual", _COOL),
}
"""By what disturbs: how much is tolerated, what is said where it is more, and the remedy."""


def finding(found: pd.DataFrame) -> str:
    """How much was disturbed, by what, and what to do about it."""
    wrong, rounds = found[found["disturbed"]], disturbed_rounds(found)
    if found.empty:
        return "No launch tells what else happened on its cores."
    if wrong.empty:
        return "No launch was disturbed."
    many, beside = found["round"].nunique(), int(wrong["round"].isna().sum())
    counts = []
    if rounds:
        which = blocks.some([str(number) for number in rounds])
        counts.append(f"{len(rounds)} of {many} round{'s' if many > 1 else ''} ({which})")
    if beside:
        counts.append(f"{beside} launch{'es' if beside > 1 else ''} beside the rounds")
    was = "was" if len(rounds) + beside == 1 else "were"
    causes: dict[str, str] = {}
    for name, (tolerated, cause, remedy) in _CAUSES.items():
        most = wrong[name].max()
        if most > tolerated:
            causes[cause.format(numbers.percent(most))] = remedy
    remedies = blocks.listed([*dict.fromkeys(causes.values())])
    return (
        f"{blocks.listed(counts)} {was} disturbed: {blocks.listed([*causes])}. To see smaller differences, {remedies}."
    )
