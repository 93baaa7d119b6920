"""The frameworks' own accounts of where the time of an exchange goes."""

from collections.abc import Mapping

import pandas as pd

from common.records.training import Record
from reports.tables import columns


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each phase of each cell of several workers whose launches have an account of their exchange.

    `seconds` are per step, medians over n launches. Phases stand in the order of the record.
    """
    keys = ["regime", "workers", "strategy", "family", "phase", "meaning"]
    told = []
    for row in launches[launches["exchange"] & (launches["workers"] > 1)].to_dict("records"):
        record = records[row["launch"]]
        steps = record.task.steps - record.first_step
        for phase in record.phases:
            told.append([*(row[name] for name in keys[:4]), phase.name, phase.meaning, phase.seconds / steps])
    groups = pd.DataFrame(told, columns=[*keys, "seconds"]).groupby(keys, sort=False)["seconds"]
    return columns.table("phases", groups.agg(n="count", seconds="median").reset_index().to_dict("records"))
