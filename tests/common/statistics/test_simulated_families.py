"""common/statistics/paired.py on made-up families: how often the tests are wrong where launches drift and spread."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest

from common.statistics import paired
from common.statistics.paired import FAMILY_ERROR, MARGIN, Decisions

FAMILIES = 10_000

MOST = FAMILY_ERROR + 3 * math.sqrt(FAMILY_ERROR * (1 - FAMILY_ERROR) / FAMILIES)
"""The largest share of the families that can be wrong by chance, where 5 % are: three standard errors above."""

SIZES = tuple((strategies, rounds) for strategies in (2, 3, 6) for rounds in (6, 10))
"""Sizes of the simulated families: strategies, whose pairs are 1, 3 or 15 comparisons, and rounds."""

_SPREADS = (0.005, 0.02)
"""Standard deviations of the log rates of a simulated family's steadiest and least steady strategy."""

_DRIFT = 0.005
"""Standard deviation of the log rate's step from one simulated launch to the next, which all strategies share."""


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


def simulate(families: int, generator: np.random.Generator) -> list[Simulated]:
    """Test so many made-up families of each size, whose truth is known, with the tests of every comparison.

    The machine drifts by a random walk from launch to launch, and a round's launches come in shuffled order; each
    strategy has a spread of its own. Strategies are all equal, equal in pairs, or all a margin apart from the next one.
    """
    found = []
    for strategies, rounds in SIZES:
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


def _simulated_logs(families: int, rounds: int, truth: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Log rates of every launch, (families, rounds, strategies)."""
    launches = (families, rounds, len(truth))
    steps = generator.normal(0.0, _DRIFT, (families, rounds * len(truth)))
    drift = generator.permuted(np.cumsum(steps, axis=1).reshape(launches), axis=2)
    return truth + drift + generator.normal(0.0, np.geomspace(*_SPREADS, len(truth)), launches)


def _decisions(logs: np.ndarray) -> Decisions:
    """What the tests say of log ratios, (families, rounds, comparisons)."""
    return paired.decide(logs.mean(axis=1), logs.std(axis=1, ddof=1), np.array(logs.shape[1]), MARGIN)


def _share_of_any(wrong: np.ndarray) -> float:
    """The share of families (families, comparisons) that have any; NaN without comparisons."""
    return float(wrong.any(axis=1).mean()) if wrong.shape[1] else float("nan")


@pytest.fixture(scope="module")
def families():
    return simulate(FAMILIES, np.random.default_rng(0))


def test_families_of_every_size_are_wrong_as_often_as_promised(families):
    assert {(each.strategies, each.rounds) for each in families} == {*SIZES}
    wrong = [rate for each in families for rate in (each.false_different, each.false_alike)]
    assert np.nanmax(wrong) <= MOST
    alone = [max(each.false_different, each.false_alike) for each in families if each.strategies == 2]
    assert len(alone) == 4
    assert all(np.isnan(alone) | (np.array(alone) > 0.03))


def test_a_test_that_forgets_its_correction_is_found_by_the_families(monkeypatch):
    decide = paired.decide

    def uncorrected(means, deviations, counts, margin):
        each = decide(means[..., None], deviations[..., None], counts, margin)
        return dataclasses.replace(each, different=each.different[..., 0], alike=each.alike[..., 0])

    monkeypatch.setattr(paired, "decide", uncorrected)
    found = {(each.truth, each.strategies): each for each in simulate(500, np.random.default_rng(0))}
    assert found["all equal", 6].false_different > 0.2
    assert found["a margin apart", 6].false_alike > 0.1
