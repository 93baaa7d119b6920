"""The frameworks' own accounts of where the time of an exchange goes."""

from collections.abc import Mapping

import pandas as pd

from common.records.training import Record
from reports import blocks
from reports.blocks import Block


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each phase of each cell of several workers whose launches have an account of their exchange.

    `seconds` are per step, medians over n launches. Phases stand in the order of the record.
    """
    keys = ["regime", "workers", "strategy", "family", "phase", "meaning"]
    told = []
    for row in launches[launches["exchange"].astype(bool) & (launches["workers"] > 1)].to_dict("records"):
        record = records[row["launch"]]
        steps = record.task.steps - record.first_step
        for phase in record.phases:
            known = {name: row[name] for name in keys[:4]}
            about = {"phase": phase.name, "meaning": phase.meaning}
            told.append(known | about | {"seconds": phase.seconds / steps})
    if not told:
        return pd.DataFrame(columns=[*keys, "n", "seconds"])
    return pd.DataFrame(told).groupby(keys, sort=False)["seconds"].agg(n="count", seconds="median").reset_index()


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
