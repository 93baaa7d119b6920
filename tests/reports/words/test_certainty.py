"""The chapter on how sure the numbers are: the machine's calibration, who isn't ranked, failures and cautions."""

import pandas as pd

from common.records import calibration
from reports.tables.material import Material
from reports.tables.results import read_results
from reports.words import certainty
from tests.reports.materials import CALIBRATED, material_of, probe
from tests.reports.pieces import items
from tests.reports.records import make_record, named, unfinished, write_all


def said(*records) -> str:
    return " ".join(items(certainty.section(material_of(*records))))


def test_a_calibration_beside_the_records_is_told_with_its_verdict(tmp_path):
    write_all(tmp_path, named(make_record()))
    before = items(certainty.section(Material(read_results(tmp_path))))
    calibration.write(tmp_path / calibration.FILE, CALIBRATED)
    after = items(certainty.section(Material(read_results(tmp_path))))
    assert any("Not calibrated here" in item for item in before)
    assert calibration.in_words(CALIBRATED) in after
    assert not any("Not calibrated here" in item for item in after)


def test_why_launches_failed_is_said_once_with_some_of_them_and_their_logs():
    failed = [unfinished("failed", "It ended with status 1.", "amber_ring") for _ in range(6)]
    told = said(make_record("amber_single"), *failed, unfinished("unsupported", "It has no GPU.", "teal_amber"))
    assert told.count("It ended with status 1.") == 1
    assert "and 3 more. It ended with status 1. (log: some.log)" in told
    assert "Unsupported: teal_amber-2w-07. It has no GPU. (log: some.log)" in told


def test_a_probe_that_measured_nothing_is_named_with_its_reason():
    ceilings = [probe(status="failed", reason="It was ended.", products=[], exchange=[])]
    told = items(certainty.section(material_of(make_record(), ceilings=ceilings)))
    assert "Not probed: amber (Amber), digits. It was ended." in told


def test_a_caution_says_where_it_was_seen_its_likely_cause_and_the_remedy():
    spread = [make_record("amber_ring", 2, (milliseconds,) * 3) for milliseconds in (2.0, 2.6)]
    assert (
        "Launches spread by more than 10 %: digits weak: amber_ring at 2 (26 %, n = 2). Likely cause: other load, "
        "shared cores or heat. Remedy: more rounds on a quiet machine."
    ) in said(*spread)


def test_the_command_that_repeats_it_ends_the_chapter():
    plan = pd.DataFrame({"launch": ["amber_ring-1w-00"], "repetition": [1], "order_seed": [4711]})
    blocks = certainty.section(material_of(make_record(), plan=plan))
    rows = dict(blocks[-1]["rows"])
    assert "shuffled with seed 4711" in rows["seeds"]
    assert "to repeat it" in rows
