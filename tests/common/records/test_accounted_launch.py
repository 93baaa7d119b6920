"""common/records/accounted_launch.py: what became of a launch; tests of the experiment read whole folders."""

import dataclasses

import pytest

from common.records.accounted_launch import AccountedLaunch
from common.records.certificate import FOLLOWS
from common.records.recovery import Recovery
from tests.common.records.recoveries import RESTARTED, TASK, attempt
from tests.reports.records import make_record


@pytest.mark.parametrize(
    ("fault", "workers", "became"),
    [(RESTARTED.fault, 1, "went on with 1 of 2"), ("slow:rank=1,factor=3", 2, "waited for it")],
)
def test_what_became_of_a_launch_that_goes_on_with_fewer_or_at_once(fault, workers, became):
    record = make_record(workers=workers, task=dataclasses.replace(TASK, inject=fault))
    launch = AccountedLaunch(record, Recovery(fault=fault, attempts=[attempt(0, 9, 9)]), FOLLOWS)
    assert (launch.became, launch.has_recovered) == (became, True)
