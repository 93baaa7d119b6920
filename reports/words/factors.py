"""How many times as long a step takes: with options of a strategy's own, a library's loop, or one process for all."""

import math
from collections.abc import Mapping

import pandas as pd

from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block

PAIRED = "the median over pairs of launches of the same round, with its order-statistic interval over those pairs"
"""What a factor is, in words."""


def options(table: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """The rows of `pairs.against_default`; nothing without rows. `names` are those of the regimes."""
    if table.empty:
        return []
    explanation = (
        "Each strategy with options of its own, named after the comma, beside the same strategy with all of them at "
        f"their default. The factor is how many times as long a step takes with them: {PAIRED}. Below 1 they "
        "save time. Those marked as other maths compute something else."
    )
    rows = [
        [row["second"], str(row["workers"]), names[row["regime"]], *in_words(row)]
        for row in table.sort_values(["first", "regime", "workers", "factor"]).to_dict("records")
    ]
    columns = ["with options", "workers", "regime", "ms per step", "default, ms", "factor", "95 % interval"]
    return [
        blocks.heading("What options change", level=2),
        blocks.text(explanation),
        blocks.table([*columns, "pairs (n)"], rows, notes(table), left=(0, 2)),
    ]


def convenience(table: pd.DataFrame, names: dict[str, str]) -> list[Block]:
    """A library's loop against one's own, where both were measured on the same work."""
    if table.empty:
        return []
    explanation = (
        "The same means of distribution, with a library's loop and with a loop written out. The factor is how many "
        f"times as long a step takes with the library's: {PAIRED}."
    )
    sides = ("library's", "own")
    return [
        blocks.heading("What convenience costs", level=2),
        blocks.text(explanation),
        _factor_table(table, ("library's loop", "own loop"), sides, names),
    ]


def one_process(table: pd.DataFrame, names: dict[str, str]) -> list[Block]:
    """Replicas in the threads of one process against a process each, where both were measured on the same work."""
    if table.empty:
        return []
    explanation = (
        "The same replicas on the same rows, in the threads of one process, which take turns in the interpreter, and "
        "in a process each. Tutorials claim a factor of 2 to 3. The factor is how many times as long a step takes in "
        f"one process: {PAIRED}.{_range(table[table['workers'] > 1], names)}"
    )
    return [
        blocks.heading("What one process costs", level=2),
        blocks.text(explanation),
        _factor_table(table, ("in one process", "a process each"), ("one process's", "processes'"), names),
    ]


def _range(table: pd.DataFrame, names: dict[str, str]) -> str:
    if table.empty:
        return ""
    ordered = table.sort_values("factor").to_dict("records")
    least, most = (
        f"{blocks.ratio(row['factor'])} ({names[row['regime']]}, {row['workers']} workers, n = {row['pairs']})"
        for row in (ordered[0], ordered[-1])
    )
    return f" Here it is {least}." if len(ordered) == 1 else f" Here it goes from {least} to {most}."


def _factor_table(table: pd.DataFrame, titles: tuple[str, str], sides: tuple[str, str], names: dict[str, str]) -> Block:
    """The rows of `pairs.factors`; the second strategy of each pair stands first, under the first of `titles`."""
    rows = [
        [row["second"], row["first"], str(row["workers"]), names[row["regime"]], *in_words(row)]
        for row in table.sort_values(["second", "regime", "workers"]).to_dict("records")
    ]
    columns = [*titles, "workers", "regime", *(f"{side}, ms per step" for side in sides)]
    columns += ["factor", "95 % interval", "pairs (n)"]
    return blocks.table(columns, rows, notes(table), left=(0, 1, 3))


def in_words(row: Mapping[str, object]) -> list[str]:
    """Of a row of either table: milliseconds per step of the second and of the first, the factor, its interval, n."""
    interval = blocks.DASH
    if not math.isnan(row["low"]):
        interval = f"{blocks.ratio(row['low'])} to {blocks.ratio(row['high'])}"
    times = [blocks.milliseconds(row[name]) for name in ("second_seconds", "first_seconds")]
    return [*times, blocks.ratio(row["factor"]), interval, str(row["pairs"])]


def notes(table: pd.DataFrame) -> list[str]:
    """What is to be said below a table of factors."""
    few = [f"No interval is given for fewer than {FEWEST_LAUNCHES} pairs."]
    return few if (table["pairs"] < FEWEST_LAUNCHES).any() else []
