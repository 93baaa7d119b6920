"""The same configurations of two folders of records, unpaired."""

import pandas as pd

from common.errors import UserError
from reports.tables.results import Results

KEYS = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
"""What cells of both folders have in common: all of a regime but the machine, and whose cell it is."""


def check_other(here: Results, there: Results) -> None:
    """Raises UserError where both are the same folder."""
    if here.folder.resolve() == there.folder.resolve():
        raise UserError(f"{there.folder} can't stand beside itself: name another folder with --against.")


def beside(cells: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """One row for each cell with exchange that both tables of `summaries.cells` have, on whatever machine.

    Columns end with `_here` and `_there`; `ratio` is how many times as long the median step takes here as there. A cell
    that one of them has on several machines is left out.
    """
    sides = [_one_machine(table[table["exchange"]]) for table in (cells, others) if len(table)]
    if len(sides) < 2:
        return pd.DataFrame(columns=[*KEYS, "ratio"])
    both = sides[0].merge(sides[1], on=KEYS, suffixes=("_here", "_there"))
    return both.assign(ratio=both["seconds_here"] / both["seconds_there"]).sort_values(KEYS, ignore_index=True)


def _one_machine(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[~cells.duplicated(KEYS, keep=False)]
