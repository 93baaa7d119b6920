"""common/contract/fault.py: faults as the command line words them."""

import pytest

from common.contract.fault import Fault, parse
from common.contract.task import Task


@pytest.mark.parametrize(
    ("text", "fault", "words"),
    [
        ("kill:rank=1,step=150", Fault("kill", 1, step=150), "rank 1 killed at step 150"),
        ("stop:step=150,rank=0", Fault("stop", 0, step=150), "rank 0 stopped at step 150"),
        ("slow:rank=1,factor=2.5", Fault("slow", 1, factor=2.5), "rank 1 slowed down 2.5 times"),
        ("late:rank=1,seconds=20", Fault("late", 1, seconds=20.0), "rank 1 20 s late"),
        ("missing:rank=1", Fault("missing", 1), "rank 1 missing"),
        ("server:index=0,step=150", Fault("server", index=0, step=150), "server 0 killed at step 150"),
        ("host:name=host2,step=150", Fault("host", name="host2", step=150), "host2 lost at step 150"),
        ("cable:name=a,step=9,seconds=5", Fault("cable", name="a", step=9, seconds=5.0), "a cut off for 5 s at step 9"),
    ],
)
def test_every_kind_has_its_values_and_its_words(text, fault, words):
    assert parse(text) == Task(inject=text).fault == fault
    assert fault.in_words == words


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("burn:rank=1", "begin with one of kill, stop, slow, late, missing, server, host, cable, as in kill:rank=1"),
        ("kill:rank=1", "kill takes rank and step, as in kill:rank=1,step=150"),
        ("kill:rank=1,step=2,now=3", "kill takes rank and step"),
        ("kill:rank=1.5,step=2", "give rank a whole number from 0 on"),
        ("kill:rank=-1,step=2", "give rank a whole number"),
        ("kill:rank=1,step=0", "give step a whole number from 1 on"),
        ("slow:rank=1,factor=nan", "give factor a number from 1 on"),
        ("host:name=a b,step=2", "give name that of a virtual host, as in host:name=host2,step=150"),
        ("host:name=,step=2", "give name that of a virtual host"),
        ("late:rank=1,seconds=inf", "give seconds a number from 0 on"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_an_example(refusal, text, complaint):
    assert complaint in refusal(lambda: parse(text))
