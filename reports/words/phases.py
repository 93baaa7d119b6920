"""What the frameworks' own accounts say of where the time of an exchange goes."""

from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.blocks import Block


def section(found: pd.DataFrame, split: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """A part for each family that has rows in `table`, beside the exposed communication in `split` (`time_split`).

    `names` are those of the regimes.
    """
    exposed = {
        (row["regime"], row["workers"], row["strategy"]): row["exposed_seconds"] for row in split.to_dict("records")
    }
    return [
        block
        for family, rows in found.groupby("family")
        for block in _of_family(family or "The framework", rows, exposed, names)
    ]


def _of_family(
    family: str, found: pd.DataFrame, exposed: Mapping[tuple, float], names: Mapping[str, str]
) -> list[Block]:
    explanation = (
        f"{family}'s own account of a step: how long at least one gradient was in each phase of its exchange. A phase "
        "may overlap with computing, so it can be longer than the exposed communication of the same launches, T_step "
        "less T_comp, which stands beside it."
    )
    meanings = found.drop_duplicates("phase").set_index("phase")["meaning"]
    rows = []
    for key, cell in found.groupby(["strategy", "regime", "workers"]):
        seconds = cell.set_index("phase")["seconds"]
        strategy, regime, workers = key
        rows.append(
            [
                *[strategy, str(workers), names[regime], str(cell["n"].max())],
                *[blocks.number(1000 * seconds.get(phase, float("nan"))) for phase in meanings.index],
                blocks.number(1000 * exposed.get((regime, workers, strategy), float("nan"))),
            ]
        )
    columns = ["strategy", "workers", "regime", "n", *[f"{phase}, ms" for phase in meanings.index], "exposed, ms"]
    return [
        blocks.heading(f"{family}'s own account of the exchange", level=2),
        blocks.text(explanation),
        blocks.items([f"{phase}: {meaning}" for phase, meaning in meanings.items()]),
        blocks.table(columns, rows, [], left=(0, 2)),
    ]
