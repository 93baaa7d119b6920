"""How many times as long a step takes: with options of a strategy's own, a library's loop, or one process for all."""

from collections.abc import Mapping

import pandas as pd

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF
from reports import blocks
from reports.tables import pairs
from reports.tables.material import Material

PAIRED = "the median over pairs of launches of the same round"
"""What a factor is, in words."""


def section(material: Material) -> list[blocks.Block]:
    """A part for options, for a library's loop and for one process, each where both sides were measured."""
    names, launches, plan = material.names, material.launches, material.results.plan
    settings, loops = pairs.against_default(launches, plan), pairs.factors(launches, plan, CONVENIENCE_OF)
    processes = pairs.factors(launches, plan, ONE_PROCESS_OF)
    of_options = (
        "Each strategy with options of its own, named after the comma, beside the same strategy with all at their "
        f"default. The factor is how many times as long a step takes with them: {PAIRED}. Below 1 they save time."
    )
    of_loops = (
        "The same distribution, with a library's loop and with a loop written out. The factor is how many times as "
        f"long a step takes with the library's: {PAIRED}."
    )
    of_processes = (
        "The same replicas on the same rows, in the threads of one process and in a process each. Tutorials claim a "
        f"factor of 2 to 3. The factor is how many times as long a step takes in one process: {PAIRED}."
    )
    return [
        *_part("What options change", of_options, ("with options", "default"), settings, names),
        *_part("What convenience costs", of_loops, ("library's loop", "own loop"), loops, names),
        *_part("What one process costs", of_processes, ("one process", "a process each"), processes, names),
    ]


def _part(
    title: str, explanation: str, sides: tuple[str, str], table: pd.DataFrame, names: Mapping[str, str]
) -> list[blocks.Block]:
    """The rows of `pairs.factors`, of which the second strategy stands first, under the first of `sides`."""
    if table.empty:
        return []
    rows = [
        [
            *[row["second"], row["first"], str(row["workers"]), names[row["regime"]]],
            *[blocks.milliseconds(row[name]) for name in ("second_seconds", "first_seconds")],
            *[blocks.ratio(row["factor"]), blocks.interval(row["low"], row["high"]), str(row["pairs"])],
        ]
        for row in table.sort_values(["first", "second", "regime", "workers"]).to_dict("records")
    ]
    columns = [*sides, "workers", "regime", *(f"{side}, ms" for side in sides), "factor", "95 % interval", "pairs (n)"]
    return [
        blocks.heading(title, level=2),
        blocks.text(explanation),
        blocks.table(columns, rows, blocks.few_note(table["pairs"], "pairs"), left=(0, 1, 3)),
    ]
