"""The accuracy that was reached on real data, and the time to a stated target."""

import math

from reports import blocks
from reports.tables import summaries
from reports.tables.material import Material


def section(material: Material) -> list[blocks.Block]:
    """Accuracy reached on real data and the time to a stated target."""
    parts = [blocks.heading("Accuracy on real data", level=2)]
    table = material.accuracies
    targets = ", ".join(f"{value:.2f} on {name}" for name, value in summaries.ACCURACY_TARGETS.items())
    if table.empty:
        return [*parts, blocks.text("No launch was on real data; on generated rows an accuracy would mean nothing.")]
    parts.append(
        blocks.text(
            f"Test accuracy after the last step, and the training time, warm-up included, until it first reached a "
            f"target: {targets}. Only launches with --checkpoint-steps look at the accuracy on the way."
        )
    )
    rows = []
    for row in table.to_dict("records"):
        reached = blocks.DASH
        if row["looked"]:
            reached = f"{row['reached']} of {row['looked']}"
        rows.append(
            [
                *[row["strategy"], str(row["workers"]), row["preset"], str(row["global_batch"]), str(row["seed"])],
                *[str(row["steps"]), str(row["n"]), f"{row['accuracy']:.4f}", f"{row['lowest']:.4f}", reached],
                blocks.DASH if math.isnan(row["target_seconds"]) else f"{blocks.number(row['target_seconds'])} s",
            ]
        )
    columns = ["strategy", "workers", "preset", "global batch", "seed", "steps", "n", "median accuracy", "lowest"]
    return [*parts, blocks.table([*columns, "reached target", "time to target"], rows, [], left=(0, 2))]
