"""Configurations in words: preset, scaling, batch and hosts."""

import pandas as pd

from reports.tables.summaries import batch_of


def regime_name(cell_table: pd.DataFrame) -> str:
    """Preset and scaling of the cells of one regime, such as `digits, weak scaling`, a batch that isn't the preset's,
    and whether hosts are virtual.
    """
    first = cell_table.iloc[0]
    known = batch_of(first["preset"])
    rows = f", {first['batch']} rows" if known and first["batch"] != known else ""
    return f"{first['preset']}, {first['scaling']} scaling{rows}{', virtual hosts' if first['virtual'] else ''}"


def batch_in_words(cell_table: pd.DataFrame) -> str:
    """The batch of the cells of one regime, and whose it is."""
    batch, is_weak = cell_table["batch"].iloc[0], cell_table["scaling"].iloc[0] == "weak"
    return f"{batch} rows per step for each worker" if is_weak else f"{batch} rows per step, shared by all workers"
