"""When synchronous SGD pays: what R workers do beside one of the baseline, and what the tutorials' formula says.

The formula is T_epoch = N / (R B) (T_comp + T_sync), so R workers would pay where T_sync / T_comp < R - 1. That takes
computing to be as fast beside R - 1 others as alone. T_comp(R) / T_comp(1) is called contention here.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.observations import answers
from common.observations.launches import CONFIGURATION
from common.records.metrics import fewest_batch
from common.records.training import Record
from reports.tables import columns

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"


def table(launches: pd.DataFrame, configurations: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each synchronous data-parallel cell of several workers, under weak scaling, whose base was measured.

    `launches` are those of `summaries`, `configurations` those of `decomposition`. Under weak scaling the ideal step is
    the baseline's.
    """
    # Those whose workers each have rows of their own.
    shards = launches["launch"].map({name: record.shards for name, record in records.items()})
    shared = launches[shards == launches["workers"]].drop_duplicates(CONFIGURATION)
    rows = configurations.merge(shared[CONFIGURATION], on=CONFIGURATION)
    rows = rows[rows["synchronous"] & (rows["scaling"] == "weak") & (rows["workers"] > 1)]
    rows = rows[rows["base_samples_per_second"].notna()]
    rows.columns = rows.columns.str.replace("exposed_seconds", "sync_seconds")
    share = rows["sync_seconds"] / rows["compute_seconds"]
    known = rows.assign(base_seconds=rows["batch"] / rows["base_samples_per_second"])
    known = known[["batch", "workers", "base_seconds", "contention", "sync_seconds"]]
    fewest = pd.Series([fewest_batch(*each) for each in known.itertuples(index=False)], rows.index, dtype=float)
    rows["verdict"] = answers.sides(rows, "ratio", 1, SURELY_DOES_NOT, SURELY_PAYS)
    rows["by_formula"], rows["with_contention"] = _pays(share, rows["workers"] - 1), _pays(fewest, rows["batch"])
    return columns.table("paying", rows.assign(sync_share=share, fewest_batch=fewest))


def _pays(values: pd.Series, limits: pd.Series) -> np.ndarray:
    """Whether it pays, which it does below a limit; empty where nothing tells."""
    return np.select([values.isna(), values < limits], ["", PAYS], DOES_NOT_PAY)
