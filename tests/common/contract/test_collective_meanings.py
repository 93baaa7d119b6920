"""common/contract/collective_meanings.py: each meaning against one that is told element by element, in plain Python."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.collective_meanings import MEANINGS, Collective, elements_of_rank

RANKS = st.integers(2, 6)
ITEM_BYTES = st.sampled_from([1, 2, 4, 8])

# From everybody's input as lists, the rank and the number of ranks: what the MPI standard, chapter 6, has the rank get.
IN_PLAIN_PYTHON = {
    "send_receive": lambda given, rank, ranks: given[0] if rank == ranks - 1 else None,
    "broadcast": lambda given, rank, ranks: given[0],
    "scatter": lambda given, rank, ranks: block(given[0], rank, ranks),
    "gather": lambda given, rank, ranks: one_after_another(given) if rank == 0 else None,
    "all_gather": lambda given, rank, ranks: one_after_another(given),
    "reduce": lambda given, rank, ranks: [sum(each) for each in zip(*given, strict=True)] if rank == 0 else None,
    "reduce_scatter": lambda given, rank, ranks: block([sum(each) for each in zip(*given, strict=True)], rank, ranks),
    "all_reduce": lambda given, rank, ranks: [sum(each) for each in zip(*given, strict=True)],
    "all_to_all": lambda given, rank, ranks: one_after_another([block(each, rank, ranks) for each in given]),
    "barrier": lambda given, rank, ranks: None,
}

# Bytes over S that nccl-tests' doc/PERFORMANCE.md has one rank's link carry.
BUS_FACTORS = {
    "send_receive": lambda n: Fraction(1),
    "broadcast": lambda n: Fraction(1),
    "scatter": lambda n: Fraction(n - 1, n),
    "gather": lambda n: Fraction(n - 1, n),
    "all_gather": lambda n: Fraction(n - 1, n),
    "reduce": lambda n: Fraction(1),
    "reduce_scatter": lambda n: Fraction(n - 1, n),
    "all_reduce": lambda n: Fraction(2 * (n - 1), n),
    "all_to_all": lambda n: Fraction(n - 1, n),
    "barrier": lambda n: Fraction(1),
}

# How many of the S bytes one rank puts in.
BYTES_IN = {"gather": lambda size, ranks: size // ranks, "all_gather": lambda size, ranks: size // ranks}
CUT = {"scatter", "gather", "all_gather", "reduce_scatter", "all_to_all"}


def block(values, rank, ranks):
    length = len(values) // ranks
    return [values[rank * length + place] for place in range(length)]


def one_after_another(lists):
    return [value for each in lists for value in each]


def test_every_collective_has_a_meaning_and_is_tested_and_a_barrier_sends_nothing():
    assert set(MEANINGS) == set(Collective)
    assert set(IN_PLAIN_PYTHON) == set(BUS_FACTORS) == {str(each) for each in Collective}
    assert elements_of_rank(Collective.BARRIER, 0, 4, 3) == 0


@pytest.mark.parametrize("collective", Collective)
@given(RANKS, st.integers(1, 3), st.data())
def test_what_every_rank_has_afterwards_is_what_plain_python_says(collective, ranks, blocks, data):
    values = st.lists(st.integers(-1000, 1000), min_size=ranks * blocks, max_size=ranks * blocks)
    given_by_rank = data.draw(st.lists(values, min_size=ranks, max_size=ranks))
    parts = [np.array(each, dtype="int32") for each in given_by_rank]
    for rank in range(ranks):
        found = MEANINGS[collective].results(parts, rank)
        expected = IN_PLAIN_PYTHON[collective](given_by_rank, rank, ranks)
        assert (found if found is None else found.tolist()) == expected
        assert found is None or found.dtype == np.int32


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 100])
def test_bus_factors_are_those_of_nccl_tests(collective, ranks):
    assert MEANINGS[collective].bus_factor(ranks) == pytest.approx(float(BUS_FACTORS[collective](ranks)))


@given(st.sampled_from(sorted(Collective)), st.integers(1, 400), ITEM_BYTES, RANKS)
def test_ranks_put_in_whole_elements_that_make_up_the_size_or_nothing_is_measured(collective, size, item_bytes, ranks):
    elements = elements_of_rank(collective, size, item_bytes, ranks)
    shares = ranks if collective in CUT else 1
    if size % (item_bytes * shares):
        assert elements is None
    else:
        bytes_in = BYTES_IN.get(collective, lambda size, ranks: size)(size, ranks)
        assert elements * item_bytes == bytes_in
