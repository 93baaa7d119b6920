"""What each process holds of the model, and how many times as much as without sharding."""

from reports import blocks
from reports.tables.material import Material
from reports.tables.memory import MEASURED


def section(material: Material) -> list[blocks.Block]:
    """What the processes hold, and beside it what those hold that don't shard; nothing where no record tells."""
    found = material.memory
    if found.empty:
        return []
    explanation = (
        "Megabytes in the process that holds most. The peak is how far the largest process's resident memory rose "
        "above what it was before the data came: it has the data, activations and buffers too."
    )
    beside = found[found["reference_n"].notna()]
    if len(beside):
        explanation += " Sharding is often said to save over 60 %, so to have a factor below 0.40."
    state = found["optimizer_state"].dropna()
    if len(state) and not state.any():
        explanation += " Plain SGD without momentum keeps no state between steps that could be sharded."
    measured = [name for name in MEASURED if name != "device_peak" or found["device_peak"].notna().any()]
    ratios = [] if beside.empty else ["held_factor", "peak_factor"]
    rows = [
        [
            *[row["strategy"], str(row["workers"]), row["name"], str(row["n"])],
            *[blocks.megabytes(row[name]) for name in measured],
            *[blocks.ratio(row[name]) for name in ratios],
        ]
        for row in found.assign(name=found["regime"].map(material.names))
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
    table = blocks.table(columns[: len(rows[0])], rows, notes, left=(0, 2))
    return [blocks.heading("What each process holds", level=2), blocks.text(explanation), table]
