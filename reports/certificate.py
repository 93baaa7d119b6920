"""Whether every synchronous launch followed the float64 oracle, and how well asynchronous ones trained beside it."""

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from common.contract import dataset, oracle
from common.contract.mlp import Trajectory
from common.contract.oracle import LOSS_TOLERANCE, TOLERATED_STEPS
from common.contract.task import Task, maths_of, task_of
from common.errors import UserError
from common.measurement.record import Record
from common.strategy import name_of
from reports import summaries
from reports.results import Results

FOLLOWS, DEVIATES, ASYNCHRONOUS, NOT_COMPARED = "follows", "deviates", "asynchronous", "not compared"
OTHER_MATHS = "other maths"
"""The verdict on a launch with an option that rounds or approximates on purpose, wherever its losses are."""


@dataclass(frozen=True)
class Comparison:
    """One launch beside the oracle of its maths and global batch. Arrays are per step from `first_step` on."""

    launch: str
    strategy: str
    own: str
    """The strategy with its own options, whatever its hosts."""
    hosts: int
    workers: int
    preset: str
    maths: str
    """What of the task decides the maths, the seed among it, as options of the command line."""
    global_batch: int
    seed: int
    first_step: int
    other_maths: str
    """Names of the options by which it computes something else than the oracle on purpose; empty for the same maths."""
    verdict: str
    note: str
    """Why a launch wasn't compared, or what its deviation starts at."""
    loss: float
    """Largest relative deviation of a loss; NaN when not compared."""
    shard: float
    """The same of any shard's loss, where the record has them."""
    weights: float
    examples: int
    expected_examples: int
    losses: np.ndarray
    oracle_losses: np.ndarray


@dataclass(frozen=True)
class _Oracles:
    """What many launches are held against, each computed once."""

    trajectories: dict[tuple[Task, int, int], Trajectory] = field(default_factory=dict)
    """By the maths, the rows of a step and the steps."""
    digests: dict[Task, str] = field(default_factory=dict)
    """By the maths, that of the rows on this machine."""


def compare(results: Results) -> list[Comparison]:
    """Every `ok` launch with exchange, compared with its oracle; each oracle runs once.

    With several workers an asynchronous launch isn't compared (`asynchronous` says what it came to), nor is one whose
    data or weights aren't here.
    """
    oracles, comparisons = _Oracles(), []
    for launch, record in results.records.items():
        if record.status == "ok" and record.losses and record.exchange:
            comparisons.append(_compare(launch, record, results.folder, oracles))
    return comparisons


def summary(comparisons: list[Comparison]) -> pd.DataFrame:
    """One row per strategy, workers, global batch and maths: largest deviations over n launches, and the verdict.

    A single launch that deviates makes the verdict `deviates`. Other maths, whose names say so, have rows of their own.
    """
    columns = ["preset", "global_batch", "seed", "strategy", "workers"]
    if not comparisons:
        numbers = ["n", "loss", "shard", "weights", "examples", "expected", "other_maths", "verdict", "note"]
        return pd.DataFrame(columns=[*columns, *numbers])
    table = pd.DataFrame([_without_losses(comparison) for comparison in comparisons])
    rows = []
    for key, group in table.groupby([*columns, "maths"]):
        verdicts = set(group["verdict"])
        order = (DEVIATES, NOT_COMPARED, ASYNCHRONOUS, OTHER_MATHS, FOLLOWS)
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
            "verdict": next(verdict for verdict in order if verdict in verdicts),
            "note": "; ".join(dict.fromkeys(note for note in group["note"] if note)),
        }
        rows.append(dict(zip([*columns, "maths"], key, strict=True)) | numbers)
    return pd.DataFrame(rows)


def deviating(comparisons: list[Comparison]) -> set[tuple[str, int]]:
    """Each strategy, with its label, and number of workers of which a launch doesn't follow the oracle."""
    return {(each.strategy, each.workers) for each in comparisons if each.verdict == DEVIATES}


def asynchronous(results: Results) -> pd.DataFrame:
    """One row for each asynchronous launch of several workers that kept its final weights.

    `loss` is that of its final weights over the whole training set, `oracle_loss` that of the oracle's weights after as
    many updates of as many rows, `difference` the first over the second, less 1. `staleness` is the median over the
    launch's updates, `largest_staleness` the largest. Losses are NaN, and `note` says why, where nothing could be
    compared.
    """
    columns = ["preset", "batch", "seed", "strategy", "workers", "updates", "loss", "oracle_loss", "difference"]
    columns += ["staleness", "largest_staleness", "note"]
    oracles, rows = _Oracles(), []
    for record in results.records.values():
        trained = record.status == "ok" and bool(record.checkpoint) and record.exchange
        if trained and not record.synchronous and record.world_size > 1:
            rows.append(_asynchronous(record, results.folder, oracles))
    return pd.DataFrame(rows, columns=columns)


def step_deviations(comparison: Comparison) -> np.ndarray:
    """Relative deviation of each loss from the oracle's of the same step; NaN where a loss isn't finite."""
    steps = min(len(comparison.losses), len(comparison.oracle_losses))
    return np.abs(comparison.losses[:steps] - comparison.oracle_losses[:steps]) / comparison.oracle_losses[:steps]


