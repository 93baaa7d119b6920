"""What each process holds of the model and how far its memory rises, and what sharding it saves."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from common.declarations.strategy import SHARDING_OF, name_of
from common.records.files import to_json
from common.records.training import Record
from reports import blocks
from reports.blocks import Block

_PARTS = ("parameters", "gradients", "optimizer_state")
_MEASURED = (*_PARTS, "held", "above_import", "device_peak")


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
    columns = [*keys, "reference", "n", *_MEASURED]
    by_cell = {(row["regime"], row["workers"], row["strategy"]): row for row in rows}
    factors = [_beside(row, by_cell.get((row["regime"], row["workers"], row["reference"]))) for row in rows]
    ratios = ["reference_n", "reference_held", "reference_peak", "peak", "held_factor", "peak_factor"]
    return pd.DataFrame(rows, columns=columns).join(pd.DataFrame(factors, columns=ratios))


def section(found: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """The rows of `table` with what they say of sharding; nothing without rows. `names` are those of the regimes."""
    if found.empty:
        return []
    explanation = (
        "Megabytes of the parameters, their gradients and the optimizer's state in the process that holds most of them "
        "at the end, and their sum. The peak is how far the largest process's resident memory rose above what it was "
        "before the data came, with the framework imported: it has the data, activations and buffers too. A process "
        "with several replicas is counted as a whole."
    )
    said = [*shardings(found, names), *_without_state(found)]
    return [
        blocks.heading("What each process holds", level=2),
        blocks.text(explanation),
        *([blocks.items(said)] if said else []),
        _table_block(found, names),
    ]


def shardings(found: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """A sentence for each strategy that shards: how its peak compares with that of its reference.

    Of its cells with several workers it names the one with the most to shard (the largest model, then the most
    workers), and the range over all.
    """
    sentences = []
    compared = found[(found["workers"] > 1) & found["peak_factor"].notna()]
    for (name, reference), group in compared.groupby(["strategy", "reference"]):
        largest = group.sort_values(["reference_held", "workers", "n"]).iloc[-1]
        its_peak = f"{blocks.megabytes(largest['reference_peak'])} (n = {largest['reference_n']:.0f})"
        sentence = (
            f"{name} with {largest['workers']} workers on {names[largest['regime']]}: peak "
            f"{blocks.megabytes(largest['peak'])} MB (n = {largest['n']}) against {reference}'s {its_peak}: "
            f"{_in_words(largest['peak_factor'])}"
        )
        if len(group) > 1:
            sentence += (
                f". Over its {len(group)} cells beside {reference}'s, peaks go from "
                f"{_signed(group['peak_factor'].min())} to {_signed(group['peak_factor'].max())}"
            )
        sentences.append(f"{sentence}.")
    return sentences


def _of_launch(record: Record) -> dict[str, float]:
    measured = [to_json(process) for process in record.memory_bytes]
    parts = [{name: process.get(name, math.nan) for name in _MEASURED} for process in measured]
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


def _in_words(factor: float) -> str:
    """What a peak of `factor` times the reference's means, beside what is claimed for sharding."""
    claim = "sharding is often said to save over 60\u00a0%"
    change = f"{abs(100 * (factor - 1)):.0f}\u00a0%"
    if change.startswith("0"):
        return f"it makes no difference; {claim}"
    return f"it costs {change} more; {claim}" if factor > 1 else f"it saves {change}; {claim}"


def _signed(factor: float) -> str:
    return blocks.signed_percent(factor - 1).replace(" ", "\u00a0")


def _without_state(found: pd.DataFrame) -> list[str]:
    state = found["optimizer_state"].dropna()
    if state.empty or state.any():
        return []
    return [
        "Plain SGD without momentum keeps no state between steps: the optimizer has nothing here that could be sharded."
    ]


def _table_block(found: pd.DataFrame, names: Mapping[str, str]) -> Block:
    measured = [name for name in _MEASURED if name != "device_peak" or found["device_peak"].notna().any()]
    beside = found[found["reference_n"].notna()]
    ratios = [] if beside.empty else ["held_factor", "peak_factor"]
    rows = [
        [
            *[row["strategy"], str(row["workers"]), row["name"], str(row["n"])],
            *[blocks.megabytes(row[name]) for name in measured],
            *[blocks.ratio(row[name]) for name in ratios],
        ]
        for row in found.assign(name=found["regime"].map(names))
        .sort_values(["strategy", "name", "workers"])
        .to_dict("records")
    ]
    titles = ["parameters", "gradients", "state", "sum", "peak", "GPU peak"]
    columns = ["strategy", "workers", "regime", "n", *titles[: len(measured)], *["sum, factor", "peak, factor"]]
    notes = [
        f"The factors of {blocks.listed(sorted(group['strategy'].unique()))} are over {reference} in the same regime "
        "with as many workers."
        for reference, group in beside.groupby("reference")
    ]
    return blocks.table(columns[: len(rows[0])], rows, notes, left=(0, 2))
