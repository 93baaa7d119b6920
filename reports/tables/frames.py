"""Every number of the report as CSV files beside it."""

import json
from pathlib import Path

import pandas as pd

from common.files import write_atomically
from reports.tables import columns
from reports.tables.material import Material


def write(folder: Path, material: Material) -> None:
    """Write each table of `columns.COLUMNS` to a CSV file of its name, and what their columns are to `columns.csv`.

    Numbers are written with all their digits, lists as JSON, what doesn't exist as nothing: the same bytes for the same
    records. Raises UserError for a file that can't be written.
    """
    meanings = [(table, column, text) for table, own in columns.COLUMNS.items() for column, text in own.items()]
    written = {name: getattr(material, name) for name in columns.COLUMNS}
    written["columns"] = pd.DataFrame(meanings, columns=["table", "column", "meaning"])
    for name, table in written.items():
        lists = [column for column, text in columns.COLUMNS.get(name, {}).items() if text.endswith("(JSON)")]
        as_text = table.assign(**{column: table[column].map(json.dumps) for column in lists})
        write_atomically(folder / f"{name}.csv", as_text.to_csv(index=False).encode())
