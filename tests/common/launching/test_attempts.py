"""common/launching/attempts.py: what is said of a launch that suffered a fault, and who is said to have noticed."""

import time

import pytest

from common.contract.task import Task
from common.declarations.catalogue import find
from common.launching.attempts import AGAIN, in_words, noticed, run
from common.launching.injector import Injector
from common.launching.places.place import LOST_STATUS
from common.launching.processes import Outcome
from common.records.files import read_record
from common.records.recovery import Recovery, recovery_path
from tests.common.records.recoveries import RESTARTED, attempt


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (RESTARTED, "rank 1 killed at step 160, noticed after 0.5 s, next step after 5.0 s, 10 steps computed twice"),
        (
            Recovery(fault="kill:rank=1,step=160", attempts=[attempt(0, 1, 1, 1)]),
            "rank 1 killed at step 160, which it never came to, 0 steps computed twice",
        ),
        (
            Recovery(
                fault="slow:rank=1,factor=3", reached_factor=2.84, attempts=[attempt(0, 1, 1)], injected_seconds=0.5
            ),
            "rank 1 slowed down 3 times, 2.8 times in fact, no step after it, 0 steps computed twice",
        ),
    ],
)
def test_an_account_in_words(account, words):
    assert in_words(account) == words


@pytest.mark.parametrize(
    ("status", "log", "by"),
    [
        (0, "", ""),
        (124, "", "the deadline"),
        (LOST_STATUS, "", "Lockstep"),
        (1, "lockstep: failed: rank 0 lost another worker (closed).", "the library"),
        (1, "lockstep: failed: worker 1 ended with signal 9, so all processes were ended.", "Lockstep"),
        (1, "Root Cause:\n1\n2\n3\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 7)", "torchrun"),
        # The second attempt ended otherwise.
        (1, f"lockstep: failed: Lost.\n{AGAIN}\nlockstep: failed: worker 1 ended with signal 9.", "the library"),
    ],
)
def test_who_noticed_is_read_from_the_output_of_the_first_attempt(status, log, by):
    account = Recovery(attempts=[attempt(0, 1, 1, status), attempt(1, 2, 2)])
    assert noticed(account, log, find("torch_ddp").launcher, 60.0)[0] == by


def test_a_failure_is_noticed_when_it_was_seen_and_not_when_all_had_ended_by_the_clock_of_hosts(tmp_path, monkeypatch):
    seconds = iter(range(10))
    # Other clocks stop while a machine sleeps.
    monkeypatch.setattr("time.clock_gettime_ns", lambda clock: {time.CLOCK_BOOTTIME: 10**9}[clock] * next(seconds))
    run(Task(), tmp_path / "one.json", Injector(None, lambda _: None), lambda: Outcome(1), lambda _: None)
    assert read_record(recovery_path(tmp_path / "one.json"), Recovery).attempts == [attempt(1, 2, 3, 1)]
