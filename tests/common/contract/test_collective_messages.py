"""common/contract/collective_meanings.py: sums without rounding, and wrong results that never look right."""

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
SENDING = [each for each in Collective if each != "barrier"]
OF_THE_ROOT = ["broadcast", "scatter", "send_receive"]
SUMS = ["reduce", "reduce_scatter", "all_reduce"]
IN_ORDER = ["gather", "all_gather", "all_to_all"]
CUT = ["scatter", "reduce_scatter", "all_to_all"]

BELOW_ALL = 1 - 1e-9
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

    def parts_but(self, **changes):
        """The same with another array in the place of those of `one`, `other` or the `root`."""
        places = {"root": 0, "one": self.one, "other": self.other}
        changed = {places[name]: part for name, part in changes.items()}
        return [changed.get(rank, part) for rank, part in enumerate(self.parts)]

    def results(self, parts=None, call=None):
        """What every rank has afterwards: of these parts, or as it is expected of this call or another one."""
        ranks = range(self.messages.ranks)
        if parts is not None:
            return [MEANINGS[self.messages.collective].results(parts, rank) for rank in ranks]
        return [self.messages.expected(rank, self.call if call is None else call) for rank in ranks]

    def shares_right(self, results):
        """Of each rank that gets anything, how much of this result is right."""
        pairs = zip(results, self.results(), strict=True)
        return [np.mean(result == expected) for result, expected in pairs if expected is not None]


@st.composite
def cases(draw, collectives=SENDING):
    """Calls in which every rank has 64 elements or more from each other one, or for it."""
    ranks = draw(st.integers(2, 8))
    data_type, collective = draw(st.sampled_from(TYPES)), Collective(draw(st.sampled_from(collectives)))
    size = draw(st.integers(64, 1024)) * ranks * np.dtype(data_type).itemsize
    one, other = draw(st.permutations(range(ranks)))[:2]
    messages = Messages(collective, size, data_type, ranks, seed=draw(st.integers(0, 2**32)))
    return Case(messages, draw(st.integers(1, 10_000)), one, other)


@given(cases())
def test_every_rank_puts_in_as_many_elements_of_the_type_as_the_collective_has(case):
    messages = case.messages
    elements = elements_of_rank(messages.collective, messages.size_bytes, messages.data_type.itemsize, messages.ranks)
    assert {(part.dtype, part.shape) for part in case.parts} == {(messages.data_type, (elements,))}


@given(cases())
def test_what_is_expected_is_what_the_collective_makes_of_the_parts(case):
    assert case.shares_right(case.results(case.parts)) == [1.0] * len(case.shares_right(case.results()))


@given(cases())
def test_no_two_ranks_and_no_two_calls_have_the_same_part(case):
    ranks = range(case.messages.ranks)
    parts = [case.messages.of(rank, call) for call in (case.call, case.call + 1) for rank in ranks]
    assert max(np.mean(one == other) for one, other in combinations(parts, 2)) <= MOST_ALIKE


@given(cases(SUMS))
def test_sums_have_no_rounding_in_whatever_order(case):
    exact = np.sum([part.astype("float64") for part in case.parts], axis=0)
    forwards, backwards = case.parts[0].copy(), case.parts[-1].copy()
    for part in case.parts[1:]:
        forwards += part
    for part in case.parts[-2::-1]:
        backwards += part
    assert np.array_equal(forwards.astype("float64"), exact)
    assert np.array_equal(backwards, forwards)
    results = [result for result in case.results() if result is not None]
    whole = results[0] if len(results[0]) == len(exact) else np.concatenate(results)
    assert np.array_equal(whole, exact)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_the_largest_and_the_least_value_of_every_rank_add_up_exactly(data_type, ranks):
    messages = Messages(Collective.ALL_REDUCE, 8192, data_type, ranks, seed=0)
    for extreme in (np.max, np.min):
        value = extreme([messages.of(rank, 0) for rank in range(ranks)])
        total = np.sum(np.full(ranks, value), dtype=data_type)
        assert float(total) == ranks * float(value)


