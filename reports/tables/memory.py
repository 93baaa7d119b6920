"""What each process holds of the model and how far its memory rises, beside a strategy with whole copies."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from common.declarations.strategy import SHARDING_OF, name_of
from common.records.files import to_json
from common.records.training import Record

_PARTS = ("parameters", "gradients", "optimizer_state")
MEASURED = (*_PARTS, "held", "above_import", "device_peak")


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row per cell with exchange whose records tell of memory: bytes, medians over n launches.

    `parameters`, `gradients`, `optimizer_state` and their sum `held` are those of the process that holds most,
    `above_import` and, on GPUs, `device_peak` the largest process's; NaN where the strategy doesn't tell. `reference`
    is the strategy whose every process holds all that this one shards, on the same hosts, empty for one that doesn't
    shard; `held_factor` and `peak_factor` are over its `reference_held` and `reference_peak` of the same regime and
    number of workers, NaN where it wasn't measured; a peak is the GPU's where both have one.
    """
    keys = ["regime", "workers", "strategy"]
    rows = []
    for key, group in launches[launches["exchange"].astype(bool)].groupby(keys):
        told = [_of_launch(records[name]) for name in group["launch"] if any(map(to_json, records[name].memory_bytes))]
        if told:
            first = group.iloc[0]
            reference = first["compared_with"].get(SHARDING_OF, "")
            known = {"reference": name_of(reference, first["placement"]) if reference else "", "n": len(told)}
            rows.append(dict(zip(keys, key, strict=True)) | known | pd.DataFrame(told).median().to_dict())
    columns = [*keys, "reference", "n", *MEASURED]
    by_cell = {(row["regime"], row["workers"], row["strategy"]): row for row in rows}
    factors = [_beside(row, by_cell.get((row["regime"], row["workers"], row["reference"]))) for row in rows]
    ratios = ["reference_n", "reference_held", "reference_peak", "peak", "held_factor", "peak_factor"]
    return pd.DataFrame(rows, columns=columns).join(pd.DataFrame(factors, columns=ratios))


def _of_launch(record: Record) -> dict[str, float]:
    measured = [to_json(process) for process in record.memory_bytes]
    parts = [{name: process.get(name, math.nan) for name in MEASURED} for process in measured]
    for process in parts:
        process["held"] = sum(process[name] for name in _PARTS)
    known = [process for process in parts if not math.isnan(process["held"])]
    most = max(known, key=lambda process: process["held"], default=parts[0])
    largest = {name: max(_told(parts, name), default=math.nan) for name in ("above_import", "device_peak")}
    return most | largest


def _told(parts: Sequence[Mapping[str, float]], name: str) -> list[float]:
    return [process[name] for process in parts if not math.isnan(process[name])]


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
