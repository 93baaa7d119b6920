"""What a folder of results tells beside its records: the plan with its margin, and strategies without time."""

from pathlib import Path

import pytest
from msgspec import structs

from common.records.files import write_record
from common.statistics.paired import MARGIN
from reports.tables.material import Material
from reports.tables.results import read_results
from reports.words import first_page
from tests.reports.materials import replay
from tests.reports.pieces import answers
from tests.reports.records import HEADER, make_record, named, write_all


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_all(tmp_path, named(make_record(), make_record("amber_ring", 2)))


def test_the_margin_is_that_of_the_plan_or_else_that_of_everybody_and_a_launch_may_be_planned_twice(folder):
    row = "1,some-launch,amber_ring,,digits,weak,2,True,1,throughput,5"
    assert read_results(folder).margin == MARGIN
    plans = {f"{HEADER},margin\n{row},0.02": 0.02, f"{HEADER}\n{row}\n{row}": MARGIN, f"{HEADER},margin": MARGIN}
    for plan, margin in plans.items():
        (folder / "plan.csv").write_text(f"{plan}\n")
        assert read_results(folder).margin == margin


def test_strategies_that_were_left_out_have_the_minutes_that_would_do(folder):
    (folder / "left_out.csv").write_text("strategy,minutes\namber_parts,12\nteal_amber,13.5\n")
    assert read_results(folder).left_out == {"amber_parts": 12.0, "teal_amber": 13.5}


def test_replays_lie_in_a_folder_of_their_own_and_count_among_all_records(folder):
    before = read_results(folder)
    assert before.replays == {}
    (folder / "replays").mkdir()
    one = replay(1.0)
    write_record(folder / "replays" / "one.json", one)
    found = read_results(folder)
    assert found.replays == {"one": one}
    assert [*found.records] == [*before.records]
    assert found.origin.digest != before.origin.digest


def test_a_flawed_record_counts_as_not_run_as_well_and_the_first_page_names_it(folder):
    name, record = next(iter(read_results(folder).records.items()))
    write_record(folder / f"{name}.json", structs.replace(record, started_at="yesterday"))
    found = read_results(folder)
    assert name not in found.records
    assert [*found.damaged] == [name]
    assert f"It counts as not run: {found.damaged[name]}" in answers(first_page.section(Material(found)))["How sure"]