def lacking(case):
    return case.results(case.parts_but(one=np.zeros_like(case.parts[0])))


def twice(case):
    return case.results(case.parts_but(one=case.parts[case.other]))


def swapped_shares(case):
    """The results of the two ranks alone: the others' are right."""
    expected = case.results()
    return [expected[{case.one: case.other, case.other: case.one}.get(rank, rank)] for rank in range(len(expected))]


def shifted(places):
    return lambda case: [result if result is None else np.roll(result, places) for result in case.results()]


# By what is wrong: of which collectives, what every rank has then, and how much of it may be right by chance.
WRONG = {
    "a sum lacks a rank": (SUMS, lacking, MOST_ALIKE),
    "a sum has a rank in another's place": (SUMS, twice, MOST_ALIKE),
    "a sum has a rank once more": (
        SUMS,
        lambda case: case.results(case.parts_but(one=case.parts[case.one] * 2)),
        MOST_ALIKE,
    ),
    "a collection lacks a rank": (IN_ORDER, lacking, BELOW_ALL),
    "a collection has a rank twice": (IN_ORDER, twice, BELOW_ALL),
    "a collection has two ranks swapped": (
        IN_ORDER,
        lambda case: case.results(case.parts_but(one=case.parts[case.other], other=case.parts[case.one])),
        BELOW_ALL,
    ),
    "another rank than the root sends": (
        OF_THE_ROOT,
        lambda case: case.results(case.parts_but(root=case.parts[case.one or case.other])),
        MOST_ALIKE,
    ),
    "shifted forwards": (SENDING, shifted(1), MOST_ALIKE),
    "shifted backwards": (SENDING, shifted(-1), MOST_ALIKE),
    "left from the call before": (SENDING, lambda case: case.results(call=case.call - 1), MOST_ALIKE),
    "zeros": (SENDING, lambda case: [each if each is None else 0 * each for each in case.results()], MOST_ALIKE),
    "what the rank itself put in": (["all_reduce", "all_to_all"], lambda case: case.parts, BELOW_ALL),
}


@pytest.mark.parametrize(("collectives", "wrong", "most"), WRONG.values(), ids=WRONG)
@given(st.data())
def test_a_wrong_result_is_wrong_almost_throughout_or_at_least_noticed(collectives, wrong, most, data):
    case = data.draw(cases(collectives))
    assert max(case.shares_right(wrong(case))) <= most


@given(cases(CUT))
def test_a_share_that_is_another_ranks_is_wrong_almost_throughout(case):
    shares = case.shares_right(swapped_shares(case))
    assert max(shares[case.one], shares[case.other]) <= MOST_ALIKE


@pytest.mark.parametrize("collective", SENDING)
@pytest.mark.parametrize("size_bytes", [8, 64])
def test_of_the_smallest_messages_too_few_calls_are_alike_for_a_stale_result_to_pass(collective, size_bytes):
    messages = Messages(collective, size_bytes, "float32", 2, seed=0)
    received = [rank for rank in range(2) if messages.expected(rank, 0) is not None]
    stale = [
        np.array_equal(messages.expected(rank, call), messages.expected(rank, call - 1))
        for call in range(1, 26)
        for rank in received
    ]
    assert not any(stale)


def test_every_process_draws_the_same_of_a_size_that_the_ranks_divide():
    first, again, other = (Messages(Collective.ALL_REDUCE, 4096, "float32", 2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.of(1, 5), again.of(1, 5))
    assert np.mean(first.of(1, 5) == other.of(1, 5)) < MOST_ALIKE
    with pytest.raises(ValueError, match="12 bytes can't be divided among 2 ranks"):
        Messages(Collective.SCATTER, 12, "float32", 2, seed=0)


def test_backwards_the_last_rank_sends_to_the_first():
    messages = Messages(Collective.SEND_RECEIVE, 32, "float32", ranks=3, seed=0, backwards=True)
    assert np.array_equal(messages.expected(0, call=5), messages.of(2, call=5))
    assert messages.expected(1, call=5) is None
    assert messages.expected(2, call=5) is None
