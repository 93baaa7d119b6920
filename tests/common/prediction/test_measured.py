"""common/prediction/measured.py: which launches count, and as how many seconds per step."""

from functools import partial
from pathlib import Path

import pytest

from common.prediction.measured import measured
from common.records.files import write_record
from tests.reports.records import MadeUpOptions, make_record, mistaken, task_of

launch = partial(make_record, "torch_ddp")


@pytest.mark.parametrize(
    ("record", "steps", "without_exchange", "shows_lateness"),
    [
        (launch(1), {64: [0.002]}, {}, True),
        (launch(2), {64: [0.002]}, {}, False),
        (launch(2, options=MadeUpOptions(exchange=False)), {}, {64: [0.002]}, True),
        # Four workers that don't wait for one another make an update every 2 ms together.
        (launch(4, synchronous=False, examples_per_step=64, reading=None), {64: [0.008]}, {}, False),
        (launch(2, options=MadeUpOptions(compiled=True)), {}, {}, False),
        (launch(2, status="failed", reason="It broke."), {}, {}, False),
        (launch(1, task=task_of(1, inject="slow:rank=0,factor=3")), {}, {}, False),
        (launch(1, task=task_of(1, checkpoint=Path("weights"))), {}, {}, False),
        (mistaken(launch(2)), {}, {}, False),
    ],
)
def test_launches_count_that_ended_well_undisturbed_with_default_options(
    tmp_path, record, steps, without_exchange, shows_lateness
):
    write_record(tmp_path / "one.json", record)
    found = measured(tmp_path)
    rows = [
        {scenario.rows: [round(each, 9) for each in seconds] for scenario, seconds in kept.items()}
        for kept in (found.steps, found.without_exchange)
    ]
    assert (*rows, len(found.ratios) > 0) == (steps, without_exchange, shows_lateness)
