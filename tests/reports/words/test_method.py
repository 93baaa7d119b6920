"""reports/words/method.py: what the section on the method says of the machine's calibration."""

import pytest

from common.records import calibration
from common.records.calibration import Calibration
from reports.tables.material import Material
from reports.tables.results import read_results
from reports.words import method
from tests.reports.records import make_record, named, write_all


@pytest.fixture
def method_in(tmp_path):
    """A function that gives the items of the method section of a comparison with this file beside its records."""

    def items(made=None):
        if made:
            calibration.write(tmp_path / calibration.FILE, made)
        results = read_results(write_all(tmp_path, named(make_record())))
        [found] = [block["items"] for block in method.section(Material(results)) if block["kind"] == "items"]
        return found

    return items


def test_a_calibration_beside_the_records_is_told_with_its_verdict(method_in):
    known = Calibration(
        **{
            "date": "2026-01-02",
            "commit": "0123456789",
            "processor": "Some CPU",
            "cores": 2,
            "strategy": "amber_single",
        },
        **{"workers": 1, "order_seed": 7, "rounds": 180, "blocks": 30, "alarms": 2, "alarms_bound": 0.2207},
        **{"spread": 0.01, "long_blocks": 18, "found": 18, "busy_share": 0.05, "smallest_difference": 0.0146},
    )
    assert calibration.in_words(known) in method_in(known)
    assert not any("Not calibrated here" in item for item in method_in(known))
