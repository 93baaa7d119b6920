"""What a calibration's rounds say of the tests, and what the tests say of families that are made up by the thousand."""

from dataclasses import dataclass

import numpy as np

from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MARGIN, Decisions, decide, judge, smallest_difference

BLOCK = FEWEST_LAUNCHES
"""Rounds of a block in which equal strategies must not be told apart: as many as a quick comparison makes."""

LONG_BLOCK = 10
"""Rounds of a block in which busy work must be found: as many as a speed claim rests on."""

POWER = 0.9
"""In so many of the long blocks it must be found."""

SIMULATED = tuple((strategies, rounds) for strategies in (2, 3, 6) for rounds in (BLOCK, LONG_BLOCK))
"""Sizes of the simulated families: strategies, whose pairs are 1, 3 or 15 comparisons, and rounds."""

_SPREADS = (0.005, 0.02)
"""Standard deviations of the log rates of a simulated family's steadiest and least steady strategy."""

_DRIFT = 0.005
"""Standard deviation of the log rate's step from one simulated launch to the next, which all strategies share."""


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


@dataclass(frozen=True)
class Simulated:
    """In which share of simulated families the tests were wrong; NaN where no comparison could be."""

    truth: str
    """How far the strategies are apart."""
    strategies: int
    rounds: int
    false_different: float
    """Equal ones were called different."""
    false_alike: float
    """Ones that are the margin apart, or more, were called alike."""


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


def simulate(families: int, generator: np.random.Generator) -> list[Simulated]:
    """Test so many made-up families of each size, whose truth is known, with the tests of every comparison.

    The machine drifts by a random walk from launch to launch, and a round's launches come in shuffled order; each
    strategy has a spread of its own. Strategies are all equal, equal in pairs, or all a margin apart from the next one.
    """
    found = []
    for strategies, rounds in SIMULATED:
        each = np.arange(strategies)
        truths = {"all equal": 0 * each, "equal in pairs": each // 2, "a margin apart": each}
        # Two strategies that are equal in pairs are all equal.
        for truth in [name for name in truths if strategies > 2 or name != "equal in pairs"]:
            level = truths[truth]
            logs = _simulated_logs(families, rounds, level * np.log1p(MARGIN), generator)
            one, other = np.triu_indices(strategies, k=1)
            decisions, same = _decisions(logs[..., other] - logs[..., one]), level[one] == level[other]
            wrong = [_share_of_any(decisions.different[:, same]), _share_of_any(decisions.alike[:, ~same])]
            found.append(Simulated(truth, strategies, rounds, *wrong))
    return found


def _blocks(logs: np.ndarray, size: int) -> np.ndarray:
    """Disjoint blocks of so many rounds, (blocks, size)."""
    count = len(logs) // size
    return logs[: count * size].reshape(count, size)


def _simulated_logs(families: int, rounds: int, truth: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Log rates of every launch, (families, rounds, strategies)."""
    launches = (families, rounds, len(truth))
    steps = generator.normal(0.0, _DRIFT, (families, rounds * len(truth)))
    drift = generator.permuted(np.cumsum(steps, axis=1).reshape(launches), axis=2)
    return truth + drift + generator.normal(0.0, np.geomspace(*_SPREADS, len(truth)), launches)


def _decisions(logs: np.ndarray) -> Decisions:
    """What the tests say of log ratios, (families, rounds, comparisons)."""
    return decide(logs.mean(axis=1), logs.std(axis=1, ddof=1), np.array(logs.shape[1]), MARGIN)


def _share_of_any(wrong: np.ndarray) -> float:
    """The share of families (families, comparisons) that have any; NaN without comparisons."""
    return float(wrong.any(axis=1).mean()) if wrong.shape[1] else float("nan")
