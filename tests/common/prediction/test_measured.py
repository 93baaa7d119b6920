"""common/prediction/measured.py: which launches count, as which scenario, and as how many seconds per step."""

from functools import partial
from pathlib import Path

import pytest

from common.prediction.measured import Scenario, measured, scenario_of
from common.prediction.message_costs import Wire
from common.records.files import write_record
from common.records.header import Virtual
from tests.common.laboratory.collective_records import record as sweep
from tests.common.laboratory.collective_records import taking
from tests.reports.records import HOST, MadeUpOptions, make_record, mistaken, named, over_hosts, task_of, write_all

launch = partial(make_record, "torch_ddp")
over = partial(over_hosts, "torch_ddp")
scenario = partial(Scenario, "torch_ddp", "digits")


@pytest.mark.parametrize(
    ("record", "expected", "crowding"),
    [
        (launch(2), scenario(64, workers=2, hosts=1), 1.0),
        (launch(4, oversubscribed=True), scenario(64, workers=4, hosts=1), 2.0),
        (launch(4, oversubscribed=True, host=HOST | {"cores": 3}), scenario(64, workers=4, hosts=1), 4 / 3),
        (launch(4, oversubscribed=False), scenario(64, workers=4, hosts=1), 1.0),
        # Each of four that don't wait for one another takes the whole batch.
        (
            launch(4, synchronous=False, examples_per_step=64, reading=None, oversubscribed=False),
            scenario(64, workers=4, hosts=1),
            1.0,
        ),
        (
            over(virtual=Virtual(bandwidth_bits_per_second=1e8, delay_seconds=0.01)),
            scenario(64, workers=2, hosts=2, wire=Wire(1e8, 0.01)),
            1.0,
        ),
        (over(virtual=Virtual()), scenario(64, workers=2, hosts=2), 1.0),
        (over(virtual=None), scenario(64, workers=2, hosts=2), 1.0),
        (over(hosts=1), scenario(64, workers=2, hosts=1), 1.0),
    ],
)
def test_a_scenario_has_the_rows_of_a_worker_and_the_link_that_was_chosen(record, expected, crowding):
    found = scenario_of(record)
    assert (found, found.crowding) == (expected, crowding)


@pytest.mark.parametrize(
    ("record", "steps", "without_exchange", "shows_lateness"),
    [
        (launch(1), [0.002], [], True),
        (launch(2), [0.002], [], False),
        (launch(2, options=MadeUpOptions(exchange=False)), [], [0.002], True),
        # Four workers that don't wait for one another make an update every 2 ms together.
        (launch(4, synchronous=False, examples_per_step=64, reading=None), [0.008], [], False),
        (launch(2, options=MadeUpOptions(compiled=True)), [], [], False),
        (launch(2, status="failed", reason="It broke."), [], [], False),
        (launch(1, task=task_of(1, inject="slow:rank=0,factor=3")), [], [], False),
        (launch(1, task=task_of(1, checkpoint=Path("weights"))), [], [], False),
        (mistaken(launch(2)), [], [], False),
    ],
)
def test_launches_count_that_ended_well_undisturbed_with_default_options(
    tmp_path, record, steps, without_exchange, shows_lateness
):
    write_record(tmp_path / "one.json", record)
    found = measured(tmp_path)
    seconds = [
        [round(each, 9) for own in kept.values() for each in own] for kept in (found.steps, found.without_exchange)
    ]
    assert (*seconds, len(found.ratios) > 0) == (steps, without_exchange, shows_lateness)


def test_launches_of_a_scenario_are_pooled_and_windows_are_late_by_the_median_of_their_own_launch(tmp_path):
    launches = launch(1, status="failed", reason="It broke."), launch(1, (1.0, 2.0, 4.0)), launch(1, (2.0, 2.0, 8.0))
    found = measured(write_all(tmp_path, named(*launches)))
    assert found.steps == {scenario(64, 1, 1): pytest.approx([0.002, 0.002])}
    assert found.ratios == pytest.approx([0.5, 1, 1, 1, 2, 4])


def test_all_reduces_between_two_ranks_without_a_limit_count_by_library_and_size(tmp_path):
    several = [
        taking(0.1, 8),
        taking(0.2, 16),
        taking(0.3, 8, collective="broadcast"),
        taking(0.4, 0),
        taking(0.5, 8, status="failed", reason="It broke."),
    ]
    sweeps = {
        "several": sweep(*several, library="gloo"),
        "again": sweep(taking(0.6, 8), library="gloo", repetition=2, virtual=Virtual()),
        "another": sweep(taking(0.7, 8), library="mpi"),
        "four": sweep(taking(0.8, 8), library="gloo", workers=4),
        "slow": sweep(taking(0.9, 8), library="gloo", virtual=Virtual(bandwidth_bits_per_second=1e8)),
        "far": sweep(taking(1.0, 8), library="gloo", virtual=Virtual(delay_seconds=0.01)),
    }
    for name, record in sweeps.items():
        write_record(tmp_path / f"{name}.json", record)
    found = measured(tmp_path / "none", tmp_path).exchanges
    assert {library: {size: sorted(own) for size, own in sizes.items()} for library, sizes in found.items()} == {
        "gloo": {8: [0.1, 0.6], 16: [0.2]},
        "mpi": {8: [0.7]},
    }
