"""The material of reports on made-up records, and on made-up tables."""

from pathlib import Path

import pandas as pd

from common.records.training import Record
from reports.tables.material import Material
from reports.tables.ranking import Ranking
from reports.tables.results import Results
from tests.reports.records import named


def material_of(*records: Record, plan: pd.DataFrame | None = None) -> Material:
    """What the sections of a report on these records are made from."""
    return Material(Results(Path(), named(*records), plan))


def material_with(found: Ranking) -> Material:
    """That of a report on nothing but this ranking of the regime `weak`, which is called w."""
    material = material_of()
    # As if they had been asked for before.
    vars(material).update(ranking=found, names={"weak": "w"}, regimes=["weak"])
    return material
