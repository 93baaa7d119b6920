"""common/records/accounted_launch.py: what became of a launch; tests of the experiment read whole folders."""

import dataclasses

import pytest
from msgspec import structs

from common.records.accounted_launch import ENDED, OTHER, AccountedLaunch
from common.records.certificate import DEVIATES, FOLLOWS
from tests.common.records.recoveries import RESTARTED, TASK
from tests.reports.records import make_record


@pytest.mark.parametrize(
    ("attempts", "fields", "fault", "verdict", "became"),
    [
        (2, {}, RESTARTED.fault, FOLLOWS, "started again"),
        (2, {}, RESTARTED.fault, DEVIATES, OTHER),
        (2, {"status": "failed"}, RESTARTED.fault, "", ENDED),
        (1, {}, RESTARTED.fault, FOLLOWS, "went on by itself"),
        (1, {"world_size": 1}, RESTARTED.fault, FOLLOWS, "went on with 1 of 2"),
        (1, {}, "slow:rank=1,factor=3", FOLLOWS, "waited for it"),
    ],
)
def test_what_became_of_a_launch(attempts, fields, fault, verdict, became):
    record = make_record(workers=2, task=dataclasses.replace(TASK, inject=fault), **fields)
    launch = AccountedLaunch(
        record, structs.replace(RESTARTED, fault=fault, attempts=RESTARTED.attempts[:attempts]), verdict
    )
    assert launch.became == became
    assert launch.has_recovered == (launch.goodput > 0) == (became not in (OTHER, ENDED))
