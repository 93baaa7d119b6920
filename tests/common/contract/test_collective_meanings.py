"""common/contract/collective_meanings.py: each meaning in plain Python, and messages by which a wrong result shows."""

from dataclasses import dataclass
from itertools import combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.collective_meanings import MEANINGS, Collective, Messages, elements_of_rank
from common.declarations.sweep import Type

TYPES = get_args(Type)
RANKS = st.integers(2, 6)
SUMS = ["reduce", "reduce_scatter", "all_reduce"]
CUT = ["scatter", "gather", "all_gather", "reduce_scatter", "all_to_all"]
SENDING = [each for each in Collective if each != "barrier"]

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
    **dict.fromkeys(Collective, lambda n: 1),
    **dict.fromkeys(CUT, lambda n: (n - 1) / n),
    "all_reduce": lambda n: 2 * (n - 1) / n,
}


def block(values, rank, ranks):
    length = len(values) // ranks
    return values[rank * length : (rank + 1) * length]


def one_after_another(lists):
    return [value for each in lists for value in each]


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
    assert MEANINGS[collective].bus_factor(ranks) == pytest.approx(BUS_FACTORS[collective](ranks))


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


@dataclass(frozen=True)
class Case:
    """One call of a collective, and two of its ranks."""

    messages: Messages
    call: int
    one: int
    other: int

    @property
    def parts(self):
        """What every rank puts in."""
        return [self.messages.of(rank, self.call) for rank in range(self.messages.ranks)]

    def expected(self, call=None):
        """What every rank is to have after this call or another one."""
        return [
            self.messages.expected(rank, self.call if call is None else call) for rank in range(self.messages.ranks)
        ]

    def results_but(self, changed):
        """What every rank has of these parts, of which those by rank are changed."""
        parts = [changed.get(rank, part) for rank, part in enumerate(self.parts)]
        return [MEANINGS[self.messages.collective].results(parts, rank) for rank in range(len(parts))]

    def shares_right(self, results):
        """Of each rank that gets anything, how much of this result is right."""
        pairs = zip(results, self.expected(), strict=True)
        return [np.mean(result == expected) for result, expected in pairs if expected is not None]


@st.composite
def cases(draw, collectives):
    """Calls in which every rank has 64 elements or more from each other one, or for it."""
    ranks = draw(st.integers(2, 8))
    data_type, collective = draw(st.sampled_from(TYPES)), Collective(draw(st.sampled_from(collectives)))
    size = draw(st.integers(64, 1024)) * ranks * np.dtype(data_type).itemsize
    one, other = draw(st.permutations(range(ranks)))[:2]
    messages = Messages(collective, size, data_type, ranks, seed=draw(st.integers(0, 2**32)))
    return Case(messages, draw(st.integers(1, 10_000)), one, other)


@given(cases(SENDING))
def test_every_rank_puts_in_elements_of_the_type_and_is_to_have_what_the_collective_makes_of_them(case):
    assert {(part.dtype, len(part)) for part in case.parts} == {(case.messages.data_type, case.messages.elements)}
    assert {*case.shares_right(case.results_but({}))} == {1.0}


@given(cases(SENDING))
def test_no_two_ranks_and_no_two_calls_have_the_same_part(case):
    parts = case.parts + [case.messages.of(rank, case.call + 1) for rank in range(case.messages.ranks)]
    assert max(np.mean(one == other) for one, other in combinations(parts, 2)) <= MOST_ALIKE


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_the_largest_and_the_least_value_of_every_rank_add_up_exactly(data_type, ranks):
    messages = Messages(Collective.ALL_REDUCE, 8192, data_type, ranks, seed=0)
    for extreme in (np.max, np.min):
        value = extreme([messages.of(rank, 0) for rank in range(ranks)])
        total = np.sum(np.full(ranks, value), dtype=data_type)
        assert float(total) == ranks * float(value)
        assert float(value).is_integer()


def lacking(case):
    return case.results_but({case.one: np.zeros_like(case.parts[0])})


def twice(case):
    return case.results_but({case.one: case.parts[case.other]})


def counted_twice(case):
    return case.results_but({case.one: case.parts[case.one] * 2})


def of_another_root(case):
    return case.results_but({0: case.parts[case.one or case.other]})


def shifted(places):
    return lambda case: [result if result is None else np.roll(result, places) for result in case.expected()]


# By what is wrong: of which collectives, and what every rank has then. Of those that put parts one after another there
# is no more to say than that no two parts are alike.
WRONG = {
    "a sum lacks a rank": (SUMS, lacking),
    "a sum has a rank in another's place": (SUMS, twice),
    "a sum has a rank once more": (SUMS, counted_twice),
    "another rank than the root sends": (["broadcast", "scatter", "send_receive"], of_another_root),
    "each has another rank's share": (
        ["scatter", "reduce_scatter", "all_to_all"],
        lambda case: [*case.expected()[1:], case.expected()[0]],
    ),
    "shifted forwards": (SENDING, shifted(1)),
    "shifted backwards": (SENDING, shifted(-1)),
    "left from the call before": (SENDING, lambda case: case.expected(case.call - 1)),
    "zeros": (SENDING, lambda case: [each if each is None else 0 * each for each in case.expected()]),
    "what the rank itself put in": (["all_reduce"], lambda case: case.parts),
}


@pytest.mark.parametrize(("collectives", "wrong"), WRONG.values(), ids=WRONG)
@given(st.data())
def test_a_wrong_result_is_wrong_almost_throughout(collectives, wrong, data):
    case = data.draw(cases(collectives))
    assert max(case.shares_right(wrong(case))) <= MOST_ALIKE


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
