"""What a folder of results tells beside its records: the plan with its margin, and strategies without time."""

from pathlib import Path

import pytest

from common.errors import UserError
from common.records.files import write_record
from common.statistics.paired import MARGIN
from reports.tables.results import read_results
from tests.reports.records import make_record, named, write_all
from tests.reports.replays import replay

HEADER = "position,launch,strategy,label,preset,scaling,workers,exchange,repetition,purpose,order_seed"
ROW = "1,some-launch,amber_ring,,digits,weak,2,True,1,throughput,5"


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_all(tmp_path, named(make_record()))


def test_the_margin_is_that_of_the_plan(folder):
    (folder / "plan.csv").write_text(f"{HEADER},stage,margin\n{ROW},round,0.02\n{ROW},certificates,0.02\n")
    assert read_results(folder).margin == 0.02


@pytest.mark.parametrize("plan", [None, f"{HEADER}\n{ROW}\n", f"{HEADER},margin\n"], ids=["none", "older", "empty"])
def test_without_a_margin_in_the_plan_it_is_that_of_everybody(folder, plan):
    if plan:
        (folder / "plan.csv").write_text(plan)
    assert read_results(folder).margin == MARGIN


@pytest.mark.parametrize("margin", ["", "wide", "0", "-0.1"])
def test_a_margin_that_is_none_is_refused(folder, margin):
    (folder / "plan.csv").write_text(f"{HEADER},margin\n{ROW},{margin}\n")
    with pytest.raises(UserError, match=r"plan.csv has a margin that isn't a number above 0: .*\.$"):
        read_results(folder)


def test_strategies_that_were_left_out_have_the_minutes_that_would_do(folder):
    assert read_results(folder).left_out == {}
    (folder / "left_out.csv").write_text("strategy,minutes\namber_parts,12\nteal_amber,13.5\n")
    assert read_results(folder).left_out == {"amber_parts": 12.0, "teal_amber": 13.5}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("strategy\nx\n", "left_out.csv has no column minutes"),
        ("strategy,minutes\nx,soon\n", "left_out.csv has minutes that aren't numbers"),
        ("", "left_out.csv isn't a table that can be read"),
    ],
)
def test_a_damaged_list_of_those_left_out_is_refused(folder, content, said):
    (folder / "left_out.csv").write_text(content)
    with pytest.raises(UserError, match=said):
        read_results(folder)


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


def test_a_damaged_replay_is_named(folder):
    (folder / "replays").mkdir()
    (folder / "replays" / "damaged.json").write_text("{")
    with pytest.raises(UserError, match=r"damaged\.json isn't a record that"):
        read_results(folder)
