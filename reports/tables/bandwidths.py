"""The step of each strategy between virtual hosts, by the bandwidth of their link, and whether it pays there."""

from collections.abc import Mapping

import pandas as pd

from common.contract import model
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record
from reports.tables import summaries

FEWEST = 3  # Bandwidths that make a sweep.
_PLACE = ["regime", "hosts", "delay_seconds"]
_SWEEP = [*_PLACE, "workers"]


def table(configurations: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
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


def ring_bound(parameter_bytes: int, workers: int, bits_per_second: float) -> float:
    """Seconds that a ring all-reduce of gradients as large as the parameters needs on a host's link at least.

    From each host 2 (N - 1) / N times their bytes go to the next one (Patarasuk & Yuan, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations", 2009, equation 1), however many of the N workers it has, and each 1448 of
    them take 1514 on Ethernet, as a full TCP segment with a time stamp.
    """
    payload = 2 * (workers - 1) / workers * parameter_bytes
    return 8 * payload * WIRE_BYTES / PAYLOAD_BYTES / bits_per_second
