"""The figure of who sends what when: an arrow for each message, in its step, from the sender to the receiver."""

from collections import Counter

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import steps
from reports.charts.message_diagram import messages
from tests.reports.pieces import marks_of


def test_every_message_of_every_algorithm_is_an_arrow_in_its_panel():
    marks = marks_of(messages([*ALGORITHMS], 4))
    assert Counter(mark.keys[0] for mark in marks) == {
        name: sum(each.send_to is not None for step in steps(ALGORITHMS[name], 4, 64) for each in step.values())
        for name in ALGORITHMS
    }
    assert all(mark.panel.startswith(f"{mark.keys[0]}: ") for mark in marks)
    assert {mark.panel for mark in marks if mark.keys == ["halving_doubling"]} == {"halving_doubling: 1/4 and 1/2"}


def test_an_arrow_says_who_sends_how_much_and_what_becomes_of_it():
    found = [mark.tip for mark in marks_of(messages(["central_server"], 3))]
    up, down = "added to the receiver's elements", "in place of the receiver's elements"
    assert [(tip["step"], tip["from rank"], tip["to rank"], tip["share"], tip["elements"]) for tip in found] == [
        ("1", "1", "0", "1", up),
        ("2", "2", "0", "1", up),
        ("3", "0", "1", "1", down),
        ("4", "0", "2", "1", down),
    ]
