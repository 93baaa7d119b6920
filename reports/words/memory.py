"""What each process holds of the model, in a table, and what sharding saves, in sentences."""

from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.blocks import Block
from reports.tables.material import Material
from reports.tables.memory import MEASURED


def section(material: Material) -> list[Block]:
    """What the processes hold, and what that says of sharding; nothing where no record tells."""
    found, names = material.memory, material.names
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
    measured = [name for name in MEASURED if name != "device_peak" or found["device_peak"].notna().any()]
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
