"""The configurations that two folders of records both measured, unpaired."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

_KEYS = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
"""What cells of both folders have in common: all of a regime but the machine, and whose cell it is."""


@dataclass(frozen=True)
class SideBySide:
    """A configuration with exchange: its rows of `summaries.cells` in both folders, and its regime in the first."""

    regime: str
    strategy: str
    workers: int
    here: Mapping[str, object]
    there: Mapping[str, object]

    @property
    def oversubscribed(self) -> bool:
        """Whether one of both at least had more threads than cores."""
        return bool(self.here["oversubscribed"] or self.there["oversubscribed"])


def table(cells: pd.DataFrame, others: pd.DataFrame) -> list[SideBySide]:
    """One row for each configuration that each of two tables of `summaries.cells` has on one machine, whichever."""
    here, there = _on_one_machine(cells), _on_one_machine(others)
    return [
        SideBySide(row["regime"], row["strategy"], row["workers"], row, there[key])
        for key, row in here.items()
        if key in there
    ]


def on_several_machines(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with exchange that are in no row, since their configuration was measured on several machines."""
    trained = cells[cells["exchange"]]
    return trained[trained.duplicated(_KEYS, keep=False)]


def _on_one_machine(cells: pd.DataFrame) -> dict[tuple[object, ...], dict[str, object]]:
    trained = cells[cells["exchange"]].drop(index=on_several_machines(cells).index)
    return {tuple(row[key] for key in _KEYS): row for row in trained.to_dict("records")}
