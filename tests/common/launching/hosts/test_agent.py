"""common/launching/hosts/agent.py: what the program on a host answers, as whoever started it hears it."""

import time


def test_every_line_is_answered_with_the_clocks_until_the_input_ends(agent):
    process = agent("clock")
    for _ in range(3):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        print(file=process.stdin, flush=True)
        answer = process.answer()
        assert before <= answer["boottime_ns"] <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    process.stdin.close()
    assert process.wait(30) == 0


def test_what_can_not_be_done_is_one_sentence(agent):
    process = agent("collect", folder="/etc", names=[])
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (2, "")
    assert errors == "lockstep: /etc is no launch's folder: name one that `run` has answered with.\n"
