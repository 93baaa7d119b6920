"""common/contract/algorithms: each algorithm against NumPy's sum, and its cost against its docstring."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import steps

EACH = pytest.mark.parametrize("name", ALGORITHMS)


def carried_out(algorithm, inputs):
    """Each rank's buffer after the algorithm's steps, with all messages of a step sent before any is received."""
    buffers = [each.copy() for each in inputs]
    for exchanges in steps(algorithm, len(inputs), len(inputs[0])):
        sent = {rank: buffers[rank][each.sent].copy() for rank, each in exchanges.items()}
        for rank, each in exchanges.items():
            if each.receive_from is not None:
                own = buffers[rank][each.received]
                own[:] = sent[each.receive_from] + own * each.adds
    return buffers


@EACH
@given(ranks=st.integers(1, 9), elements=st.integers(0, 30), seed=st.integers(0, 99))
def test_every_rank_ends_with_numpys_sum(name, ranks, elements, seed):
    inputs = np.random.default_rng(seed).integers(-1000, 1000, (ranks, elements))
    for buffer in carried_out(ALGORITHMS[name], [*inputs]):
        assert buffer.tolist() == inputs.sum(axis=0).tolist()


@EACH
@given(ranks=st.integers(1, 9), elements=st.integers(0, 30))
def test_a_message_has_the_same_place_at_both_ends_and_leaves_alone_what_is_sent_meanwhile(name, ranks, elements):
    for exchanges in steps(ALGORITHMS[name], ranks, elements):
        for rank, each in exchanges.items():
            if each.send_to is not None:
                assert rank != each.send_to
                assert exchanges[each.send_to].received == each.sent
            # What replaces a rank's own elements may arrive while these are still being sent.
            overlap = range(max(each.sent.start, each.received.start), min(each.sent.stop, each.received.stop))
            assert each.adds or not overlap


def cost(name, ranks):
    """The factors of alpha, S / beta and S / gamma: the longest chain of messages, each step by its slowest rank."""
    elements = 16 * ranks
    found = steps(ALGORITHMS[name], ranks, elements)
    shares = [
        (
            max(each.sent.stop - each.sent.start for each in step.values()),
            max((each.received.stop - each.received.start) * each.adds for each in step.values()),
        )
        for step in found
    ]
    return (len(found), *(Fraction(sum(column), elements) for column in zip(*shares, strict=True)))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_among_a_power_of_two_an_algorithm_costs_what_its_docstring_says(ranks):
    others, levels = Fraction(ranks - 1, ranks), math.ceil(math.log2(ranks))
    assert {name: cost(name, ranks) for name in ALGORITHMS} == {
        "ring": (2 * (ranks - 1), 2 * others, others),
        "recursive_doubling": (levels, levels, levels),
        "halving_doubling": (2 * levels, 2 * others, others),
        "binomial_tree": (2 * levels, 2 * levels, levels),
        "central_server": (2 * (ranks - 1), 2 * (ranks - 1), ranks - 1),
    }
