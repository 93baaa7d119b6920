"""Records to numbers, as pandas tables: launches, cells with their speed-ups, where the time goes, accuracy, endings.

A launch is one record. A cell is what may be pooled: the same strategy, workers and exchange in the same regime. A
regime is everything else that decides what was computed, how it was measured and on what, so that no curve ever joins
weak and strong scaling, two presets, two tasks, or virtual hosts and real ones. A strategy's own options are no part of
a regime, and nor is over how many hosts, and which link, its workers are spread: its label names those options that
aren't at their default, then its hosts where there are several, and a strategy with a label is a curve of its own.
"""

import pandas as pd

from reports import blocks
from reports.tables.summaries import batch_of


def regime_name(cell_table: pd.DataFrame) -> str:
    """Preset and scaling of the cells of one regime, such as `digits, weak scaling`, a batch that isn't the preset's,
    and whether hosts are virtual.
    """
    first = cell_table.iloc[0]
    known = batch_of(first["preset"])
    rows = f", {first['batch']} rows" if known and first["batch"] != known else ""
    return f"{first['preset']}, {first['scaling']} scaling{rows}{', virtual hosts' if first['virtual'] else ''}"


def regime_in_words(cell_table: pd.DataFrame) -> str:
    """The same as the beginning of a sentence."""
    return blocks.capitalized(regime_name(cell_table))


def batch_in_words(cell_table: pd.DataFrame) -> str:
    """The batch of the cells of one regime, and whose it is."""
    batch, is_weak = cell_table["batch"].iloc[0], cell_table["scaling"].iloc[0] == "weak"
    return f"{batch} rows per step for each worker" if is_weak else f"{batch} rows per step, shared by all workers"
