"""What the sections are made from: every table of the report, and the names of its regimes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pandas as pd

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF
from common.records.certificate import DEVIATES, Comparison, reasons_not_ranked
from reports.tables import (
    bandwidths,
    ceilings,
    certificate,
    decomposition,
    disturbances,
    exchanges,
    hosts,
    memory,
    pairs,
    paying,
    phases,
    ranking,
    summaries,
)
from reports.tables.disturbances import Disturbance
from reports.tables.exchanges import Exchange
from reports.tables.hosts import Skew
from reports.tables.paying import Paying
from reports.tables.ranking import Ranking
from reports.tables.results import Results

OfRegime = TypeVar("OfRegime", Paying, Exchange)


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
    asynchronous: pd.DataFrame
    ranking: Ranking
    convenience: pd.DataFrame
    one_process: pd.DataFrame
    settings: pd.DataFrame
    phases: pd.DataFrame
    launches: pd.DataFrame
    """One row for each launch that counts for the throughput."""
    cells: pd.DataFrame
    """One row for each regime, strategy, number of workers, with and without exchange: medians over launches."""
    exposed: pd.DataFrame
    """One row for each cell whose communication was told apart: T_step, T_comp, exposed communication, bytes sent."""
    parts: pd.DataFrame
    """One row for each part of the step of each cell, from the ideal step to the measured one."""
    paying: Sequence[Paying]
    """One row for each strategy and number of workers under weak scaling: whether synchronous SGD pays."""
    exchanges: Sequence[Exchange]
    """One row for each strategy and number of workers whose step's messages were replayed alone."""
    hosts: Sequence[Skew]
    """One row for each launch over several hosts: which started and finished its windows last."""
    bandwidths: pd.DataFrame
    """One row for each cell over virtual hosts whose links had several bandwidths, beside one host and a bound."""
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

    def by_regime(self, rows: Sequence[OfRegime]) -> dict[str, list[OfRegime]]:
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
    told = {
        "certificates": certificate.summary(comparisons),
        "exposed": decomposition.split(cells, steps),
        "parts": decomposition.parts(cells, steps),
        "paying": paying.table(launches, cells, steps, results.records),
        "exchanges": exchanges.table(launches, results.replays, steps),
        "convenience": pairs.factors(launches, results.plan, CONVENIENCE_OF),
        "one_process": pairs.factors(launches, results.plan, ONE_PROCESS_OF),
        "settings": pairs.against_default(launches, results.plan),
        "phases": phases.table(launches, results.records),
        "memory": memory.table(launches, results.records),
        "endings": summaries.endings(results.records, results.plan),
        "startups": summaries.startups(results.records),
        "disturbances": disturbances.table(results.records, results.plan),
        "ceilings": ceilings.steps(results, launches),
        "hosts": hosts.table(launches, results.records),
        "bandwidths": bandwidths.table(launches, cells, results.records, results.plan),
        "colors": {record.name: record.colors for record in results.records.values()},
    }
    names, regimes = regime_names(cells), summaries.regimes(launches)
    return Material(
        results=results,
        names={name: names[name] for name in dict.fromkeys([*regimes, *names])},
        regimes=regimes,
        launches=launches,
        cells=cells,
        beside_oracle=comparisons,
        ranking=ranking.rank(launches, results.plan, results.margin, reasons_not_ranked(comparisons, results.records)),
        asynchronous=certificate.asynchronous(results),
        **told,
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
