"""What the report says of factors: of options, of a library's loop, of one process."""

import pytest

from common.records.training import Record
from reports.blocks import DASH
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import factors
from tests.reports.records import make_record, named, over_hosts, varied


def section(tmp_path, *records: Record) -> list[dict]:
    return factors.section(Material(Results(tmp_path, named(*records), None)))


def table_of(blocks: list[dict]) -> dict:
    [table] = [block for block in blocks if block["kind"] == "table"]
    return table


def test_defaults_alone_and_options_without_their_default_have_no_such_section(tmp_path):
    assert section(tmp_path, make_record("teal_amber", 2), varied("amber_ring", 2, compiled=True)) == []


def test_options_stand_beside_the_default_of_the_same_strategy(tmp_path):
    default = [make_record("teal_amber", 2, (4.0,) * 3) for _ in range(6)]
    mpi = [varied("teal_amber", 2, (2.0 + 0.1 * number,) * 3, backend="mpi") for number in range(6)]
    other = [varied("teal_cobalt", 2, (1.0,) * 3, backend="mpi")]
    assert table_of(section(tmp_path, *default, *mpi, *other))["rows"] == [
        ["teal_amber, mpi backend", "teal_amber", "2", "digits weak", "2.25", "4.00", "0.56", "0.50 to 0.62", "6"],
    ]


def test_every_strategy_with_options_of_its_own_has_rows(tmp_path):
    names = ("amber_ring", "cobalt_replicas", "mine")
    records = [record for name in names for record in (make_record(name, 2), varied(name, 2, compiled=True))]
    rows = table_of(section(tmp_path, *records))["rows"]
    assert [row[0] for row in rows] == [f"{name}, compiled" for name in names]


def test_few_launches_have_a_factor_without_an_interval_and_a_note(tmp_path):
    table = table_of(section(tmp_path, make_record("teal_amber", 2), varied("teal_amber", 2, backend="mpi")))
    assert table["rows"][0][-2:] == [DASH, "1"]
    assert "fewer than 6" in table["notes"][0]


def test_hosts_are_no_option(tmp_path):
    assert section(tmp_path, make_record("amber_ring", 2), over_hosts(), over_hosts(megabits=10.0)) == []


@pytest.mark.parametrize(
    ("launches", "said", "notes"),
    [
        (5, ["3,000", "2,000", "1.50", DASH, "5"], ["No interval is given for fewer than 6 pairs."]),
        (6, ["3,000", "2,000", "1.50", "1.25 to 1.75", "6"], []),
    ],
)
def test_a_factor_is_said_with_both_times_its_interval_and_its_pairs(tmp_path, launches, said, notes):
    plain = [make_record("amber_ring", 2, (2000.0,) * 3)] * launches
    times = (2500.0, 3500.0, *[3000.0] * 4)
    compiled = [varied("amber_ring", 2, (time,) * 3, compiled=True) for time in times]
    table = table_of(section(tmp_path, *plain, *compiled[:launches]))
    assert [row[4:] for row in table["rows"]] == [said]
    assert table["notes"] == notes
