"""From where on distributing pays: each strategy's step by the bandwidth of the link, and by the network it trains."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.contract import model
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.records.metrics import ring_bound
from common.records.training import Record
from reports.tables import columns, summaries

FEWEST = 3  # Bandwidths, or networks, that make a sweep.
_PLACE = ["regime", "hosts", "delay_seconds"]
_SWEEP = [*_PLACE, "workers"]


def bandwidths(configurations: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each configuration over virtual hosts whose links had at least three bandwidths.

    `configurations` are those of `decomposition`, `launches` those of `summaries`.
    """
    # Real hosts have one link, which is no sweep.
    sweeps = configurations[configurations["hosts"] > 1]
    sweeps = sweeps.assign(own=summaries.without_hosts(sweeps), is_chosen=sweeps["bandwidth_bits_per_second"].notna())
    # As it was asked for, else as it was measured for that many hosts.
    measured = 8 * sweeps["link_bytes_per_second"] * WIRE_BYTES / PAYLOAD_BYTES
    together = measured.where(~sweeps["is_chosen"]).groupby([sweeps[name] for name in _PLACE]).transform("median")
    bandwidth = sweeps["bandwidth_bits_per_second"].fillna(together)
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    sizes = sweeps["regime"].map(lambda regime: model.parameter_bytes(records[first[regime]].task))
    # An asynchronous step is one worker's.
    rows = sweeps["global_batch"] / sweeps["workers"].where(sweeps["synchronous"], 1)
    sweeps = sweeps.assign(
        bandwidth_bits_per_second=bandwidth,
        bound_seconds=[ring_bound(*each) for each in zip(sizes, sweeps["workers"], bandwidth, strict=True)],
        base_seconds=rows / sweeps["base_samples_per_second"],
    )
    counts = sweeps.groupby(_SWEEP)["bandwidth_bits_per_second"].transform("nunique")
    keys = ["regime", "own", "workers", "hosts", "delay_seconds", "bandwidth_bits_per_second"]
    return sweeps[counts >= FEWEST].sort_values(keys)


def networks(cells: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each synchronous cell of several workers under weak scaling whose base was measured.

    Empty where fewer than FEWEST networks were measured, or one kind of network alone. `line` is NaN for a strategy
    with fewer. It pays from `pays_from` operations per byte on: NaN where it never does, 0 where it always does.

    A step of R workers takes c times what one of the base takes, and k for each byte of the gradients. The base's step
    takes as long as it has operations, so over x operations per byte R / speed-up = c + k / x. For each strategy c and
    k are fitted to its networks by least squares.
    """
    rows = cells[cells["exchange"] & cells["synchronous"] & cells["same_maths"] & (cells["scaling"] == "weak")]
    rows = rows[(rows["workers"] > 1) & rows["speed_up"].notna()]
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    tasks = [records[first[regime]].task for regime in rows["regime"]]
    operations = [model.operations(task) * task.batch / model.parameter_bytes(task) for task in tasks]
    rows = rows.assign(network=[task.preset for task in tasks], operations_per_byte=operations)
    if rows["operations_per_byte"].nunique() < FEWEST or len({task.model for task in tasks}) < 2:
        rows = rows[:0]
    step = rows["speed_up"] * rows["seconds"]
    rows["low"], rows["high"] = step / rows["high_seconds"], step / rows["low_seconds"]
    for (_, workers), group in rows.groupby(["strategy", "workers"]):
        x = group["operations_per_byte"]
        if x.nunique() >= FEWEST:
            per_byte, contention = np.polyfit(1 / x, workers / group["speed_up"], 1)
            rows.loc[group.index, "line"] = workers / (contention + per_byte / x)
            if contention < workers:
                rows.loc[group.index, "pays_from"] = max(0.0, per_byte / (workers - contention))
    return columns.table("networks", rows.sort_values(["strategy", "workers", "operations_per_byte"]))
