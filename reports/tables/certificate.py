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
from common.records import certificate, deviation
from common.records.certificate import (
    ASYNCHRONOUS,
    DEVIATES,
    FOLLOWS,
    FOLLOWS_UP_TO,
    NOT_COMPARED,
    OTHER_MATHS,
    Comparison,
    trajectory_of,
    with_weights_found,
)
from common.records.training import Record
from reports.tables import columns
from reports.tables.results import Results

GRAVEST_FIRST = (DEVIATES, NOT_COMPARED, ASYNCHRONOUS, OTHER_MATHS, FOLLOWS_UP_TO, FOLLOWS)
"""The verdicts on launches; of several the first is the configuration's."""

_SUMMARY = (
    *("preset", "global_batch", "seed", "strategy", "workers", "exchange", "maths", "n", "loss", "shard", "weights"),
    *("examples", "expected", "other_maths", "verdict", "followed_up_to", "note"),
)


def compare(results: Results) -> list[Comparison]:
    """Every `ok` launch beside its oracle, as `common.records.certificate.compare` has it."""
    return certificate.compare(results.records, results.folder, results.origin.differences.launches)


def deviations(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """One row for each launch beside its oracle, without the losses of its steps."""
    return columns.table("deviations", map(vars, comparisons))


def summary(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """One row per strategy, workers, exchange, global batch and maths: largest deviations over n, and the verdict.

    A single launch that deviates makes the verdict `deviates`. Other maths, whose names say so, have rows of their own.
    """
    keys, rows = ["preset", "global_batch", "seed", "strategy", "workers", "exchange", "maths"], []
    for key, group in deviations(comparisons).groupby(keys):
        verdicts = set(group["verdict"])
        miscounted = group[group["examples"] != group["expected_examples"]]
        counted = miscounted.iloc[0] if len(miscounted) else group.iloc[0]
        numbers = {
            "n": len(group),
            "loss": group["loss"].max(),
            "shard": group["shard"].max(),
            "weights": group["weights"].max(),
            "examples": counted["examples"],
            "expected": counted["expected_examples"],
            "other_maths": counted["other_maths"],
            "verdict": next(verdict for verdict in GRAVEST_FIRST if verdict in verdicts),
            "followed_up_to": group["followed_up_to"].min(),
            "note": "; ".join(dict.fromkeys(note for note in group["note"] if note)),
        }
        rows.append(dict(zip(keys, key, strict=True)) | numbers)
    return pd.DataFrame(rows, columns=_SUMMARY)


def asynchronous(results: Results) -> pd.DataFrame:
    """One row for each asynchronous launch of several workers that kept its final weights.

    `loss` is that of its final weights over the whole training set, `oracle_loss` that of the oracle's weights after as
    many updates of as many rows, `difference` the first over the second, less 1. `staleness` is the median over the
    launch's updates, `largest_staleness` the largest. Losses are NaN, and `note` says why, where nothing could be
    compared.
    """
    names = ["preset", "batch", "seed", "strategy", "workers", "updates", "loss", "oracle_loss", "difference"]
    names += ["staleness", "largest_staleness", "note"]
    rows = []
    for record in results.records.values():
        trained = record.status == "ok" and bool(record.checkpoint) and record.exchange
        if trained and not record.synchronous and record.world_size > 1:
            rows.append(_asynchronous(record, results.folder))
    return pd.DataFrame(rows, columns=names)


def verdict_in_words(row: dict[str, object]) -> str:
    """The verdict of a row of `summary`, with the step up to which it follows where a kink ends that."""
    if row["verdict"] == FOLLOWS_UP_TO:
        return f"follows up to step {row['followed_up_to']:.0f}"
    return str(row["verdict"])


def step_deviations(comparison: Comparison) -> np.ndarray:
    """Relative deviation of each loss from the oracle's of the same step; NaN where a loss isn't finite."""
    steps = min(len(comparison.losses), len(comparison.oracle_losses))
    losses, expected = comparison.losses[:steps], comparison.oracle_losses[:steps]
    return np.abs(losses - expected) / np.maximum(expected, LOSS_FLOOR)


def _asynchronous(record: Record, folder: Path) -> dict[str, object]:
    task = record.task
    maths = maths_of(task)
    row = {
        **{"preset": task.preset, "batch": record.examples_per_step, "seed": task.seed, "updates": task.steps},
        **{"strategy": record.name, "workers": record.world_size, "note": ""},
        **{"loss": math.nan, "oracle_loss": math.nan, "difference": math.nan},
        "staleness": float(np.median(record.staleness)) if record.staleness else math.nan,
        "largest_staleness": max(record.staleness, default=math.nan),
    }
    try:
        weights = deviation.final_weights(with_weights_found(record, folder), folder)
        trajectory = trajectory_of(record)
    except UserError as error:
        return row | {"note": str(error)}
    loss, oracle_loss = oracle.training_loss(maths, weights), oracle.training_loss(maths, trajectory.state)
    difference = loss / oracle_loss - 1 if math.isfinite(loss) else math.inf
    return row | {"loss": loss, "oracle_loss": oracle_loss, "difference": difference}
