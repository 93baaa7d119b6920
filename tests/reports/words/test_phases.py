"""What the report says of the frameworks' own accounts of an exchange, and where it says nothing."""

from common.records.training import Record
from reports.blocks import DASH
from reports.tables.material import Material, regime_names
from reports.tables.phases import table
from reports.tables.results import Results
from reports.words import costs
from tests.changes import changed
from tests.reports.records import make_record, named, varied
from tests.reports.tables.test_phases import PHASES, traced


def section(tmp_path, *records: Record) -> list[dict]:
    found = Material(Results(tmp_path, named(*records), None))
    return costs.phases(table(found.launches, found.results.records), regime_names(found.cells))


def tables_of(blocks: list[dict]) -> list[list[list[str]]]:
    return [block["rows"] for block in blocks if block["kind"] == "table"]


def test_without_an_account_nothing_is_said(tmp_path):
    assert section(tmp_path, make_record("teal_amber", 2), varied("teal_amber", 2, trace=True)) == []


def test_launches_with_one_worker_or_without_exchange_have_nothing_to_account_for(tmp_path):
    alone = changed(make_record("teal_amber", 1), phases=PHASES)
    silent = changed(varied("teal_amber", 2, exchange=False), phases=PHASES)
    assert section(tmp_path, alone, silent) == []


def test_phases_stand_in_milliseconds_of_a_step(tmp_path):
    [rows] = tables_of(section(tmp_path, traced()))
    assert rows == [["teal_amber, trace", "2", "digits weak", "1", "1.00", "0.500"]]


def test_each_phase_has_its_name_and_its_meaning_from_the_record(tmp_path):
    blocks = section(tmp_path, traced(), traced("teal_cobalt"))
    assert blocks[0]["text"] == "Teal's own account of the exchange"
    [meanings] = [block["items"] for block in blocks if block["kind"] == "items"]
    assert meanings == ["waiting: until all workers have the gradient", "all-reduce: the exchange itself"]
    [table] = [block for block in blocks if block["kind"] == "table"]
    assert table["columns"][4:] == ["waiting, ms", "all-reduce, ms"]


def test_every_family_has_an_account_with_phases_of_its_own(tmp_path):
    copying = [{"name": "copying", "seconds": 0.6, "meaning": "into a buffer"}]
    blocks = section(
        tmp_path, traced(), traced("cobalt_replicas", phases=copying), traced("mine", family="", phases=copying)
    )
    headings = [block["text"] for block in blocks if block["kind"] == "heading"]
    assert headings == [f"{family}'s own account of the exchange" for family in ("The framework", "Cobalt", "Teal")]
    assert [rows[0][4] for rows in tables_of(blocks)] == ["10.0", "10.0", "1.00"]


def test_a_phase_that_only_some_strategies_of_a_family_have_is_left_open_for_the_others(tmp_path):
    rows = tables_of(section(tmp_path, traced(), traced("teal_cobalt", phases=PHASES[:1])))[0]
    assert {row[0]: row[4:6] for row in rows} == {
        "teal_amber, trace": ["1.00", "0.500"],
        "teal_cobalt, trace": ["1.00", DASH],
    }
