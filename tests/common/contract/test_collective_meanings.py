"""common/contract/collective_meanings.py: each meaning in plain Python, and messages by which a wrong result shows."""

from itertools import chain, combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.collective_meanings import MEANINGS, Collective, Messages, elements_of_rank
from common.declarations.sweep import Type

TYPES = get_args(Type)
RANKS = st.integers(2, 6)
CUT = ["scatter", "gather", "all_gather", "reduce_scatter", "all_to_all"]
SENDING = [each for each in Collective if each != "barrier"]

# From everybody's input as lists, the rank and the number of ranks: what the MPI standard, chapter 6, has the rank get.
IN_PLAIN_PYTHON = {
    "send_receive": lambda given, rank, ranks: given[0] if rank == ranks - 1 else None,
    "broadcast": lambda given, rank, ranks: given[0],
    "scatter": lambda given, rank, ranks: block(given[0], rank, ranks),
    "gather": lambda given, rank, ranks: [*chain(*given)] if rank == 0 else None,
    "all_gather": lambda given, rank, ranks: [*chain(*given)],
    "reduce": lambda given, rank, ranks: [sum(each) for each in zip(*given, strict=True)] if rank == 0 else None,
    "reduce_scatter": lambda given, rank, ranks: block([sum(each) for each in zip(*given, strict=True)], rank, ranks),
    "all_reduce": lambda given, rank, ranks: [sum(each) for each in zip(*given, strict=True)],
    "all_to_all": lambda given, rank, ranks: [*chain(*(block(each, rank, ranks) for each in given))],
    "barrier": lambda given, rank, ranks: None,
}


def block(values, rank, ranks):
    length = len(values) // ranks
    return values[rank * length : (rank + 1) * length]


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
@pytest.mark.parametrize("ranks", [2, 3, 100])
def test_bus_factors_are_those_of_nccl_tests(collective, ranks):
    """Bytes over S that nccl-tests' doc/PERFORMANCE.md has one rank's link carry."""
    share = (ranks - 1) / ranks
    factors = {"all_reduce": 2 * share} | dict.fromkeys(CUT, share)
    assert MEANINGS[collective].bus_factor(ranks) == pytest.approx(factors.get(collective, 1))


@given(st.sampled_from(sorted(Collective)), st.integers(0, 400), st.sampled_from([1, 2, 4, 8]), RANKS)
def test_ranks_put_in_whole_elements_that_make_up_the_size_or_nothing_is_measured(collective, size, item_bytes, ranks):
    elements = elements_of_rank(collective, size, item_bytes, ranks)
    if size % (item_bytes * (ranks if collective in CUT else 1)):
        assert elements is None
    else:
        assert elements * item_bytes * (ranks if collective in ("gather", "all_gather") else 1) == size


# Messages

MOST_ALIKE = 0.25
"""So many elements of a wrong result may be right by chance: int8 among eight ranks has 31 values to draw from."""


@given(
    st.sampled_from(SENDING),
    st.sampled_from(TYPES),
    st.integers(2, 8),
    st.integers(64, 1024),
    st.integers(0, 2**32),
    st.integers(0, 10_000),
)
def test_no_part_is_like_that_of_another_rank_or_call_or_shifted_by_a_place(
    collective, data_type, ranks, blocks, seed, call
):
    """So a result that lacks a rank, has one twice, swaps two or is shifted is wrong almost throughout."""
    size = blocks * ranks * np.dtype(data_type).itemsize
    messages = Messages(collective, size, data_type, ranks, seed)
    parts = [messages.of(rank, call) for rank in range(ranks)]
    assert {(part.dtype, len(part)) for part in parts} == {(messages.data_type, messages.elements)}
    for rank in range(ranks):
        found, expected = messages.expected(rank, call), MEANINGS[collective].results(parts, rank)
        assert found is expected is None or np.array_equal(found, expected)
    of_the_next_call = [messages.of(rank, call + 1) for rank in range(ranks)]
    pairs = [*combinations([np.zeros_like(parts[0]), *parts, *of_the_next_call], 2)]
    pairs += [(part, np.roll(part, 1)) for part in parts]
    assert max(np.mean(one == other) for one, other in pairs) <= MOST_ALIKE


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_the_largest_and_the_least_value_of_every_rank_add_up_exactly(data_type, ranks):
    messages = Messages(Collective.ALL_REDUCE, 8192, data_type, ranks, seed=0)
    for extreme in (np.max, np.min):
        value = extreme([messages.of(rank, 0) for rank in range(ranks)])
        total = np.sum(np.full(ranks, value), dtype=data_type)
        assert float(total) == ranks * float(value)
        assert float(value).is_integer()


@pytest.mark.parametrize("collective", SENDING)
@pytest.mark.parametrize("size_bytes", [8, 64])
def test_of_the_smallest_messages_no_call_is_like_the_one_before(collective, size_bytes):
    messages = Messages(collective, size_bytes, "float32", 2, seed=0)
    for rank in range(2):
        results = [messages.expected(rank, call) for call in range(26)]
        assert results[0] is None or not any(map(np.array_equal, results[1:], results))


def test_every_process_draws_the_same_of_a_size_that_the_ranks_divide():
    first, again, other = (Messages(Collective.ALL_REDUCE, 4096, "float32", 2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.of(1, 5), again.of(1, 5))
    assert np.mean(first.of(1, 5) == other.of(1, 5)) < MOST_ALIKE
    with pytest.raises(ValueError, match="12 bytes can't be divided among 2 ranks"):
        Messages(Collective.SCATTER, 12, "float32", 2, seed=0)


def test_backwards_the_last_rank_sends_to_the_first():
    messages = Messages(Collective.SEND_RECEIVE, 32, "float32", ranks=3, seed=0, backwards=True)
    assert np.array_equal(messages.expected(0, call=5), messages.of(2, call=5))
    assert messages.expected(1, call=5) is messages.expected(2, call=5) is None
