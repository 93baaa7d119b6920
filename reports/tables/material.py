"""What the sections are made from: every table of the report, and the names of its regimes."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
from reports.tables.ranking import Ranking
from reports.tables.results import Results


@dataclass(frozen=True)
class Material:
    """What the sections are made from."""

    results: Results
    against: Results | None
    """The folder that stands beside this one, if any."""
    names: Mapping[str, str]
    """The short name of each regime, in the order in which regimes are shown."""
    regimes: Sequence[str]
    """Those with gradient exchange, which are shown, in that order."""
    launches: pd.DataFrame
    cells: pd.DataFrame
    comparisons: list[Comparison]
    certificates: pd.DataFrame
    asynchronous: pd.DataFrame
    ranking: Ranking
    split: pd.DataFrame
    scaling: pd.DataFrame
    paying: pd.DataFrame
    exchanges: pd.DataFrame
    convenience: pd.DataFrame
    one_process: pd.DataFrame
    settings: pd.DataFrame
    phases: pd.DataFrame
    memory: pd.DataFrame
    endings: pd.DataFrame
    startups: pd.DataFrame
    disturbances: pd.DataFrame
    ceilings: pd.DataFrame
    hosts: pd.DataFrame
    bandwidths: pd.DataFrame
    colors: Mapping[str, Sequence[str]]
    """Of each strategy, from dark to light, which are those of its family."""

    @property
    def shown(self) -> dict[str, str]:
        """The short names of the regimes that are shown."""
        return {name: self.names[name] for name in self.regimes}

    def by_regime(self, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """The rows of each regime that is shown, where `table` has any, in the order of the regimes."""
        return {name: table[table["regime"] == name] for name in self.regimes if (table["regime"] == name).any()}


def gather(results: Results, against: Results | None = None) -> Material:
    """Every table of the report on `results`, beside `against`. Raises UserError for a damaged task."""
    comparisons = certificate.compare(results)
    is_something_else = {each.launch for each in comparisons if not each.exchange and each.verdict == DEVIATES}
    # The oracle's matrix products are computed outside of Python: the tables that don't need it come meanwhile.
    with ThreadPoolExecutor(1) as thread:
        comparing = thread.submit(certificate.asynchronous, results)
        launches = summaries.launches(results.records)
        # What computes something else without exchange isn't the T_comp of what computes this with it.
        launches = launches[~launches["launch"].isin(is_something_else)]
        cells = summaries.cells(launches)
        steps = decomposition.decompose(cells, launches, results.plan)
        split = decomposition.split(cells, steps)
        told = {
            "certificates": certificate.summary(comparisons),
            "scaling": decomposition.parts(cells, steps),
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
            "ceilings": ceilings.steps(results, launches, split),
            "hosts": hosts.table(launches, results.records),
            "bandwidths": bandwidths.table(launches, cells, results.records, results.plan),
            "colors": {record.name: record.colors for record in results.records.values()},
        }
    asynchronous = comparing.result()
    names, regimes = regime_names(cells), summaries.regimes(launches)
    return Material(
        results=results,
        against=against,
        names={name: names[name] for name in dict.fromkeys([*regimes, *names])},
        regimes=regimes,
        launches=launches,
        cells=cells,
        comparisons=comparisons,
        ranking=ranking.rank(launches, results.plan, results.margin, reasons_not_ranked(comparisons, results.records)),
        split=split,
        asynchronous=asynchronous,
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
