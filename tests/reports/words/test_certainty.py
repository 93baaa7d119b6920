"""The chapter on how sure the numbers are: what made them less certain, and what it takes to repeat them."""

from common.records import calibration
from common.records.training import Record
from reports.words import certainty
from tests.changes import changed
from tests.reports.materials import CALIBRATED, material_of, probe
from tests.reports.pieces import items
from tests.reports.records import HOST, make_record, mistaken, named, unfinished


def cautions_of(*records: Record) -> list[str]:
    return certainty.cautions(material_of(*records).launches, named(*records))


def test_several_machines_and_variables_that_python_obeys_are_cautions_where_they_may_change_figures():
    harmless = make_record("amber_ring", 2, python_variables={"PYTHONPATH": "/opt/tools", "PYTHONHASHSEED": "0"})
    slow = make_record("amber_ring", 4, python_variables={"PYTHONDEVMODE": "1", "PYTHONPATH": "/opt/tools"})
    assert "PYTHONDEVMODE" not in str(cautions_of(harmless))
    assert "Python's own variables were set: PYTHONDEVMODE=1. Likely" in str(cautions_of(harmless, slow))
    assert "Several machines" not in str(cautions_of(harmless, slow))
    machines = "here (2 cores of Some CPU); there (2 cores of Some CPU)"
    there = make_record(host=HOST | {"name": "there"})
    assert f"Several machines: {machines}. Likely cause: " in str(cautions_of(make_record(), there))


def test_launches_of_other_code_and_other_versions_are_cautioned():
    old, new = (make_record(git_commit=letter * 40, versions={"torch": letter}) for letter in "ab")
    touched = make_record(git_commit="b" * 40 + "+0123", versions={"torch": "b"})
    assert not [each for each in cautions_of(old, old) if "code" in each or "versions" in each]
    code = "Launches of changed or different code: "
    mixed, versions = (each.partition(". ")[0] for each in cautions_of(old, new)[-2:])
    assert mixed == f"{code}{'a' * 12}; {'b' * 12}"
    assert versions == "Several versions of one library: torch a, b"
    assert cautions_of(touched)[-1].startswith(f"{code}{'b' * 12}+changes. ")


def test_an_outlying_launch_a_slow_start_and_a_wide_spread_are_each_cautioned():
    steady = [make_record("amber_ring", 1, (2.0 + index / 1000,) * 4) for index in range(6)]
    outlying = make_record("amber_ring", 1, (4.0,) * 4)
    slow_start = make_record("amber_single", 1, (3.0, 2.0, 2.0, 2.0))
    found = dict(each.split(": ", 1) for each in cautions_of(*steady, outlying, slow_start))
    assert "amber_ring at 1 (2.00 times the median)" in found["An outlying launch"]
    assert found["Launches spread by more than 10 %"] == (
        "digits weak: amber_ring at 1 (100 %, n = 7). Likely cause: other load, shared cores or heat. Remedy: more "
        "rounds on a quiet machine."
    )
    assert "amber_single at 1" in found["First windows slower than later ones"]
    near = [(2.0, 2.1, 2.2, 2.3, 2.4, 2.2, 2.55), (2.0, 2.0, 2.001, 2.001, 2.002, 2.002, 2.1)]
    for times in near:
        records = [make_record("amber_ring", 1, (time,) * 4) for time in times]
        assert not [each for each in cautions_of(*records) if each.startswith("An outlying launch")]
    assert all(" Likely cause: " in each and " Remedy: " in each for each in found.values())


def test_a_calibration_beside_the_records_is_told_with_its_verdict(tmp_path):
    before = items(certainty.section(material_of(make_record(), folder=tmp_path)))
    calibration.write(tmp_path / calibration.FILE, CALIBRATED)
    after = items(certainty.section(material_of(make_record(), folder=tmp_path)))
    assert any("Not calibrated here" in item for item in before)
    assert calibration.in_words(CALIBRATED) in after
    assert not any("Not calibrated here" in item for item in after)


def test_why_launches_and_probes_failed_is_said_once_with_some_of_them_and_their_logs():
    failed = [unfinished("failed", "It ended with status 1.", "amber_ring") for _ in range(6)]
    failed = [changed(each, log=f"{place}.log") for place, each in enumerate(failed)]
    refused = changed(unfinished("unsupported", "It has no GPU.", "teal_amber"), log=None)
    records = [make_record("amber_single"), *failed, refused, mistaken(make_record("amber_ring", 4))]
    ceilings = [probe(status="failed", reason="It was ended.", products=[], exchange=[])]
    section = certainty.section(material_of(*records, ceilings=ceilings))
    told = items(section)
    assert [each.partition("and 3 more. ")[2] for each in told if "status 1" in each] == [
        "It ended with status 1. (log: 0.log, 1.log, 2.log and 3 more)"
    ]
    assert "Unsupported: teal_amber-2w-07. It has no GPU." in told
    assert [each for each in told if each.endswith(": amber_ring at 4, for not following the oracle.")]
    assert section[-1]["small"], "The table of machine and versions."
    assert "Not probed: amber (Amber), digits. It was ended." in told
