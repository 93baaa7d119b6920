"""reports/regression.py: what the report says of a comparison against another commit."""

from pathlib import Path

import pytest
from rich.console import Console

from common.errors import UserError
from common.records.training import Record
from common.sessions import regression as comparison
from common.sessions.other_checkout import RECORDS, Against
from reports import document
from reports.blocks import DASH
from reports.tables.material import Material
from reports.tables.results import Results, read_results
from reports.words import regression
from tests.reports.pieces import headings
from tests.reports.records import make_record, unfinished, write_all

AGAINST = Against("main", "1" * 40, "2" * 40 + "+changes", 0.05, ("Both run here.",))
STEADY = (2.0, 2.002, 1.998, 2.002, 1.998, 2.0)


def rounds(record: Record, times: int = 6) -> dict[str, Record]:
    """The same record of so many launches."""
    return {f"{record.name}-{record.world_size}w-{number:02d}": record for number in range(times)}


@pytest.fixture
def folder(tmp_path):
    """A comparison of one strategy that got slower, one that fails and one with too few rounds."""
    slower = {
        side: {f"amber_ring-{number}": make_record("amber_ring", 2, (factor * each,)) for number, each in times}
        for side, factor, times in (("here", 1.25, enumerate(STEADY)), ("there", 1.0, enumerate(STEADY[::-1])))
    }
    broken = rounds(make_record("amber_library", 2)), rounds(unfinished("failed", "It *ended*.", "amber_library"))
    few = rounds(make_record("cobalt_single", 1, (3.0,)), 2)
    write_all(tmp_path, slower["here"] | broken[1] | few)
    write_all(tmp_path / RECORDS, slower["there"] | broken[0] | few)
    comparison.conclude(Console(quiet=True), AGAINST, tmp_path, [])
    return tmp_path


def material_in(folder: Path) -> Material:
    return Material(Results(folder, {}, None))


def test_every_setting_stands_in_the_table_with_its_verdict(folder):
    heading, said, _, table = regression.section(material_in(folder))
    assert heading["text"] == "Against commit 1111111111"
    counts = "of 3 settings: 1 slower, 1 fails here, 1 not compared."
    assert f"2222222222 with changes against main (1111111111), {counts}" in said["text"]
    assert "The gate is shut: Slower than main" in said["text"]
    assert said["text"].endswith("Both run here.")
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["amber_ring"][:6] == ["2", "digits weak", "on", "2.50", "2.00", "1.250"]
    assert rows["amber_ring"][6].startswith("1.24")
    assert rows["amber_ring"][7:] == ["6", "slower"]
    assert rows["cobalt_single"][3:] == ["3.00", "3.00", "1.000", DASH, "2", "too few rounds"]
    assert rows["amber_library"][3:] == [DASH, DASH, DASH, DASH, "0", "fails"]
    assert table["notes"] == ["amber_library with 2 workers, digits weak: failed here: It *ended* (6 of 6)."]


def test_the_section_is_in_the_document(folder):
    assert "Against commit 1111111111" in headings(document.compose(Material(read_results(folder)))[0]["blocks"], 1)


def test_a_comparison_against_nothing_has_no_section(tmp_path):
    assert regression.section(material_in(tmp_path)) == []


def test_a_damaged_table_is_refused(tmp_path):
    (tmp_path / comparison.FILE).write_text("strategy\nnone\n")
    with pytest.raises(UserError, match="has no column"):
        regression.section(material_in(tmp_path))
