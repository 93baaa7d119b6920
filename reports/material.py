"""What the sections are made from: every table of the report, the looks of its strategies, the names of its regimes."""

from dataclasses import dataclass

import pandas as pd

from common.config import from_record
from common.names import shown_name
from reports import certificate, figures, horovod_costs, memory, tables
from reports.certificate import Comparison
from reports.figures import Style
from reports.results import Results


@dataclass(frozen=True)
class Material:
    """What the sections are made from; `images` gathers their figures as SVG by file name."""

    launches: pd.DataFrame
    cells: pd.DataFrame
    comparisons: list[Comparison]
    asynchronous: pd.DataFrame
    convenience: pd.DataFrame
    one_process: pd.DataFrame
    horovod_settings: pd.DataFrame
    horovod_phases: pd.DataFrame
    memory: pd.DataFrame
    endings: pd.DataFrame
    looks: dict[str, Style]
    images: dict[str, bytes]


def gather(results: Results) -> Material:
    """Every table of the report, and one style per strategy and variant. Raises UserError for a damaged config."""
    launches = tables.launches(results.records)
    names = [shown_name(record.strategy, from_record(record.config)) for record in results.records.values()]
    return Material(
        launches=launches,
        cells=tables.cells(launches),
        comparisons=certificate.compare(results),
        asynchronous=certificate.asynchronous(results),
        convenience=tables.factors(launches, results.plan, tables.CONVENIENT),
        one_process=tables.factors(launches, results.plan, tables.IN_ONE_PROCESS),
        horovod_settings=tables.against_default(launches, results.plan, "horovod_"),
        horovod_phases=horovod_costs.phases(launches, results.records),
        memory=memory.table(launches, results.records),
        endings=tables.endings(results.records, results.plan),
        looks=figures.styles(names),
        images={},
    )


def regime_names(cells: pd.DataFrame) -> dict[str, str]:
    """Short name of each regime: preset and scaling, and the options where those two name several regimes."""
    if cells.empty:
        return {}
    firsts = cells.drop_duplicates("regime")
    short = firsts["preset"] + " " + firsts["scaling"]
    ambiguous = short.duplicated(keep=False)
    names = short.where(~ambiguous, short + " (" + firsts["options"] + ")")
    return dict(zip(firsts["regime"], names, strict=True))
