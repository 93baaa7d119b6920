"""Every table of numbers as it is: folded on the page, and in CSV files beside it."""

import pandas as pd
from pandas.api.types import is_float_dtype

from reports import blocks
from reports.tables.columns import COLUMNS, ROWS
from reports.tables.material import Material

_LONG = {"regime_of_any_batch", "work", "task"}  # The short name of the regime says as much.
_MOST_ROWS = 300


def section(material: Material) -> list[blocks.Block]:
    """Each table that has any rows, with the short names of regimes; of very many rows the first."""
    about = "The heads of the columns say what they hold. The same tables are CSV files beside the page."
    parts = [blocks.heading("Every table"), blocks.text(about)]
    for name, columns in COLUMNS.items():
        table, about = getattr(material, name), ROWS[name]
        meanings = {column: meaning for column, meaning in columns.items() if column not in _LONG}
        if len(table) > _MOST_ROWS:
            about += f" These are the first {_MOST_ROWS} of {len(table):,}; the CSV file has all."
        shown = table[:_MOST_ROWS].replace({"regime": material.names} if "regime" in meanings else {})
        if len(shown):
            parts.append(blocks.data(name, about, meanings, in_rows(shown[[*meanings]])))
    return parts


def in_rows(table: pd.DataFrame) -> list[list[str]]:
    """The rows of a table of numbers in words: a dash where a value doesn't exist."""
    return [[*row] for row in zip(*(_cells(table[column]) for column in table), strict=True)]


def _cells(column: pd.Series) -> list[str]:
    """The values of a column in words."""
    if is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        # Counts that aren't there for every row.
        return [blocks.DASH if pd.isna(value) else f"{value:,.0f}" for value in column]
    return [_in_words(value) for value in column.tolist()]


def _in_words(value: object) -> str:
    """One value: a dash where it doesn't exist."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return blocks.tiny(value) if 0 < abs(value) < 1e-4 else blocks.number(value)
        case list():
            return ", ".join(map(_in_words, value)) or blocks.DASH
        case dict():
            return ", ".join(f"{key}: {each}" for key, each in value.items()) or blocks.DASH
    return str(value or blocks.DASH)
