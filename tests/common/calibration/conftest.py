"""What the tests of the calibration share: one that holds."""

import pytest

from common.calibration.verdict import Calibration


@pytest.fixture
def make_calibration():
    """A function that makes a calibration whose promises hold, with the changes that it is given."""

    def make(**changes):
        values = {
            **{"date": "2026-01-02", "commit": "0123456789", "processor": "Some CPU, fast", "cores": 2},
            **{"strategy": "numpy_alone", "workers": 1, "order_seed": 7, "rounds": 180, "blocks": 30, "alarms": 2},
            **{"alarms_bound": 0.2207, "spread": 0.0125, "long_blocks": 18, "found": 18, "busy_share": 0.0512},
            **{"smallest_difference": 0.0146, "families": 10_000, "false_different": 0.0516, "false_alike": 0.049},
        }
        return Calibration(**values | changes)

    return make
