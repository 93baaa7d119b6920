"""What the sections are made from: the tables of the report, each made when it is first asked for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from common.files import write_atomically
from common.observations import answers
from common.observations.launches import observed
from common.records.certificate import DEVIATES, Certificate, compare, reasons_not_ranked
from reports.tables import (
    accounts,
    certificate,
    decomposition,
    disturbances,
    exchanges,
    ranking,
    summaries,
    sweeps,
)
from reports.tables.columns import COLUMNS
from reports.tables.ranking import Ranking
from reports.tables.results import Results


@dataclass(frozen=True)
class Material:
    """Every number of a report. NaN says that there is no number.

    What a row of each table is stands in `columns.ROWS`, and what its columns are in `columns.COLUMNS`. Reading a table
    raises UserError for a damaged task.
    """

    results: Results
    against: Results | None = None
    """The folder that stands beside this one, if any."""

    cells = cached_property(lambda self: summaries.cells(self.launches))
    comparisons = property(lambda self: self.ranking.comparisons)
    deviations = cached_property(lambda self: certificate.deviations(self.beside_oracle))
    certificates = cached_property(lambda self: certificate.summary(self.beside_oracle))
    observed = cached_property(lambda self: observed(self.launches, self.results.plan))
    steps = cached_property(lambda self: decomposition.steps(self.observed, self.cells))
    step_medians = cached_property(lambda self: answers.medians(self.steps))
    configurations = cached_property(lambda self: decomposition.configurations(self.cells, self.step_medians))
    exposed = cached_property(lambda self: decomposition.exposed(self.configurations, self.launches, self.results))
    parts = cached_property(lambda self: decomposition.parts(self.configurations, self.step_medians))
    factors = cached_property(lambda self: ranking.factors(self.launches, self.results.plan))
    networks = cached_property(lambda self: sweeps.networks(self.cells, self.launches, self.results.records))
    exchanges = cached_property(lambda self: exchanges.table(self.launches, self.results, self.steps))
    phases = cached_property(lambda self: accounts.phases(self.launches, self.results.records))
    skews = cached_property(lambda self: accounts.skews(self.launches, self.results.records))
    asynchronous = cached_property(lambda self: certificate.asynchronous(self.results))
    ceilings = cached_property(lambda self: exchanges.ceilings(self.results, self.launches))
    startups = cached_property(lambda self: accounts.startups(self.results.records))
    memory = cached_property(lambda self: accounts.memory(self.launches, self.results.records))
    accuracies = cached_property(lambda self: accounts.accuracies(self.results.records))
    endings = cached_property(lambda self: summaries.endings(self.results.records, self.results.plan))
    disturbances = cached_property(lambda self: disturbances.table(self.results.records, self.results.plan))

    @cached_property
    def beside_oracle(self) -> list[Certificate]:
        """Every `ok` launch beside its oracle."""
        return compare(self.results.records, self.results.folder, self.results.origin.differences.launches)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """One row for each launch that counts for the throughput."""
        found = summaries.launches(self.results.records)
        # What computes something else without exchange isn't the T_comp of what computes this with it.
        others = {each.launch for each in self.beside_oracle if not each.exchange and each.verdict == DEVIATES}
        return found[~found["launch"].isin(others)]

    @cached_property
    def regimes(self) -> Sequence[str]:
        """Those with gradient exchange, in the order in which they are shown."""
        return summaries.regimes(self.launches)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Short name of each regime: preset, scaling, whether hosts are virtual, and the task where those name several.

        Where these differ in their batch alone that stands in place of the task.
        """
        firsts = self.cells.drop_duplicates("regime")
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

    @property
    def colors(self) -> Mapping[str, Sequence[str]]:
        """Of each strategy, from dark to light, which are those of its family."""
        return {record.name: record.colors for record in self.results.records.values()}

    @cached_property
    def ranking(self) -> Ranking:
        """The tests of all pairs of strategies within rounds."""
        reasons = reasons_not_ranked(self.beside_oracle, self.results.records)
        return ranking.rank(self.launches, self.observed, self.results.margin, reasons)

    @property
    def shown(self) -> dict[str, str]:
        """The short names of the regimes that are shown."""
        return {name: self.names[name] for name in self.regimes}

    def write(self, folder: Path) -> None:
        """Write each table of `columns.COLUMNS` to a CSV file of its name, and what columns are to `columns.csv`.

        Numbers are written with all their digits, lists as JSON, what doesn't exist as nothing: the same bytes for the
        same records. Raises UserError for a file that can't be written.
        """
        meanings = [(table, column, text) for table, own in COLUMNS.items() for column, text in own.items()]
        tables = {name: getattr(self, name) for name in COLUMNS}
        tables["columns"] = pd.DataFrame(meanings, columns=["table", "column", "meaning"])
        for name, table in tables.items():
            lists = [column for column, text in COLUMNS.get(name, {}).items() if text.endswith("(JSON)")]
            as_text = table.assign(**{column: table[column].map(json.dumps) for column in lists})
            write_atomically(folder / f"{name}.csv", as_text.to_csv(index=False).encode())
