"""Every table of numbers as it is: folded on the page, and in CSV files beside it."""

from collections.abc import Mapping

import pandas as pd
from pandas.api.types import is_float_dtype

from reports import blocks
from reports.tables.columns import COLUMNS, ROWS
from reports.tables.material import Material

IN_FILES_ALONE = "windows"
"""The table that has too many rows for a page."""

_LONG = {"regime_of_any_batch", "work", "task"}
"""Columns that say what the short name of the regime says."""

_MOST_ROWS = 300
"""Of more rows a page has the first."""

_LEAST = 1e-4
"""Numbers below this one are written with an exponent."""


def section(material: Material) -> list[blocks.Block]:
    """Each table that has any rows."""
    tables = {name: getattr(material, name) for name in COLUMNS if name != IN_FILES_ALONE}
    return [
        blocks.heading("Every table"),
        blocks.text("The heads of the columns say what they hold. The same tables are CSV files beside the page."),
        *(_data(name, table, material.names) for name, table in tables.items() if len(table)),
    ]


def _data(name: str, table: pd.DataFrame, regimes: Mapping[str, str]) -> blocks.Block:
    """A table with the short names of its regimes; of very many rows the first."""
    meanings = {column: meaning for column, meaning in COLUMNS[name].items() if column not in _LONG}
    shown, about = table[:_MOST_ROWS], ROWS[name]
    if len(table) > _MOST_ROWS:
        about += f" These are the first {_MOST_ROWS} of {len(table):,}; the CSV file has all."
    if "regime" in meanings:
        shown = shown.assign(regime=[regimes.get(regime, regime) for regime in shown["regime"]])
    rows = zip(*(_cells(shown[column]) for column in meanings), strict=True)
    return blocks.data(name, about, meanings, [[*row] for row in rows])


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
            return blocks.tiny(value) if 0 < abs(value) < _LEAST else blocks.number(value)
        case list():
            return ", ".join(map(_in_words, value)) or blocks.DASH
        case dict():
            return ", ".join(f"{key}: {each}" for key, each in value.items()) or blocks.DASH
    return str(value or blocks.DASH)
