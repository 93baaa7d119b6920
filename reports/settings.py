"""What a strategy's own options change, beside the same strategy with all of them at their default."""

from collections.abc import Mapping

import pandas as pd

from reports import blocks, pairs
from reports.blocks import Block


def section(table: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """The rows of `pairs.against_default`; nothing without rows. `names` are those of the regimes."""
    if table.empty:
        return []
    explanation = (
        "Each strategy with options of its own, named after the comma, beside the same strategy with all of them at "
        f"their default. The factor is how many times as long a step takes with them: {pairs.PAIRED}. Below 1 they "
        "save time. Those marked as other maths compute something else."
    )
    rows = [
        [row["second"], str(row["workers"]), names[row["regime"]], *pairs.in_words(row)]
        for row in table.sort_values(["first", "regime", "workers", "factor"]).to_dict("records")
    ]
    columns = ["with options", "workers", "regime", "ms per step", "default, ms", "factor", "95 % interval"]
    return [
        blocks.heading("What options change", level=2),
        blocks.text(explanation),
        blocks.table([*columns, "pairs (n)"], rows, pairs.notes(table), left=(0, 2)),
    ]
