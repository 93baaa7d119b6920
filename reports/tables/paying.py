"""When synchronous SGD pays: measured epochs of R workers beside the base's, and what the tutorials' formula says.

The formula is T_epoch = N / (R B) (T_comp + T_sync), so R workers would pay where T_sync / T_comp < R - 1. That takes
computing to be as fast beside R - 1 others as alone. T_comp(R) / T_comp(1) is called contention here.
"""

import math
from collections.abc import Mapping

import pandas as pd

from common.contract import dataset
from common.contract.task import Task
from common.errors import UserError
from common.records.metrics import fewest_batch
from common.records.training import Record
from reports.tables import columns, pairs
from reports.tables.decomposition import Configuration, Step, Steps, configuration

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"


def table(launches: pd.DataFrame, cells: pd.DataFrame, steps: Steps, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each synchronous data-parallel cell of several workers, under weak scaling, whose base was measured.

    `launches` and `cells` are those of `summaries`, `steps` those of `decompose`. An epoch is all `rows` of the
    training set, of which each worker gets `batch` in a step; `rows` and both epochs are NaN where the set isn't to be
    had here. What an exchange takes, and what follows of it, is NaN, or empty, where no launch without exchange shares
    a round. Raises UserError for a damaged task.
    """
    shared, trains = _data_parallel(launches, records), cells["exchange"]
    computing = {configuration(cell): cell["seconds"] for cell in cells[~trains].to_dict("records")}
    of_several = trains & cells["synchronous"] & (cells["scaling"] == "weak") & (cells["workers"] > 1)
    first, counts, rows = launches.drop_duplicates("regime").set_index("regime")["launch"], {}, []
    for cell in cells[of_several & cells["base_samples_per_second"].notna()].to_dict("records"):
        key = configuration(cell)
        if key in shared:
            of_training = _training_rows(records[first[cell["regime"]]].task, counts)
            epochs = {"epoch_seconds": of_training / cell["samples_per_second"], "rows": of_training}
            epochs["base_epoch_seconds"] = of_training / cell["base_samples_per_second"]
            account = _account(cell, steps[key], computing.get(key, math.nan))
            rows.append(cell | epochs | account)
    return columns.table("paying", rows)


def _data_parallel(launches: pd.DataFrame, records: Mapping[str, Record]) -> set[Configuration]:
    """The configurations of the launches whose workers each have rows of their own."""
    keys = zip(*(launches[name] for name in (*Configuration._fields, "launch")), strict=True)
    return {Configuration(*key) for *key, launch in keys if records[launch].shards == records[launch].world_size}


def _training_rows(task: Task, counts: dict[tuple[str, int, int], float]) -> float:
    """Rows of the task's training set, NaN where it isn't to be had here; `counts` has those that were asked for."""
    key = (task.preset, task.dimensions[0], task.dimensions[-1])
    if key not in counts:
        try:
            counts[key] = float(len(dataset.load(task).train_labels))
        except UserError:
            counts[key] = math.nan
    return counts[key]


def _account(cell: Mapping[str, object], step: Step, compute_seconds: float) -> dict[str, object]:
    """What the rounds say of epochs, contention and exchange, and what the formula makes of that.

    Under weak scaling the ideal step is the baseline's.
    """
    workers, base_seconds = cell["workers"], cell["batch"] / cell["base_samples_per_second"]
    ratio, low, high, n = pairs.median((workers * step.ideal["seconds"] / step.trained["seconds"]).dropna())
    contention = pairs.medians("contention", (step.computed["seconds"] / step.ideal["seconds"]).dropna(), measure="")
    sync = pairs.medians("sync", step.exposed)
    share = sync["sync_seconds"] / compute_seconds
    fewest = fewest_batch(cell["batch"], workers, base_seconds, contention["contention"], sync["sync_seconds"])
    return {
        **{"ratio": ratio, "low": low, "high": high, "n": n},
        "measured": pairs.side(low, high, n, 1, (SURELY_DOES_NOT, SURELY_PAYS)),
        "base_seconds": base_seconds,
        "compute_seconds": compute_seconds if sync["sync_n"] else math.nan,
        **contention,
        **sync,
        "sync_share": share,
        "formula": "" if math.isnan(share) else PAYS if share < workers - 1 else DOES_NOT_PAY,
        "with_contention": "" if math.isnan(fewest) else PAYS if fewest < cell["batch"] else DOES_NOT_PAY,
        "fewest_batch": fewest,
    }
