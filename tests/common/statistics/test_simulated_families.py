"""common/statistics/paired.py on made-up families: how often the tests are wrong where launches drift and spread."""

import dataclasses
import math

import numpy as np
import pytest

from common.statistics import paired
from common.statistics.paired import FAMILY_ERROR, MARGIN

FAMILIES = 10_000

MOST = FAMILY_ERROR + 3 * math.sqrt(FAMILY_ERROR * (1 - FAMILY_ERROR) / FAMILIES)
"""The largest share of the families that can be wrong by chance, where 5 % are: three standard errors above."""

_SPREADS = (0.005, 0.02)
"""Standard deviations of the log rates of a simulated family's steadiest and least steady strategy."""

_DRIFT = 0.005
"""Standard deviation of the log rate's step from one simulated launch to the next, which all strategies share."""


def shares_of_wrong(families, rounds, margins_ahead):
    """In which share of families equal strategies are called different, and ones a margin apart or more alike.

    NaN where no two strategies are so. Each is some margins ahead of the slowest one, which is known. The machine
    drifts by a random walk from launch to launch, and a round's launches come in shuffled order; each strategy has a
    spread of its own.
    """
    generator, level = np.random.default_rng(0), np.array(margins_ahead)
    launches = (families, rounds, len(level))
    steps = generator.normal(0.0, _DRIFT, (families, rounds * len(level)))
    drift = generator.permuted(np.cumsum(steps, axis=1).reshape(launches), axis=2)
    logs = level * np.log1p(MARGIN) + drift + generator.normal(0.0, np.geomspace(*_SPREADS, len(level)), launches)
    one, other = np.triu_indices(len(level), k=1)
    ratios, same = logs[..., other] - logs[..., one], level[one] == level[other]
    found = paired.decide(ratios.mean(axis=1), ratios.std(axis=1, ddof=1), np.array(rounds), MARGIN)
    wrong = (found.different[:, same], found.alike[:, ~same])
    return [each.any(axis=1).mean() if each.shape[1] else math.nan for each in wrong]


@pytest.mark.parametrize("rounds", [6, 10])
@pytest.mark.parametrize(
    "margins_ahead",
    [(0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 2), (0,) * 6, (0, 0, 1, 1, 2, 2), (0, 1, 2, 3, 4, 5)],
)
def test_families_of_every_size_are_wrong_as_often_as_promised(rounds, margins_ahead):
    wrong = np.nanmax(shares_of_wrong(FAMILIES, rounds, margins_ahead))
    assert wrong <= MOST
    # Of two strategies the tests use up what they may be wrong.
    assert len(margins_ahead) > 2 or wrong > 0.03


def test_a_test_that_forgets_its_correction_is_found_by_the_families(monkeypatch):
    decide = paired.decide

    def uncorrected(means, deviations, counts, margin):
        each = decide(means[..., None], deviations[..., None], counts, margin)
        return dataclasses.replace(each, different=each.different[..., 0], alike=each.alike[..., 0])

    monkeypatch.setattr(paired, "decide", uncorrected)
    assert shares_of_wrong(500, 6, (0,) * 6)[0] > 0.2
    assert shares_of_wrong(500, 6, (0, 1, 2, 3, 4, 5))[1] > 0.1