def _compare(launch: str, record: Record, folder: Path, oracles: _Oracles) -> Comparison:
    task = task_of(record.task)
    maths = maths_of(task)
    losses = np.array([math.nan if loss is None else loss for loss in record.losses])
    known = {
        **{"launch": launch, "strategy": record.name, "own": name_of(record.strategy, record.label)},
        **{"hosts": max(1, len(record.hosts)), "workers": record.world_size},
        **{"preset": task.preset, "maths": summaries.in_options(maths), "global_batch": record.examples_per_step},
        **{"seed": task.seed, "first_step": record.first_step, "losses": losses},
        "other_maths": ", ".join(record.other_maths),
        **{"loss": math.nan, "shard": math.nan, "weights": math.nan, "examples": sum(record.examples_by_rank)},
        "expected_examples": record.examples_per_step * (task.steps - record.first_step),
    }
    if not record.synchronous and record.world_size > 1:
        note = "workers don't wait for each other, so no step by step comparison exists"
        return Comparison(**known, verdict=ASYNCHRONOUS, note=note, oracle_losses=np.empty(0))
    try:
        trajectory = _trajectory(maths, record, task.steps, oracles)
        deviation = oracle.deviation(_found_weights(record, folder), task, folder, trajectory)
    except UserError as error:
        return Comparison(**known, verdict=NOT_COMPARED, note=str(error), oracle_losses=np.empty(0))
    known |= {"loss": deviation.loss, "shard": _number(deviation.shard), "weights": _number(deviation.weights)}
    known["oracle_losses"] = np.array(trajectory.losses[record.first_step :])
    if known["other_maths"]:
        return Comparison(**known, verdict=OTHER_MATHS, note=_miscounted(deviation))
    note = "" if deviation.follows else _explain(known, deviation)
    return Comparison(**known, verdict=FOLLOWS if deviation.follows else DEVIATES, note=note)


def _asynchronous(record: Record, folder: Path, oracles: _Oracles) -> dict[str, object]:
    task = task_of(record.task)
    maths = maths_of(task)
    row = {
        **{"preset": task.preset, "batch": record.examples_per_step, "seed": task.seed, "updates": task.steps},
        **{"strategy": record.name, "workers": record.world_size, "note": ""},
        **{"loss": math.nan, "oracle_loss": math.nan, "difference": math.nan},
        "staleness": float(np.median(record.staleness)) if record.staleness else math.nan,
        "largest_staleness": max(record.staleness, default=math.nan),
    }
    try:
        weights = oracle.final_weights(_found_weights(record, folder), folder)
        trajectory = _trajectory(maths, record, task.steps, oracles)
    except UserError as error:
        return row | {"note": str(error)}
    loss, oracle_loss = oracle.training_loss(maths, weights), oracle.training_loss(maths, trajectory.state)
    difference = loss / oracle_loss - 1 if math.isfinite(loss) else math.inf
    return row | {"loss": loss, "oracle_loss": oracle_loss, "difference": difference}


def _trajectory(maths: Task, record: Record, steps: int, oracles: _Oracles) -> Trajectory:
    # Final weights can only be compared at the very step at which they were taken.
    needed = steps if record.checkpoint else min(steps, max(TOLERATED_STEPS, record.first_step + 1))
    # Loading takes the digest of all rows each time.
    if maths not in oracles.digests:
        oracles.digests[maths] = dataset.load(maths).sha256
    if record.data_sha256 and record.data_sha256 != oracles.digests[maths]:
        raise UserError("The rows of this launch aren't those of the data set on this machine.")
    key = (maths, record.examples_per_step, needed)
    if key not in oracles.trajectories:
        print(f"the oracle: {maths.preset}, {needed} steps of {record.examples_per_step} rows in float64", flush=True)
        oracles.trajectories[key] = oracle.run_oracle(maths, record.examples_per_step, needed)
    return oracles.trajectories[key]


def _found_weights(record: Record, folder: Path) -> Record:
    """`record` with its weights' file looked for beside it as well: a results folder may have been moved."""
    if record.checkpoint is None or (folder / record.checkpoint).exists():
        return record
    return dataclasses.replace(record, checkpoint=Path(record.checkpoint).name)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _miscounted(deviation: oracle.Deviation) -> str:
    if deviation.examples == deviation.expected_examples:
        return ""
    return f"{deviation.examples:,} rows counted, {deviation.expected_examples:,} expected"


def _explain(known: dict[str, object], deviation: oracle.Deviation) -> str:
    reasons = [_miscounted(deviation)] if _miscounted(deviation) else []
    steps = min(len(known["losses"]), len(known["oracle_losses"]))
    ours, theirs = known["losses"][:steps], known["oracle_losses"][:steps]
    outside = np.flatnonzero(~(np.abs(ours - theirs) <= LOSS_TOLERANCE * np.abs(theirs)))
    if len(outside):
        start = int(outside[0]) + known["first_step"]
        reasons.append(f"losses leave the tolerance at step {start}")
        if deviation.kink and deviation.kink.step <= start:
            kink = deviation.kink
            reasons.append(
                f"after a kink at step {kink.step}, layer {kink.layer}, unit {kink.unit}, {kink.distance:.0e} from zero"
            )
    elif deviation.shard and deviation.shard > LOSS_TOLERANCE:
        reasons.append("a shard's losses leave the tolerance: they were taken of other rows than the shard's")
    return "; ".join(reasons) or "final weights outside the tolerance"


def _without_losses(comparison: Comparison) -> dict[str, object]:
    values = {field.name: getattr(comparison, field.name) for field in dataclasses.fields(comparison)}
    return {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
