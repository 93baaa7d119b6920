"""common/prediction/message_costs.py: the longest chain of a collective's messages, by its formula."""

import pytest

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.prediction.message_costs import Costs, CriticalPath, Wire, critical_path

ring = ALGORITHMS["ring"]
COSTS = Costs(alpha_seconds=1e-4, gamma_seconds_per_byte=1e-9)
TWO = CriticalPath(messages=2, share=1.0)
ELEMENTS = 720_720 * 64


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 64])
def test_an_all_reduce_takes_the_messages_of_a_ring_one_after_another(ranks):
    exchanges = [*ring(0, ranks, ELEMENTS)]
    chain = critical_path("all_reduce", ranks)
    assert chain.messages == len(exchanges) == 2 * (ranks - 1)
    sent = sum(each.sent.stop - each.sent.start for each in exchanges)
    assert chain.share == pytest.approx(sent / ELEMENTS, rel=1e-5)


def test_what_is_slower_sets_the_pace_of_bytes_the_wire_or_the_processor():
    # 100 Mbit/s carry 1,448 of 1,514 bytes: 83.65 ns a byte, where the processor takes 1 ns.
    assert COSTS.seconds(Wire(100e6), TWO, 1e6) == pytest.approx(2e-4 + 1e6 * 8 / 100e6 * 1514 / 1448)
    assert COSTS.seconds(Wire(1e12), TWO, 1e6) == pytest.approx(2e-4 + 1e-3)
    assert COSTS.seconds(Wire(), TWO, 1e6) == pytest.approx(2e-4 + 1e-3)


def test_most_messages_wait_for_the_way_there_and_back_and_some_have_no_need_to():
    wire, ring = Wire(latency_seconds=0.01), critical_path("all_reduce", 4)
    assert COSTS.seconds(wire, ring, 0) == pytest.approx(6 * 0.0201)
    assert COSTS.seconds(wire, critical_path("broadcast", 4), 0) == pytest.approx(2 * 0.0101)
    assert COSTS.seconds(wire, critical_path("halving_scatter", 4), 0) == pytest.approx(3 * 0.0101)


def test_the_overhead_is_that_of_the_whole_collective():
    assert Costs(1e-4, 0.0, 0.01).seconds(Wire(), critical_path("all_reduce", 4), 0) == pytest.approx(0.01 + 6e-4)
    assert Costs(1e-4, 2.0, 0.01).times(2, 3) == Costs(2e-4, 6.0, 0.02)


def test_a_token_bucket_fills_while_a_message_is_waited_for():
    wire = Wire(100e6, burst_bytes=1000)
    assert COSTS.seconds(wire, TWO, 1e6) == pytest.approx(2e-4 + (1e6 - 2 * 1000) * wire.seconds_per_byte)
    # It doesn't fill by more than passes in that time.
    assert COSTS.seconds(Wire(100e6, burst_bytes=10**6), TWO, 1e6) == pytest.approx(1e6 * wire.seconds_per_byte)


def test_halving_sends_what_is_not_in_place_once_more_and_the_others_as_a_ring_or_one_message():
    # Of four ranks two have their quarter where it belongs (jax_impl/strategies.py has the sum over ranks).
    assert critical_path("halving_scatter", 2) == CriticalPath(1, 0.5, ways_of_each=1)
    assert critical_path("halving_scatter", 4) == CriticalPath(3, 1.0, ways_of_each=1)
    assert critical_path("reduce_scatter", 4) == critical_path("all_reduce", 4)
    assert critical_path("all_gather", 4) == CriticalPath(3, 0.75)
    assert critical_path("send_receive", 4) == CriticalPath(1, 1.0)
