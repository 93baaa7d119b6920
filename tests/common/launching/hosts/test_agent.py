"""common/launching/hosts/agent.py: what the program on a host answers, as whoever started it hears it."""

import os
import platform
import socket
import time

import pytest

from common.declarations.catalogue import families


def test_the_facts_are_those_of_this_machine(agent):
    process = agent("facts", peers=["localhost", "nosuchhost.invalid"])
    facts = process.answer()
    assert process.wait(30) == 0
    assert facts["hostname"] == socket.gethostname()
    assert facts["python"] == platform.python_version()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["machine"]["memory_bytes"] > 0
    assert {*facts["environments"]} == {*families()}
    assert facts["routes"]["localhost"] == {"interface": "lo", "address": "127.0.0.1", "prefix_length": 8}
    assert [*facts["routes"]["nosuchhost.invalid"]] == ["failure"]
    assert facts["no_room"] is None


def test_every_line_is_answered_with_the_clocks_until_the_input_ends(agent):
    process = agent("clock")
    for _ in range(3):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        print(file=process.stdin, flush=True)
        answer = process.answer()
        assert before <= answer["boottime_ns"] <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    process.stdin.close()
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("action", "request_", "said"),
    [
        ("collect", {"folder": "/etc", "names": []}, "/etc is no launch's folder"),
        ("collect", {"folder": "/var/tmp/lockstep-a/../../../etc", "names": []}, "is no launch's folder"),
        ("sweep", {"launch": "*"}, "'*' can't name a launch"),
        ("link-serve", {"address": "192.0.2.1", "seconds": 1}, "can't measure the link with 192.0.2.1"),
        ("link-send", {"address": "127.0.0.1", "port": 1, "seconds": 1}, "Connection refused"),
    ],
)
def test_what_can_not_be_done_is_one_sentence(action, request_, said, agent):
    process = agent(action, **request_)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith("lockstep: ")
    assert errors.count("\n") == 1
    assert said in errors
