"""What each process holds of the model and how far its memory rises, beside a strategy with whole copies."""

import math
from collections.abc import Mapping

import pandas as pd

from common.declarations.strategy import SHARDING_OF, name_of
from common.records.files import to_json
from common.records.training import Record
from reports.tables import columns

_PARTS = ("parameters", "gradients", "optimizer_state")
MEASURED = (*_PARTS, "held", "above_import", "device_peak")


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row per cell with exchange whose records tell of memory.

    The reference is on the same hosts, in the same regime, with as many workers; factors are NaN where it wasn't
    measured, what the processes hold is where the strategy doesn't tell.
    """
    keys = ["regime", "workers", "strategy"]
    rows = []
    for key, group in launches[launches["exchange"]].groupby(keys):
        told = [_of_launch(records[name]) for name in group["launch"] if any(map(to_json, records[name].memory_bytes))]
        if told:
            first = group.iloc[0]
            reference = first["compared_with"].get(SHARDING_OF, "")
            known = {"reference": name_of(reference, first["placement"]) if reference else "", "n": len(told)}
            rows.append(dict(zip(keys, key, strict=True)) | known | pd.DataFrame(told).median().to_dict())
    by_cell = {(row["regime"], row["workers"], row["strategy"]): row for row in rows}
    return columns.table(
        "memory", (row | _beside(row, by_cell.get((row["regime"], row["workers"], row["reference"]))) for row in rows)
    )


def _of_launch(record: Record) -> dict[str, float]:
    measured = [to_json(process) for process in record.memory_bytes]
    parts = pd.DataFrame([{name: process.get(name, math.nan) for name in MEASURED} for process in measured])
    parts["held"] = parts[[*_PARTS]].sum(axis=1, skipna=False)
    most = parts["held"].idxmax() if parts["held"].notna().any() else 0
    return parts.loc[most].to_dict() | parts[["above_import", "device_peak"]].max().to_dict()


def _beside(row: Mapping[str, object], reference: Mapping[str, object] | None) -> dict[str, float]:
    if reference is None:
        return {}
    on_device = all(pd.notna(side["device_peak"]) for side in (row, reference))
    peak = "device_peak" if on_device else "above_import"
    return {
        **{"reference_n": reference["n"], "reference_held": reference["held"], "reference_peak": reference[peak]},
        **{"peak": row[peak], "peak_factor": row[peak] / reference[peak] if reference[peak] else float("nan")},
        "held_factor": row["held"] / reference["held"] if reference["held"] else float("nan"),
    }
