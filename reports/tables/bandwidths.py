"""The step of each strategy between virtual hosts, by the bandwidth of their link, and whether it pays there."""

from collections.abc import Mapping

import pandas as pd

from common.contract import mlp
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record
from reports.tables import pairs, summaries

FEWEST = 3
"""Bandwidths that make a sweep."""

_PLACE = ["regime", "hosts", "delay_seconds"]
_SWEEP = [*_PLACE, "workers"]


def table(
    launches: pd.DataFrame, cells: pd.DataFrame, records: Mapping[str, Record], plan: pd.DataFrame | None
) -> pd.DataFrame:
    """One row for each cell with exchange over virtual hosts whose links had at least three bandwidths.

    `launches` and `cells` are those of `summaries`.
    """
    # Real hosts have one link, which is no sweep.
    told = cells[cells["exchange"] & (cells["hosts"] > 1)]
    told = told.assign(own=summaries.without_hosts(told), is_chosen=told["bandwidth_bits_per_second"].notna())
    # As it was asked for, else as it was measured for that many hosts.
    measured = 8 * told["link_bytes_per_second"] * WIRE_BYTES / PAYLOAD_BYTES
    together = measured.where(~told["is_chosen"]).groupby([told[name] for name in _PLACE]).transform("median")
    told["bandwidth_bits_per_second"] = told["bandwidth_bits_per_second"].fillna(together)
    counts = told.groupby(_SWEEP)["bandwidth_bits_per_second"].transform("nunique")
    trained, rows = pairs.with_rounds(launches[launches["exchange"]], plan), []
    medians = trained.groupby(["work", "strategy", "workers", "round"])["samples_per_second"].median()
    rates = {key: own.droplevel([0, 1, 2]) for key, own in medians.groupby(level=[0, 1, 2])}
    nothing = pd.Series(dtype=float)
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    for cell in told[counts >= FEWEST].to_dict("records"):
        parameter_bytes = mlp.parameter_bytes(records[first[cell["regime"]]].task)
        # An asynchronous step is one worker's.
        workers = cell["workers"] if cell["synchronous"] else 1
        about = {
            "bound_seconds": ring_bound(parameter_bytes, cell["workers"], cell["bandwidth_bits_per_second"]),
            "base_seconds": cell["global_batch"] / workers / cell["base_samples_per_second"],
        }
        own = rates.get((cell["work"], cell["strategy"], cell["workers"]), nothing)
        ratios = (own / rates.get((cell["work"], cell["base"], 1), nothing)).dropna()
        rows.append(cell | about | dict(zip(("ratio", "low", "high", "rounds"), pairs.median(ratios), strict=True)))
    keys = ["regime", "own", "workers", "hosts", "delay_seconds", "bandwidth_bits_per_second"]
    return pd.DataFrame(rows).sort_values(keys) if rows else pd.DataFrame()


def ring_bound(parameter_bytes: int, workers: int, bits_per_second: float) -> float:
    """Seconds that a ring all-reduce of gradients as large as the parameters needs on a host's link at least.

    From each host 2 (N - 1) / N times their bytes go to the next one (Patarasuk & Yuan, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations", 2009, equation 1), however many of the N workers it has, and each 1448 of
    them take 1514 on Ethernet, as a full TCP segment with a time stamp.
    """
    payload = 2 * (workers - 1) / workers * parameter_bytes
    return 8 * payload * WIRE_BYTES / PAYLOAD_BYTES / bits_per_second


def paying(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each strategy with its options, hosts and workers: from which bandwidth on it pays.

    `found` are rows of `table`. `pays_from` is the smallest measured bandwidth at which, and at all above it, the whole
    interval of the ratio to one host is above 1; NaN where there is none. The row of the fastest link comes along, with
    `least_bits_per_second`, the slowest link, and `least_ratio`, the ratio there.
    """
    rows = []
    for _, group in found.groupby(["own", *_SWEEP]):
        ordered = group.sort_values("bandwidth_bits_per_second", ascending=False)
        above = (ordered["low"] > 1).cummin()
        pays_from = ordered.loc[above, "bandwidth_bits_per_second"].min()
        slowest = ordered.iloc[-1]
        least = {"least_bits_per_second": slowest["bandwidth_bits_per_second"], "least_ratio": slowest["ratio"]}
        rows.append(ordered.iloc[0].to_dict() | {"pays_from": pays_from} | least)
    return pd.DataFrame(rows)


def one_world(found: pd.DataFrame) -> pd.DataFrame:
    """Of as many hosts the rows with the fewest workers, so that a panel has one number of them."""
    fewest = found.groupby(_PLACE)["workers"].transform("min")
    return found[found["workers"] == fewest]
