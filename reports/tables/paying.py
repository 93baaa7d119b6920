"""When synchronous SGD pays: measured epochs of R workers beside the base's, and what the tutorials' formula says.

The formula is T_epoch = N / (R B) (T_comp + T_sync), so R workers would pay where T_sync / T_comp < R - 1. That takes
computing to be as fast beside R - 1 others as alone. T_comp(R) / T_comp(1) is called contention here.
"""

import math
import re
from collections.abc import Mapping

import pandas as pd

from common.contract import dataset
from common.contract.task import Task
from common.errors import UserError
from common.records.metrics import fewest_batch
from common.records.training import Record
from reports.tables import pairs

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"
_OF_A_CELL = ("regime", "strategy", "placement", "hosts", "workers", "oversubscribed", "batch", "base")
_COLUMNS = (
    *(*_OF_A_CELL, "rows", "epoch_seconds", "base_epoch_seconds", "ratio", "low", "high", "n", "measured"),
    *("base_seconds", "compute_seconds", "contention", "contention_low", "contention_high", "contention_n"),
    *("sync_seconds", "sync_low", "sync_high", "sync_n", "sync_share", "formula", "with_contention", "fewest_batch"),
)

_Rounds = dict[tuple[str, str, str, int, bool], pd.Series]
"""By work, regime, strategy, workers and exchange the seconds per step, by round."""


def table(
    launches: pd.DataFrame,
    cells: pd.DataFrame,
    split: pd.DataFrame,
    records: Mapping[str, Record],
    plan: pd.DataFrame | None,
) -> pd.DataFrame:
    """One row for each synchronous data-parallel cell of several workers, under weak scaling, whose base was measured.

    `launches`, `cells` and `split` are those of `summaries` (`time_split`). An epoch is all `rows` of the training set,
    of which each worker gets `batch` in a step; `rows` and both epochs are NaN where the set isn't to be had here.
    `ratio` is the base's epoch over this one: the median over `n` rounds that have both, with its order-statistic
    interval, NaN below six; `measured` is what that says. `base_seconds` is T_comp(1), `compute_seconds` T_comp(R),
    `contention` the median of the second over the first within rounds, `sync_seconds` T_sync, the exposed communication
    of `split`, `sync_share` T_sync / T_comp(R). `formula` is the tutorials' verdict, `with_contention` the same with
    contention as it was measured, and `fewest_batch` what `metrics.fewest_batch` gives; NaN, or empty, where no launch
    without exchange shares a round. Raises UserError for a damaged task.
    """
    if cells.empty:
        return pd.DataFrame(columns=[*_COLUMNS])
    shared = _is_data_parallel(launches, records)
    is_told = cells["exchange"].astype(bool) & cells["synchronous"].astype(bool) & (cells["scaling"] == "weak")
    is_told &= (cells["workers"] > 1) & cells["base_samples_per_second"].notna()
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    rounds, counts, rows = _rounds(launches, plan), {}, []
    parted = {(row["regime"], row["strategy"], row["workers"]): row for row in split.to_dict("records")}
    for cell in cells[is_told].to_dict("records"):
        key = (cell["regime"], cell["strategy"], cell["workers"])
        if key not in shared:
            continue
        about = {name: cell[name] for name in _OF_A_CELL}
        about |= _epochs(cell, _training_rows(records[first[cell["regime"]]].task, counts))
        rows.append(about | _account(cell, _over_base(cell, rounds), parted.get(key, {"exposed_n": 0})))
    return pd.DataFrame(rows, columns=[*_COLUMNS])


def but_for_batch(options: str) -> str:
    """A regime, or a task in options, without its batch and without the lengths that are chosen by it."""
    return re.sub(r" --(batch|steps|warmup-steps|window-steps) \d+", "", options)


def _is_data_parallel(launches: pd.DataFrame, records: Mapping[str, Record]) -> set[tuple[str, str, int]]:
    """Regime, strategy and workers of the launches whose workers each have rows of their own."""
    keys = zip(launches["regime"], launches["strategy"], launches["workers"], launches["launch"], strict=True)
    return {tuple(key) for *key, launch in keys if records[launch].shards == records[launch].world_size}


def _rounds(launches: pd.DataFrame, plan: pd.DataFrame | None) -> _Rounds:
    keys = ["work", "regime", "strategy", "workers", "exchange"]
    times = pairs.with_rounds(launches, plan).groupby([*keys, "round"])["seconds"].median()
    return {key: own.droplevel(keys) for key, own in times.groupby(level=keys)}


def _training_rows(task: Task, counts: dict[tuple[str, int, int], float]) -> float:
    """Rows of the task's training set, NaN where it isn't to be had here; `counts` has those that were asked for."""
    key = (task.preset, task.dimensions[0], task.dimensions[-1])
    if key not in counts:
        try:
            counts[key] = float(len(dataset.load(task).train_labels))
        except UserError:
            counts[key] = math.nan
    return counts[key]


def _epochs(cell: Mapping[str, object], rows: float) -> dict[str, float]:
    return {
        **{"rows": rows, "epoch_seconds": rows / cell["samples_per_second"]},
        "base_epoch_seconds": rows / cell["base_samples_per_second"],
    }


def _over_base(cell: Mapping[str, object], rounds: _Rounds) -> dict[str, object]:
    """The columns on the ratio of the epochs and on contention, from the rounds that a cell shares with its base."""
    nothing = pd.Series(dtype=float)
    bases = [key for key in rounds if (key[0], *key[2:]) == (cell["work"], cell["base"], 1, True)]
    # As the cells choose it: the base of the same regime, else of the other scaling, where it is the same work.
    base = rounds[min(bases, key=lambda key: key[1] != cell["regime"])] if bases else nothing
    own = (cell["work"], cell["regime"], cell["strategy"], cell["workers"])
    step, alone = (rounds.get((*own, exchange), nothing) for exchange in (True, False))
    ratio, low, high, n = pairs.median((cell["workers"] * base / step).dropna())
    contention, contention_low, contention_high, contention_n = pairs.median((alone / base).dropna())
    return {
        **{"ratio": ratio, "low": low, "high": high, "n": n},
        "measured": pairs.side(low, high, n, 1, (SURELY_DOES_NOT, SURELY_PAYS)),
        **{"contention": contention, "contention_low": contention_low, "contention_high": contention_high},
        "contention_n": contention_n,
    }


def _account(
    cell: Mapping[str, object], over_base: Mapping[str, object], parts: Mapping[str, object]
) -> dict[str, object]:
    """`over_base` with the times of the formula, by the row of `time_split`, and what the formula makes of them."""
    workers, contention, nothing = cell["workers"], over_base["contention"], math.nan
    base_seconds = cell["batch"] / cell["base_samples_per_second"]
    names = {"compute_seconds": "compute_seconds", "sync_seconds": "exposed_seconds"}
    names |= {"sync_low": "exposed_low", "sync_high": "exposed_high"}
    times = {name: parts[key] if parts["exposed_n"] else nothing for name, key in names.items()}
    share = times["sync_seconds"] / times["compute_seconds"]
    fewest = fewest_batch(cell["batch"], workers, base_seconds, contention, times["sync_seconds"])
    return {
        **over_base,
        **times,
        **{"base_seconds": base_seconds, "sync_n": parts["exposed_n"], "sync_share": share, "fewest_batch": fewest},
        "formula": "" if math.isnan(share) else PAYS if share < workers - 1 else DOES_NOT_PAY,
        "with_contention": "" if math.isnan(fewest) else PAYS if fewest < cell["batch"] else DOES_NOT_PAY,
    }
