"""common/launching/virtual_hosts/packets.py: what is sent comes whole, or the receiver raises why there is none."""

import pytest

from common.errors import UserError
from common.launching.virtual_hosts import packets
from common.launching.virtual_hosts.description import Cable


def test_messages_come_one_by_one_as_what_was_sent_and_a_sender_that_left_is_not_waited_for():
    ours, theirs = packets.pair()
    with ours:
        with theirs:
            packets.send(theirs, Cable(1e8, 0.001))
            packets.send(theirs)
        assert packets.receive(ours, Cable) == Cable(1e8, 0.001)
        assert packets.receive(ours, type(None)) is None
        with pytest.raises(ConnectionError, match="ended before its time"):
            packets.receive(ours, int)


@pytest.mark.parametrize(
    ("sent", "raised", "said"),
    [
        (UserError("No veth: load it."), UserError, r"^No veth: load it\.$"),
        (ZeroDivisionError("a bug"), RuntimeError, "ZeroDivisionError: a bug"),
    ],
)
def test_a_refusal_is_the_same_for_the_receiver_and_a_fault_brings_its_traceback(sent, raised, said):
    ours, theirs = packets.pair()
    with ours, theirs:
        packets.send(theirs, sent)
        with pytest.raises(raised, match=said):
            packets.receive(ours, int)
