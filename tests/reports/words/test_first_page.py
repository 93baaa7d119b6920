"""The first page: answers that are true for any records."""

from common.records import calibration
from common.records.manifest import Differences
from common.records.training import Record
from reports.tables.results import Origin
from reports.words import first_page
from tests.reports.materials import CALIBRATED, material_of
from tests.reports.pieces import answers
from tests.reports.records import in_rounds, make_record, unfinished


def figure(*records: Record) -> dict:
    """The figure of the first page."""
    return next(block for block in first_page.section(material_of(*records)) if block["kind"] == "figure")


def ending(tmp_path, *records: Record, **facts: object) -> dict[str, list[str]]:
    """The sentences at the end of the page, by the question that they answer."""
    return answers(first_page.section(material_of(*records, folder=tmp_path, **facts)))


def test_the_sentence_and_the_table_come_first_and_the_figure_says_what_is_oversubscribed():
    records = [make_record("amber_ring", 2), make_record("amber_ring", 4)]
    blocks = first_page.section(material_of(*records))
    assert [block["kind"] for block in blocks] == ["heading", "headline", "text", "table", "figure", "answers"]
    assert "more threads" not in blocks[4]["caption"]
    assert "\N{DAGGER} more threads than cores." in figure(records[1])["caption"]


def test_the_figure_has_the_strategies_of_the_table_and_their_bases_with_one_worker():
    records = [make_record("amber_ring", workers) for workers in (1, 2)]
    shown = figure(make_record("amber_single"), make_record("cobalt_single"), *records)
    [cells, launches, _] = shown["draw"].args
    assert [*zip(cells["strategy"], cells["workers"], strict=True)] == [("amber_ring", 2), ("amber_single", 1)]
    assert len(launches) == 2
    assert "Pale: one worker of a base." in shown["caption"]


def test_the_last_lines_are_three_on_certainty_and_two_commands(tmp_path):
    records = [*in_rounds("amber_ring", 3.0), *in_rounds("amber_library", 4.0)]
    told = ending(tmp_path, *records)
    assert ([*told], len(told["How sure"])) == (["How sure", "What next"], 3)
    trains = "nox -s amber_ring: trains with it; -- --help lists its options."
    calibrates = "nox -s calibrate tells whether these tests keep their promises on this machine."
    assert told["What next"] == [calibrates, trains]
    calibration.write(tmp_path / calibration.FILE, CALIBRATED)
    assert ending(tmp_path, *records)["What next"] == [trains]
    few = ending(tmp_path, *records[:5], *records[6:11])
    assert few["What next"][0].startswith("nox -s compare -- --repetitions 6: ")


def test_what_is_missing_which_files_differ_and_how_many_cautions_there_are_stand_on_the_first_page_as_well(tmp_path):
    refused = unfinished("unsupported", "It has no ring: install one.", "amber_library")
    launch = make_record("amber_ring", 2, git_commit="0123+changes")
    changed = Differences(exists=True, changed=("amber_ring-0.json",))
    facts = {"origin": Origin(differences=changed), "left_out": {"teal_amber": 11.2}}
    sure = ending(tmp_path, launch, refused, **facts)["How sure"]
    assert sure[0] == "amber_ring-0.json differs from what its launch left."
    assert sure[-3].startswith("2 launches were recorded, without a plan: 1 ok, 1 unsupported, 0 failed, 0 not run.")
    assert sure[-3].endswith("Cautions, in \u201cHow sure\u201d: 2.")
    assert sure[-2] == "Not compared: amber_library. It has no ring: install one."
    assert sure[-1] == "The time didn't suffice for teal_amber (--minutes 12 would do)."
