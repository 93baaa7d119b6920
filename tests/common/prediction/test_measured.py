"""common/prediction/measured.py: which launches count, and as how many seconds per step."""

import dataclasses
from pathlib import Path

import pytest
from msgspec import structs

from common.prediction.measured import measured
from common.records.files import write_record
from tests.reports.records import MadeUpOptions, make_record, mistaken, task_of


def gathered(folder, record):
    write_record(folder / "one.json", record)
    return measured(folder)


def of_task(**changes):
    return make_record("torch_ddp", 2, task=dataclasses.replace(task_of(2), **changes))


@pytest.mark.parametrize(
    "record",
    [
        make_record("torch_ddp", 2, options=MadeUpOptions(compiled=True)),
        make_record("torch_ddp", 2, status="failed", reason="It broke."),
        of_task(inject="slow:rank=1,factor=3"),
        of_task(checkpoint=Path("weights")),
        mistaken(make_record("torch_ddp", 2)),
    ],
    ids=["options of its own", "failed", "a fault", "a certificate", "other maths"],
)
def test_only_launches_count_that_ended_well_undisturbed_with_default_options(tmp_path, record):
    found = gathered(tmp_path, record)
    assert (found.steps, found.without_exchange, [*found.ratios]) == ({}, {}, [])


@pytest.mark.parametrize(("synchronous", "seconds"), [(True, 0.002), (False, 0.008)])
def test_where_workers_do_not_wait_for_one_another_each_takes_as_many_times_as_long_as_there_are(
    tmp_path, synchronous, seconds
):
    record = structs.replace(make_record("torch_ddp", 4), synchronous=synchronous, examples_per_step=128, reading=None)
    [(scenario, launches)] = gathered(tmp_path, record).steps.items()
    assert (scenario.workers, scenario.rows) == (4, 32 if synchronous else 128)
    assert launches == pytest.approx([seconds])


@pytest.mark.parametrize(("workers", "exchange", "counts"), [(1, True, True), (2, False, True), (2, True, False)])
def test_ranks_are_late_by_what_windows_without_exchange_show(tmp_path, workers, exchange, counts):
    found = gathered(tmp_path, make_record("torch_ddp", workers, options=MadeUpOptions(exchange=exchange)))
    assert bool(len(found.ratios)) == counts
    assert len(found.steps if exchange else found.without_exchange) == 1
