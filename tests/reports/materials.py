"""The material of reports on made-up records, and on made-up tables."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from common.records.training import Record
from reports.tables.material import Material
from reports.tables.ranking import Ranking
from reports.tables.results import Results
from tests.reports.records import named


def material_of(*records: Record, plan: pd.DataFrame | None = None) -> Material:
    """What the sections of a report on these records are made from."""
    return Material(Results(Path(), named(*records), plan))


def material_with(found: Ranking, left_out: Mapping[str, float] = MappingProxyType({})) -> Material:
    """That of a report on nothing but this ranking of the regimes `weak` and `strong`, which are called w and s."""
    material = Material(Results(Path(), {}, None, left_out))
    # As if they had been asked for before.
    vars(material).update(ranking=found, names={"weak": "w", "strong": "s"}, regimes=["weak", "strong"])
    return material
