"""Every number of the report as pandas tables, and as CSV files beside it."""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common.files import write_atomically
from common.records import manifest
from common.records.files import to_json
from common.records.training import Record
from reports.tables import certificate, columns, summaries
from reports.tables.material import Material, gather
from reports.tables.results import Results, read_results


@dataclass(frozen=True)
class Tables:
    """The numbers of a results folder; `columns.COLUMNS` says what each column is, NaN that there is no such number."""

    launches: pd.DataFrame
    """One row for each launch that counts for the throughput."""
    windows: pd.DataFrame
    """One row for each clocked window of each rank of any launch, with what else happened around it."""
    cells: pd.DataFrame
    """One row for each regime, strategy, number of workers, with and without exchange: medians over launches."""
    comparisons: pd.DataFrame
    """One row for each two strategies of a regime and number of workers: the test of their pairs within rounds."""
    exposed: pd.DataFrame
    """One row for each cell whose communication was told apart: T_step, T_comp, exposed communication, bytes sent."""
    parts: pd.DataFrame
    """One row for each part of the step of each cell, from the ideal step to the measured one."""
    paying: pd.DataFrame
    """One row for each strategy and number of workers under weak scaling: whether synchronous SGD pays, measured and by
    the tutorials' formula."""
    exchanges: pd.DataFrame
    """One row for each strategy and number of workers whose step's messages were replayed alone."""
    hosts: pd.DataFrame
    """One row for each host of each launch that names any: the link, the clocks, bytes sent, and who was last."""
    bandwidths: pd.DataFrame
    """One row for each cell over virtual hosts whose links had several bandwidths, beside one host and a bound."""
    ceilings: pd.DataFrame
    """One row for each base, and each strategy without exchange, whose framework was probed."""
    deviations: pd.DataFrame
    """One row for each launch that ended ok: how far it is from the float64 oracle."""
    accuracies: pd.DataFrame
    """One row for each strategy, number of workers and task on real data: accuracy and time to the target."""
    startups: pd.DataFrame
    """One row for each strategy and number of workers: the time to the first step and its parts, medians."""
    memory: pd.DataFrame
    """One row for each cell whose records tell of memory: what the processes hold."""
    endings: pd.DataFrame
    """One row for each launch that was planned or recorded: how it ended."""
    disturbances: pd.DataFrame
    """One row for each launch that tells what else happened on its cores."""


def load(folder: str | Path) -> Tables:
    """The tables of the records in `folder`, as the report on them has them.

    Runs the oracle for the deviations, which takes seconds. Raises UserError where `folder` can't be reported on.
    """
    results = read_results(Path(folder))
    for sentence in manifest.in_words(results.differences):
        warnings.warn(sentence, stacklevel=3)
    return of(results, gather(results))


def of(results: Results, material: Material) -> Tables:
    """The tables of `results`, from what `reports.tables.material.gather` made of them."""
    return Tables(
        launches=material.launches,
        windows=_windows(results.records),
        cells=material.cells,
        comparisons=material.ranking.comparisons,
        exposed=material.split,
        parts=material.scaling,
        paying=material.paying,
        exchanges=material.exchanges,
        hosts=material.hosts,
        bandwidths=material.bandwidths,
        ceilings=material.ceilings,
        deviations=certificate.deviations(material.comparisons),
        accuracies=summaries.accuracies(results.records),
        startups=material.startups,
        memory=material.memory,
        endings=material.endings,
        disturbances=material.disturbances,
    )


def folder_beside(document: Path) -> Path:
    """Where the tables of a report lie: `comparison-tables` beside `comparison.pdf`."""
    return document.with_name(f"{document.stem}-tables")


def write(folder: Path, tables: Tables) -> None:
    """Write each table to a CSV file of its name, and what their columns are to `columns.csv`.

    Numbers are written with all their digits, lists as JSON, what doesn't exist as nothing: the same bytes for the same
    records. Raises UserError for a file that can't be written.
    """
    meanings = [(table, column, text) for table, own in columns.COLUMNS.items() for column, text in own.items()]
    written = {each.name: getattr(tables, each.name) for each in dataclasses.fields(tables)}
    written["columns"] = pd.DataFrame(meanings, columns=["table", "column", "meaning"])
    for name, table in written.items():
        lists = [column for column, text in columns.COLUMNS.get(name, {}).items() if text.endswith("(JSON)")]
        as_text = table.assign(**{column: table[column].map(json.dumps) for column in lists})
        write_atomically(folder / f"{name}.csv", as_text.to_csv(index=False).encode())


def _windows(records: Mapping[str, Record]) -> pd.DataFrame:
    return columns.table(
        "windows",
        (
            {"launch": launch, "strategy": record.name, "workers": record.world_size, "exchange": record.exchange}
            | to_json(window)
            for launch, record in records.items()
            for window in record.windows
        ),
    )
