"""The launches beside the oracle: deviations and verdicts by configuration, and how asynchronous ones trained."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from common.contract import oracle
from common.contract.oracle import LOSS_FLOOR
from common.contract.task import maths_of
from common.errors import UserError
from common.records import certificate
from common.records.certificate import ASYNCHRONOUS, DEVIATES, FOLLOWS, NOT_COMPARED, OTHER_MATHS, Certificate
from reports.tables import columns
from reports.tables.results import Results

GRAVEST_FIRST = (DEVIATES, NOT_COMPARED, ASYNCHRONOUS, OTHER_MATHS, FOLLOWS)
"""The verdicts on launches; of several the first is the configuration's."""

_KEYS = ["preset", "global_batch", "seed", "strategy", "workers", "exchange", "maths"]


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
    """One row for each asynchronous launch of several workers that kept its final weights.

    It has the loss of these weights beside the oracle's; where either can't be had a note says why.
    """
    rows = []
    for record in results.records.values():
        task, trained = record.task, record.status == "ok" and bool(record.checkpoint) and record.exchange
        if not trained or record.synchronous or record.world_size == 1:
            continue
        row = {
            **{"preset": task.preset, "batch": record.examples_per_step, "seed": task.seed, "updates": task.steps},
            **{"strategy": record.name, "workers": record.world_size, "note": ""},
            "staleness": float(np.median(record.staleness)) if record.staleness else math.nan,
            "largest_staleness": max(record.staleness, default=math.nan),
        }
        try:
            own = certificate.final_weights(record, results.folder)
            states = [own, certificate.trajectory_of(record, with_state=True).state]
            row["loss"], row["oracle_loss"] = (oracle.training_loss(maths_of(task), state) for state in states)
            row["difference"] = row["loss"] / row["oracle_loss"] - 1 if math.isfinite(row["loss"]) else math.inf
        except UserError as error:
            row["note"] = str(error)
        rows.append(row)
    return columns.table("asynchronous", rows)


def step_deviations(comparison: Certificate) -> np.ndarray:
    """Relative deviation of each loss from the oracle's of the same step; NaN where a loss isn't finite."""
    steps = min(len(comparison.losses), len(comparison.oracle_losses))
    losses, expected = comparison.losses[:steps], comparison.oracle_losses[:steps]
    return np.abs(losses - expected) / np.maximum(expected, LOSS_FLOOR)
