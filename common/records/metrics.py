"""Pure functions from raw records to numbers: throughput, speed-up, and when workers pay."""

import math
import statistics
from dataclasses import dataclass
from itertools import pairwise

from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record


@dataclass(frozen=True)
class Throughput:
    """What one launch's windows say: seconds of a typical step, samples per second of all workers, and how many."""

    seconds_per_step: float
    samples_per_second: float
    windows: int


def window_seconds_per_step(record: Record) -> list[float]:
    """Seconds per step of each clocked window, in order; the slowest rank of each sets its cost."""
    slowest: dict[int, float] = {}
    for window in record.windows:
        seconds = window.seconds / window.steps
        slowest[window.step] = max(seconds, slowest.get(window.step, 0.0))
    return [slowest[step] for step in sorted(slowest)]


def throughput(record: Record) -> Throughput:
    """The median window of a launch. Raises ValueError for a record without windows."""
    windows = window_seconds_per_step(record)
    if not windows:
        raise ValueError(f"The record of {record.strategy} has no windows: it is {record.status}.")
    seconds = statistics.median(windows)
    return Throughput(seconds, record.examples_per_step / seconds, len(windows))


def fewest_batch(batch: int, workers: int, base_seconds: float, contention: float, sync_seconds: float) -> float:
    """Rows per worker from which on R workers would pay, if contention and T_sync stayed as they are.

    With T_comp proportional to the rows, R workers have as many rows in a second as the base does at B* for which
    R T_comp(1) B* / B = c T_comp(1) B* / B + T_sync, c being contention. Infinite where c is R or more; 0 where
    exchange takes no time. NaN without contention or T_sync.
    """
    if math.isnan(contention) or math.isnan(sync_seconds):
        return math.nan
    if contention >= workers:
        return math.inf
    return max(0.0, batch * sync_seconds / (base_seconds * (workers - contention)))


def ring_bound(parameter_bytes: int, workers: int, bits_per_second: float) -> float:
    """Seconds that a ring all-reduce of gradients as large as the parameters needs on a host's link at least.

    From each host 2 (N - 1) / N times their bytes go to the next one (Patarasuk & Yuan, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations", 2009, equation 1), however many of the N workers it has, and each 1448 of
    them take 1514 on Ethernet, as a full TCP segment with a time stamp.
    """
    payload = 2 * (workers - 1) / workers * parameter_bytes
    return 8 * payload * WIRE_BYTES / PAYLOAD_BYTES / bits_per_second


def saving_cost(record: Record) -> tuple[float, float] | None:
    """Seconds for each checkpoint on the way, and the share of the clocked training that all take.

    Rank 0 stands still for so much longer between two windows where it saves one; between others it reads losses, as it
    does there. None where nothing tells.
    """
    clocked = [
        (each.step, each.started_seconds, each.started_seconds + each.seconds)
        for each in record.windows
        if each.rank == 0 and each.started_seconds is not None
    ]
    every, gaps = record.task.checkpoint_steps, {True: list[float](), False: list[float]()}
    for (_, _, end), (step, start, _) in pairwise(clocked):
        gaps[bool(every) and step % every == 0].append(start - end)
    if not all(gaps.values()):
        return None
    seconds = statistics.median(gaps[True]) - statistics.median(gaps[False])
    return seconds, seconds * len(gaps[True]) / (clocked[-1][2] - clocked[0][1])
