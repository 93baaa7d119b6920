"""What the sections are made from: the tables of the report, each made when it is first asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from common.records.certificate import DEVIATES, Comparison, reasons_not_ranked
from reports.tables import (
    ceilings,
    certificate,
    decomposition,
    disturbances,
    exchanges,
    memory,
    pairs,
    paying,
    phases,
    ranking,
    summaries,
)
from reports.tables.decomposition import Steps
from reports.tables.ranking import Ranking
from reports.tables.results import Results


@dataclass(frozen=True)
class Material:
    """Every number of a report; `columns.COLUMNS` says what the columns of a table are, NaN that there is no number.

    Reading a table raises UserError for a damaged task.
    """

    results: Results
    against: Results | None = None
    """The folder that stands beside this one, if any."""

    @cached_property
    def launches(self) -> pd.DataFrame:
        """One row for each launch that counts for the throughput."""
        found = summaries.launches(self.results.records)
        # What computes something else without exchange isn't the T_comp of what computes this with it.
        others = {each.launch for each in self.beside_oracle if not each.exchange and each.verdict == DEVIATES}
        return found[~found["launch"].isin(others)]

    @property
    def windows(self) -> pd.DataFrame:
        """One row for each clocked window of each rank of any launch, with what else happened around it."""
        return summaries.windows(self.results.records)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row for each regime, strategy, number of workers, with and without exchange: medians over launches."""
        return summaries.cells(self.launches)

    @cached_property
    def regimes(self) -> Sequence[str]:
        """Those with gradient exchange, in the order in which they are shown."""
        return summaries.regimes(self.launches)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The short name of each regime, of those that are shown first."""
        names = regime_names(self.cells)
        return {name: names[name] for name in dict.fromkeys([*self.regimes, *names])}

    @property
    def colors(self) -> Mapping[str, Sequence[str]]:
        """Of each strategy, from dark to light, which are those of its family."""
        return {record.name: record.colors for record in self.results.records.values()}

    @cached_property
    def beside_oracle(self) -> list[Comparison]:
        """Every launch that ended ok."""
        return certificate.compare(self.results)

    @cached_property
    def certificates(self) -> pd.DataFrame:
        """One row for each setting: its largest deviations and its verdict."""
        return certificate.summary(self.beside_oracle)

    @cached_property
    def deviations(self) -> pd.DataFrame:
        """One row for each launch that ended ok: how far it is from the float64 oracle."""
        return certificate.deviations(self.beside_oracle)

    @cached_property
    def ranking(self) -> Ranking:
        """The tests of all pairs of strategies within rounds."""
        reasons = reasons_not_ranked(self.beside_oracle, self.results.records)
        return ranking.rank(self.launches, self.results.plan, self.results.margin, reasons)

    @property
    def comparisons(self) -> pd.DataFrame:
        """One row for each two strategies of a regime and number of workers: the test of their pairs within rounds."""
        return self.ranking.comparisons

    @cached_property
    def steps(self) -> Steps:
        """The step of each cell with exchange, round by round."""
        return decomposition.decompose(self.cells, self.launches, self.results.plan)

    @cached_property
    def exposed(self) -> pd.DataFrame:
        """One row for each cell whose communication was told apart: T_step, T_comp, the difference, bytes sent."""
        return decomposition.split(self.cells, self.steps)

    @cached_property
    def parts(self) -> pd.DataFrame:
        """One row for each part of the step of each cell, from the ideal step to the measured one."""
        return decomposition.parts(self.cells, self.steps)

    @cached_property
    def factors(self) -> pd.DataFrame:
        """One row for each two strategies that differ in one thing: how many times as long a step takes."""
        return pairs.table(self.launches, self.results.plan)

    @cached_property
    def paying(self) -> pd.DataFrame:
        """One row for each synchronous configuration of several workers under weak scaling: whether it pays."""
        return paying.table(self.launches, self.cells, self.steps, self.results.records)

    @cached_property
    def exchanges(self) -> pd.DataFrame:
        """One row for each configuration whose step was replayed, and each reason why one wasn't."""
        return exchanges.table(self.launches, self.results.replays, self.steps)

    @cached_property
    def phases(self) -> pd.DataFrame:
        """One row for each phase of the exchange of each configuration, by the framework's own account."""
        return phases.table(self.launches, self.results.records)

    @cached_property
    def asynchronous(self) -> pd.DataFrame:
        """One row for each asynchronous launch of several workers that kept its weights: how well it trained."""
        return certificate.asynchronous(self.results)

    @cached_property
    def ceilings(self) -> pd.DataFrame:
        """One row for each base, and each strategy without exchange, whose framework was probed."""
        return ceilings.steps(self.results, self.launches)

    @cached_property
    def startups(self) -> pd.DataFrame:
        """One row for each strategy and number of workers: the time to the first step and its parts, medians."""
        return summaries.startups(self.results.records)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row for each cell whose records tell of memory: what the processes hold."""
        return memory.table(self.launches, self.results.records)

    @cached_property
    def accuracies(self) -> pd.DataFrame:
        """One row for each strategy, number of workers and task on real data: accuracy and time to the target."""
        return summaries.accuracies(self.results.records)

    @cached_property
    def endings(self) -> pd.DataFrame:
        """One row for each launch that was planned or recorded: how it ended."""
        return summaries.endings(self.results.records, self.results.plan)

    @cached_property
    def strategies(self) -> pd.DataFrame:
        """One row for each strategy that was measured: what it is, and which lines of its script distribute."""
        return summaries.strategies(self.launches, self.results.records)

    @cached_property
    def disturbances(self) -> pd.DataFrame:
        """One row for each launch that tells what else happened on its cores."""
        return disturbances.table(self.results.records, self.results.plan)

    @property
    def shown(self) -> dict[str, str]:
        """The short names of the regimes that are shown."""
        return {name: self.names[name] for name in self.regimes}


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
