"""What disturbed the launches: a sentence with causes and remedies."""

from collections.abc import Sequence

from reports import blocks
from reports.tables.disturbances import (
    CLOCK,
    OTHERS,
    QUOTA,
    SPIN,
    STEAL,
    TOLERATED_SHARE,
    TOLERATED_SLOWNESS,
    Disturbance,
    disturbed_rounds,
)
from reports.tables.material import Material

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


def section(material: Material) -> list[blocks.Block]:
    """What else happened on the workers' cores, and what to do about it."""
    heading = blocks.heading("Was the machine quiet?", level=2)
    if not material.disturbances:
        return [heading, blocks.text("No launch tells what else happened on its cores.")]
    share, slowness = blocks.percent(TOLERATED_SHARE), blocks.percent(TOLERATED_SLOWNESS)
    about = (
        f"A launch counts as disturbed where a worker lost more than {share} of its cores' time, in its clocked "
        "windows, to other processes, the hypervisor or a container's quota, beyond what the kernel's rounding may be, "
        f"or where its clock, or a fixed piece of work, was more than {slowness} slower than in the median window of "
        "its equals. Workers that share cores are judged by what the hypervisor and the quota took alone. Nothing "
        "disturbed is left out."
    )
    return [heading, blocks.text(about), blocks.text(finding(material.disturbances))]


def finding(found: Sequence[Disturbance]) -> str:
    """How much was disturbed, by what, and what to do about it."""
    wrong, rounds = [row for row in found if row.disturbed], disturbed_rounds(found)
    if not wrong:
        return "No launch was disturbed."
    many, beside = len({row.round for row in found} - {None}), sum(row.round is None for row in wrong)
    counts = []
    if rounds:
        which = blocks.some([str(number) for number in rounds])
        counts.append(f"{len(rounds)} of {many} round{'s' if many > 1 else ''} ({which})")
    if beside:
        counts.append(f"{beside} launch{'es' if beside > 1 else ''} beside the rounds")
    was = "was" if len(rounds) + beside == 1 else "were"
    causes: dict[str, str] = {}
    for name, (tolerated, cause, remedy) in _CAUSES.items():
        most = max(row.shares[name] for row in wrong)
        if most > tolerated:
            causes[cause.format(blocks.percent(most))] = remedy
    remedies = blocks.listed([*dict.fromkeys(causes.values())])
    return (
        f"{blocks.listed(counts)} {was} disturbed: {blocks.listed([*causes])}. To see smaller differences, {remedies}."
    )
