"""The chapter on how sure the numbers are: the tests, the same maths, what disturbed, and what it takes to repeat."""

from common.records import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.tables.material import Material
from reports.words import cautions, certificate, disturbances, endings, machine, ranking

_MOST, _MOST_LINES = 12, 23
"""Sentences on the page, and these with rows of the table of recipes."""

_METHOD = (
    "Windows of many steps are clocked in fresh processes; the slowest rank of each counts. A number is the median "
    f"over n launches, with an interval by order statistics from n = {FEWEST_LAUNCHES} on. Paired t tests of log "
    "ratios within rounds say who is faster (Holm, 1979, over all pairs), two one-sided ones who is equivalent "
    "(Schuirmann, 1987). Every number and pair is in tables on the HTML page, and in CSV files beside it."
)


def section(material: Material) -> list[blocks.Block]:
    """What the tests could tell and what made numbers less certain, the recipes, and what launches ran on."""
    told = [_METHOD]
    for regime, name in material.shown.items():
        if missing := ranking.not_ranked(material.ranking, regime, material.results.left_out):
            told.append(f"Not ranked, {name}: {missing}")
    told.append(f"Was the machine quiet? {disturbances.finding(material.disturbances)}")
    told.append(calibration.for_report(material.results.folder))
    told += endings.reasons(material.endings)
    told += cautions.cautions(material.launches, material.results.records)
    return [
        *blocks.items_of_a_page(told, _MOST),
        blocks.heading("The same maths", level=2),
        *certificate.section(material, _MOST_LINES - len(told[:_MOST])),
        blocks.heading("Machine and versions", level=2),
        machine.of_comparison(material) | {"small": True},
    ]
