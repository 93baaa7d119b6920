"""common/launching/virtual_hosts/packets.py: what is sent comes whole, or the receiver raises why there is none."""

import pytest

from common.errors import UserError
from common.launching.virtual_hosts import packets
from common.launching.virtual_hosts.description import Cable


@pytest.fixture
def sockets():
    ours, theirs = packets.pair()
    with ours, theirs:
        yield ours, theirs


def test_messages_come_one_by_one_as_what_was_sent(sockets):
    ours, theirs = sockets
    packets.send(theirs, Cable(1e8, 0.001))
    packets.send(theirs)
    assert packets.receive(ours, Cable) == Cable(1e8, 0.001)
    assert packets.receive(ours, type(None)) is None


def test_a_refusal_is_the_same_sentence_for_the_receiver(sockets):
    ours, theirs = sockets
    packets.send(theirs, UserError("No veth: load it."))
    with pytest.raises(UserError, match=r"^No veth: load it\.$"):
        packets.receive(ours, int)


def test_a_fault_brings_its_traceback(sockets):
    ours, theirs = sockets
    packets.send(theirs, ZeroDivisionError("a bug"))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
        packets.receive(ours, int)


def test_a_sender_that_left_is_not_waited_for(sockets):
    ours, theirs = sockets
    theirs.close()
    with pytest.raises(ConnectionError, match="ended before its time"):
        packets.receive(ours, int)
