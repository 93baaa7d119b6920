"""The configurations that two folders of records both measured, unpaired."""

import pandas as pd

_KEYS = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
"""What cells of both folders have in common: all of a regime but the machine, and whose cell it is."""


def table(cells: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The rows of `cells`, from `summaries`, that `others` has too; what these say has names that end in `_there`.

    Both are with gradient exchange, and each on one machine, whichever.
    """
    here, there = (_with_exchange(each).drop_duplicates(_KEYS, keep=False) for each in (cells, others))
    return here.merge(there, on=_KEYS, suffixes=("", "_there"))


def on_several_machines(cells: pd.DataFrame) -> bool:
    """Whether cells with exchange are in no row, since their configuration was measured on several machines."""
    return bool(_with_exchange(cells).duplicated(_KEYS).any())


def _with_exchange(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells["exchange"]]
