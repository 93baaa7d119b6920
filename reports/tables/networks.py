"""Which network pays: the speed-up of each strategy over the operations that a network has for a byte of its gradients.

A step of R workers takes c times what one of the base takes, and k for each byte of the gradients. The base's step
takes as long as it has operations, so over x operations per byte R / speed-up = c + k / x. For each strategy c and k
are fitted to its networks by least squares.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.contract import model
from common.records.training import Record
from reports.tables import columns

FEWEST = 3
"""Networks that make a line."""


def table(cells: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each synchronous cell of several workers under weak scaling whose base was measured.

    Empty where fewer than FEWEST networks were measured, or one kind of network alone. `line` is NaN for a strategy
    with fewer. It pays from `pays_from` operations per byte on: NaN where it never does, 0 where it always does.
    """
    rows = cells[cells["exchange"] & cells["synchronous"] & cells["same_maths"] & (cells["scaling"] == "weak")]
    rows = rows[(rows["workers"] > 1) & rows["speed_up"].notna()].reset_index(drop=True)
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    tasks = [records[first[regime]].task for regime in rows["regime"]]
    rows["network"] = [task.preset for task in tasks]
    rows["operations_per_byte"] = [model.operations(task) * task.batch / model.parameter_bytes(task) for task in tasks]
    if rows["operations_per_byte"].nunique() < FEWEST or len({task.model for task in tasks}) < 2:
        rows = rows[:0]
    step = rows["speed_up"] * rows["seconds"]
    rows["low"], rows["high"] = step / rows["high_seconds"], step / rows["low_seconds"]
    rows["line"], rows["pays_from"] = math.nan, math.nan
    for (_, workers), group in rows.groupby(["strategy", "workers"]):
        x = group["operations_per_byte"]
        if x.nunique() >= FEWEST:
            per_byte, contention = np.polyfit(1 / x, workers / group["speed_up"], 1)
            rows.loc[group.index, "line"] = workers / (contention + per_byte / x)
            if contention < workers:
                rows.loc[group.index, "pays_from"] = max(0.0, per_byte / (workers - contention))
    return columns.table("networks", rows.sort_values(["strategy", "workers", "operations_per_byte"]))
