"""The chapter on how sure the numbers are: the tests, the same maths, what disturbed, and what it takes to repeat."""

import pandas as pd

from common.observations import numbers
from common.records import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.tables import disturbances
from reports.tables.material import Material
from reports.words import cautions, certificate, machine, ranking

_MOST, _MOST_LINES = 12, 23  # Sentences on the page, and these with rows of the table of recipes.

_METHOD = (
    "Windows of many steps are clocked in fresh processes; the slowest rank of each counts. A number is the median "
    f"over n launches, with an interval by order statistics from n = {FEWEST_LAUNCHES} on. Paired t tests of log "
    "ratios within rounds say who is faster (Holm, 1979, over all pairs), two one-sided ones who is equivalent "
    "(Schuirmann, 1987). Every number and pair is in tables on the HTML page, and in CSV files beside it."
)

_COOL = "keep the machine cool and its clock rate fixed"
_CAUSES = {
    disturbances.OTHERS: ("other processes took up to {} of a worker's cores", "close other programs"),
    disturbances.STEAL: ("the hypervisor gave up to {} of a worker's cores to others", "use a machine of your own"),
    disturbances.QUOTA: ("a quota took the cores for up to {} of the time", "give the container a core per thread"),
    disturbances.SPIN: ("a fixed piece of work took up to {} longer than usual", _COOL),
    disturbances.CLOCK: ("a clock was up to {} slower than usual", _COOL),
}
"""By what disturbs: what is said where it is more than is tolerated, and the remedy."""


def section(material: Material) -> list[blocks.Block]:
    """What the tests could tell and what made numbers less certain, the recipes, and what launches ran on."""
    sentences = [_METHOD]
    for regime, name in material.shown.items():
        if missing := ranking.not_ranked(material.ranking, regime):
            sentences.append(f"Not ranked, {name}: {missing}")
    sentences.append(f"Was the machine quiet? {disturbed(material.disturbances)}")
    sentences.append(calibration.for_report(material.results.folder))
    for probe in material.results.ceilings:
        if probe.reason:
            sentences.append(f"Not probed: {probe.framework} ({probe.family}), {probe.preset}. {probe.reason}")
    wrong = material.endings[material.endings["ending"].isin(["unsupported", "failed"])]
    for (ending, reason), group in wrong.groupby(["ending", "reason"]):
        logs = [*dict.fromkeys(filter(None, group["log"]))]
        where = f" (log: {blocks.some(logs, 4)})" if logs else ""
        launches = blocks.some([*group["launch"]], 4)
        sentences.append(f"{blocks.capitalized(ending)}: {launches}. {reason or 'No reason was recorded.'}{where}")
    sentences += cautions.cautions(material.launches, material.results.records)
    return [
        *blocks.items_of_a_page(sentences, _MOST),
        blocks.heading("The same maths", level=2),
        *certificate.section(material, _MOST_LINES - len(sentences[:_MOST])),
        blocks.heading("Machine and versions", level=2),
        machine.of_comparison(material) | {"small": True},
    ]


def disturbed(table: pd.DataFrame) -> str:
    """How many launches and rounds were disturbed, by what, and what to do about it; `table` is `disturbances`."""
    if table.empty:
        return "No launch tells what else happened on its cores."
    wrong, rounds = table[table["disturbed"]], disturbances.disturbed_rounds(table)
    if wrong.empty:
        return "No launch was disturbed."
    remedies: dict[str, str] = {}
    for name, (cause, remedy) in _CAUSES.items():
        is_speed = name in (disturbances.SPIN, disturbances.CLOCK)
        tolerated = disturbances.TOLERATED_SLOWNESS if is_speed else disturbances.TOLERATED_SHARE
        if wrong[name].max() > tolerated:
            remedies[cause.format(numbers.percent(wrong[name].max()))] = remedy
    many = table["round"].nunique()
    where = f" (rounds {blocks.some([str(each) for each in rounds])} of {many})" if rounds else ""
    causes, remedy = blocks.listed([*remedies]), blocks.listed([*dict.fromkeys(remedies.values())])
    said = f"{len(wrong)} of {len(table)} launches were disturbed{where}: {causes}"
    return f"{said}. To see smaller differences, {remedy}."
