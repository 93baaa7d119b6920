"""What disturbed the launches: a sentence with remedies, and a table by round."""

import pandas as pd

from reports import blocks
from reports.blocks import Block
from reports.tables.disturbances import TOLERATED_SHARE, TOLERATED_SLOWNESS, disturbed_rounds, in_rounds
from reports.tables.material import Material

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


def finding(found: pd.DataFrame) -> str:
    """How much was disturbed, by what, and what to do about it, where anything was."""
    wrong = found[found["disturbed"]]
    rounds, beside = disturbed_rounds(found), int((~in_rounds(wrong)).sum())
    counts = []
    if rounds:
        many = found.loc[in_rounds(found), "round"].nunique()
        counts.append(f"{len(rounds)} of {many} round{'s' if many > 1 else ''}")
    if beside:
        counts.append(f"{beside} launch{'es' if beside > 1 else ''} beside the rounds")
    causes = _causes(wrong)
    was = "was" if len(rounds) + beside == 1 else "were"
    remedy = blocks.listed([*dict.fromkeys(causes.values())])
    return (
        f"{blocks.listed(counts)} {was} disturbed (‡): {blocks.listed([*causes])}. Nothing is left out. To see smaller "
        f"differences, {remedy}."
    )


def section(material: Material) -> list[Block]:
    """What else happened on the workers' cores, by round, and what to do about it."""
    found = material.disturbances
    parts = [blocks.heading("Was the machine quiet?", level=2)]
    if found.empty:
        return [*parts, blocks.text("No launch tells what else happened on its cores.")]
    parts += [*_explanation(), _table_by_round(found)]
    if not found["disturbed"].any():
        return [*parts, blocks.text("No launch was disturbed.")]
    return [*parts, blocks.text(finding(found))]


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
    numbers = found["round"].where(in_rounds(found), 0)
    for (outside, part, number), group in found.groupby([~in_rounds(found), "part", numbers]):
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


def _shares(values: pd.Series) -> str:
    """The median, and the largest in parentheses."""
    if values.isna().all():
        return blocks.DASH
    return f"{blocks.percent(values.median())} ({blocks.percent(values.max())})"
