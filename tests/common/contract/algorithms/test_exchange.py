"""common/contract/algorithms/exchange.py: the parts of a buffer, and when ranks meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.algorithms.exchange import Exchange, part, steps


@given(st.integers(1, 9), st.integers(0, 40))
def test_parts_follow_one_another_and_differ_by_one_element_at_most(parts, elements):
    found = [part(number, parts, elements) for number in range(parts)]
    assert [place for each in found for place in range(each.start, each.stop)] == [*range(elements)]
    sizes = [each.stop - each.start for each in found]
    assert max(sizes) - min(sizes) <= 1
    assert part(-1, parts, elements) == part(2 * parts - 1, parts, elements) == found[-1]


def test_an_exchange_waits_for_the_rank_at_the_other_end_unless_all_wait_for_one_another():
    first, second = Exchange(send_to=1), Exchange(send_to=2)

    def chain(rank, ranks, elements):
        return iter({0: [first], 1: [Exchange(receive_from=0), second], 2: [Exchange(receive_from=1)]}[rank])

    assert steps(chain, 3, 1) == [
        {0: first, 1: Exchange(receive_from=0)},
        {1: second, 2: Exchange(receive_from=1)},
    ]

    def both_receive(rank, ranks, elements):
        yield Exchange(receive_from=1 - rank)
        yield Exchange(send_to=1 - rank)

    with pytest.raises(ValueError, match="wait for one another after 0 steps"):
        steps(both_receive, 2, 1)
