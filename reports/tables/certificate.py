"""The launches beside the oracle: deviations and verdicts by configuration, and how asynchronous ones trained."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from common.contract import oracle
from common.contract.oracle import LOSS_FLOOR
from common.contract.task import maths_of
from common.errors import UserError
from common.records import certificate
from common.records.certificate import ASYNCHRONOUS, DEVIATES, FOLLOWS, NOT_COMPARED, OTHER_MATHS, Certificate
from common.records.training import Record
from reports.tables import columns
from reports.tables.results import Results

GRAVEST_FIRST = (DEVIATES, NOT_COMPARED, ASYNCHRONOUS, OTHER_MATHS, FOLLOWS)
"""The verdicts on launches; of several the first is the configuration's."""

_KEYS = ["preset", "global_batch", "seed", "strategy", "workers", "exchange", "maths"]


def compare(results: Results) -> list[Certificate]:
    """Every `ok` launch beside its oracle, as `common.records.certificate.compare` has it."""
    return certificate.compare(results.records, results.folder, results.origin.differences.launches)


def deviations(comparisons: Sequence[Certificate]) -> pd.DataFrame:
    """One row for each launch beside its oracle, without the losses of its steps."""
    return columns.table("deviations", map(vars, comparisons))


def summary(comparisons: Sequence[Certificate]) -> pd.DataFrame:
    """One row per strategy, workers, exchange, global batch and maths: what its updates were made of, and the verdict.

    A single launch that deviates makes the verdict `deviates`. Other maths, whose names say so, have rows of their own.
    """
    if not comparisons:
        return columns.table("certificates", ())
    found = (
        deviations(comparisons)
        .groupby(_KEYS, as_index=False)
        .agg(
            n=("launch", "count"),
            updates=("updates", "sum"),
            least_share=("least_share", "min"),
            largest_share=("largest_share", "max"),
            velocity=("velocity", "median"),
            decay=("decay", "median"),
            residual=("residual", "max"),
            rounding=("rounding", "max"),
            loss=("loss", "max"),
            other_maths=("other_maths", "first"),
            verdict=("verdict", lambda verdicts: min(verdicts, key=GRAVEST_FIRST.index)),
            note=("note", lambda notes: "; ".join(dict.fromkeys(filter(None, notes)))),
        )
    )
    return columns.table("certificates", found)


def asynchronous(results: Results) -> pd.DataFrame:
    """One row for each asynchronous launch of several workers that kept its final weights."""
    rows = []
    for record in results.records.values():
        trained = record.status == "ok" and bool(record.checkpoint) and record.exchange
        if trained and not record.synchronous and record.world_size > 1:
            rows.append(_asynchronous(record, results.folder))
    return columns.table("asynchronous", rows)


def _asynchronous(record: Record, folder: Path) -> dict[str, object]:
    """The loss of a launch's final weights beside the oracle's; without them a note says why."""
    task = record.task
    row = {
        **{"preset": task.preset, "batch": record.examples_per_step, "seed": task.seed, "updates": task.steps},
        **{"strategy": record.name, "workers": record.world_size, "note": ""},
        "staleness": float(np.median(record.staleness)) if record.staleness else math.nan,
        "largest_staleness": max(record.staleness, default=math.nan),
    }
    try:
        states = [certificate.final_weights(record, folder), certificate.trajectory_of(record, with_state=True).state]
    except UserError as error:
        return row | {"note": str(error)}
    loss, oracle_loss = (oracle.training_loss(maths_of(task), state) for state in states)
    difference = loss / oracle_loss - 1 if math.isfinite(loss) else math.inf
    return row | {"loss": loss, "oracle_loss": oracle_loss, "difference": difference}


def step_deviations(comparison: Certificate) -> np.ndarray:
    """Relative deviation of each loss from the oracle's of the same step; NaN where a loss isn't finite."""
    steps = min(len(comparison.losses), len(comparison.oracle_losses))
    losses, expected = comparison.losses[:steps], comparison.oracle_losses[:steps]
    return np.abs(losses - expected) / np.maximum(expected, LOSS_FLOOR)
