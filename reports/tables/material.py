"""What the sections are made from: every table of the report, and the names of its regimes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pandas as pd

from common.records.certificate import DEVIATES, Comparison, reasons_not_ranked
from reports.tables import (
    ceilings,
    certificate,
    decomposition,
    disturbances,
    memory,
    ranking,
    summaries,
)
from reports.tables.decomposition import Steps
from reports.tables.disturbances import Disturbance
from reports.tables.ranking import Ranking
from reports.tables.results import Results

Row = TypeVar("Row")
"""Of a table whose rows have a regime."""


@dataclass(frozen=True)
class Material:
    """Every number of a report; `columns.COLUMNS` says what the columns of a table are, NaN that there is no number."""

    results: Results
    names: Mapping[str, str]
    """The short name of each regime, in the order in which regimes are shown."""
    regimes: Sequence[str]
    """Those with gradient exchange, which are shown, in that order."""
    colors: Mapping[str, Sequence[str]]
    """Of each strategy, from dark to light, which are those of its family."""
    beside_oracle: list[Comparison]
    """Every launch that ended ok."""
    certificates: pd.DataFrame
    ranking: Ranking
    launches: pd.DataFrame
    """One row for each launch that counts for the throughput."""
    cells: pd.DataFrame
    """One row for each regime, strategy, number of workers, with and without exchange: medians over launches."""
    steps: Steps
    """The step of each cell with exchange, round by round."""
    exposed: pd.DataFrame
    """One row for each cell whose communication was told apart: T_step, T_comp, exposed communication, bytes sent."""
    parts: pd.DataFrame
    """One row for each part of the step of each cell, from the ideal step to the measured one."""
    ceilings: pd.DataFrame
    """One row for each base, and each strategy without exchange, whose framework was probed."""
    startups: pd.DataFrame
    """One row for each strategy and number of workers: the time to the first step and its parts, medians."""
    memory: pd.DataFrame
    """One row for each cell whose records tell of memory: what the processes hold."""
    endings: pd.DataFrame
    """One row for each launch that was planned or recorded: how it ended."""
    disturbances: Sequence[Disturbance]
    """One row for each launch that tells what else happened on its cores."""

    @property
    def comparisons(self) -> pd.DataFrame:
        """One row for each two strategies of a regime and number of workers: the test of their pairs within rounds."""
        return self.ranking.comparisons

    @cached_property
    def deviations(self) -> pd.DataFrame:
        """One row for each launch that ended ok: how far it is from the float64 oracle."""
        return certificate.deviations(self.beside_oracle)

    @cached_property
    def accuracies(self) -> pd.DataFrame:
        """One row for each strategy, number of workers and task on real data: accuracy and time to the target."""
        return summaries.accuracies(self.results.records)

    @property
    def shown(self) -> dict[str, str]:
        """The short names of the regimes that are shown."""
        return {name: self.names[name] for name in self.regimes}

    def by_regime(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """The rows of each regime that is shown, where it has any, in the order of the regimes."""
        told = {name: [row for row in rows if row.regime == name] for name in self.regimes}
        return {name: own for name, own in told.items() if own}


def gather(results: Results) -> Material:
    """Every table of the report on `results`. Raises UserError for a damaged task."""
    comparisons = certificate.compare(results)
    is_something_else = {each.launch for each in comparisons if not each.exchange and each.verdict == DEVIATES}
    launches = summaries.launches(results.records)
    # What computes something else without exchange isn't the T_comp of what computes this with it.
    launches = launches[~launches["launch"].isin(is_something_else)]
    cells = summaries.cells(launches)
    steps = decomposition.decompose(cells, launches, results.plan)
    names, regimes = regime_names(cells), summaries.regimes(launches)
    return Material(
        results=results,
        names={name: names[name] for name in dict.fromkeys([*regimes, *names])},
        regimes=regimes,
        colors={record.name: record.colors for record in results.records.values()},
        launches=launches,
        cells=cells,
        steps=steps,
        exposed=decomposition.split(cells, steps),
        parts=decomposition.parts(cells, steps),
        beside_oracle=comparisons,
        certificates=certificate.summary(comparisons),
        ranking=ranking.rank(launches, results.plan, results.margin, reasons_not_ranked(comparisons, results.records)),
        ceilings=ceilings.steps(results, launches),
        startups=summaries.startups(results.records),
        memory=memory.table(launches, results.records),
        endings=summaries.endings(results.records, results.plan),
        disturbances=disturbances.table(results.records, results.plan),
    )


def regime_names(cells: pd.DataFrame) -> dict[str, str]:
    """Short name of each regime: preset, scaling, whether hosts are virtual, and the task where those name several.

    Where these differ in their batch alone that stands in place of the task.
    """
    if cells.empty:
        return {}
    firsts = cells.drop_duplicates("regime")
    virtual = firsts["virtual"].map({True: ", virtual hosts", False: ""})
    short = firsts["preset"] + " " + firsts["scaling"] + virtual
    ambiguous, batches = short.duplicated(keep=False), firsts["batch"].groupby(short)
    any_batch = firsts["regime_of_any_batch"].groupby(short)
    by_batch = (batches.transform("nunique") == batches.transform("size")) & (any_batch.transform("nunique") == 1)
    longer = (", " + firsts["batch"].astype(str) + " rows").where(by_batch, " (" + firsts["task"] + ")")
    names = short.where(~ambiguous, short + longer)
    # Where several machines did the same task.
    names = names.where(~names.duplicated(keep=False), names + ", " + firsts["machine"])
    return dict(zip(firsts["regime"], names, strict=True))
