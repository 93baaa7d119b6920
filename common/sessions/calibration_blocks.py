"""What the rounds of a calibration say of the tests that comparisons rest on."""

from dataclasses import dataclass

import numpy as np

from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import judge, smallest_difference

BLOCK = FEWEST_LAUNCHES
"""Rounds of a block in which equal strategies must not be told apart: as many as a quick comparison makes."""

LONG_BLOCK = 10
"""Rounds of a block in which busy work must be found: as many as a speed claim rests on."""

POWER = 0.9
"""In so many of the long blocks it must be found."""


@dataclass(frozen=True)
class Measured:
    """What the rounds of a calibration say."""

    rounds: int
    blocks: int
    """Disjoint blocks of six rounds."""
    alarms: int
    """Blocks in which the equal ones are called different."""
    alarms_bound: float
    """Upper end of the 95 % interval of such blocks' share (Clopper & Pearson 1934)."""
    spread: float
    """Standard deviation of the log ratios of the equal ones within rounds."""
    long_blocks: int
    """Disjoint blocks of ten rounds."""
    found: int
    """Blocks in which the one with busy work is called slower."""
    busy_share: float
    """By which share of the time of a step the busy one took longer: the median of all rounds."""
    smallest_difference: float
    """The share by which a rate must differ to be found in 90 % of blocks of ten rounds with this spread."""


def measured(first: np.ndarray, second: np.ndarray, busy: np.ndarray) -> Measured:
    """Judge the rounds of two equal strategies and one that is slower, from the rates of each, (rounds,).

    A block is a family of one comparison. The last rounds, where they don't fill a block, are in no block.
    """
    from scipy.stats import binomtest

    equal, slower = np.log(second / first), np.log(busy / first)
    alarms = [judge([block])[0].different for block in _blocks(equal, BLOCK)]
    long_blocks = [judge([block])[0] for block in _blocks(slower, LONG_BLOCK)]
    spread = float(np.std(equal, ddof=1))
    return Measured(
        rounds=len(equal),
        blocks=len(alarms),
        alarms=sum(alarms),
        alarms_bound=float(binomtest(sum(alarms), len(alarms)).proportion_ci(0.95, method="exact").high),
        spread=spread,
        long_blocks=len(long_blocks),
        found=sum(block.different and block.ratio < 1 for block in long_blocks),
        busy_share=float(np.median(first / busy)) - 1,
        smallest_difference=smallest_difference(spread, LONG_BLOCK, power=POWER),
    )


def _blocks(logs: np.ndarray, size: int) -> np.ndarray:
    """Disjoint blocks of so many rounds, (blocks, size)."""
    count = len(logs) // size
    return logs[: count * size].reshape(count, size)
