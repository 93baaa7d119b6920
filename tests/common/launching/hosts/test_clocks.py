"""common/launching/hosts/clocks.py: however the ways differ, the true offset lies within the uncertainty.

What is measured of hosts whose clocks are apart is in test_survey.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.launching.hosts.clocks import Exchange, offset_of

DELAYS = st.integers(0, 10**10)
MOMENTS = st.integers(0, 10**16)
ROUNDING_SECONDS = 1e-8
"""Of a float that holds a year."""


@given(st.integers(-(10**16), 10**16), st.lists(st.tuples(MOMENTS, DELAYS, DELAYS), min_size=1))
def test_the_true_offset_lies_within_the_uncertainty_whatever_the_delays(true_ns, trips):
    exchanges = [Exchange(sent, sent + there + true_ns, sent + there + back) for sent, there, back in trips]
    estimate = offset_of(exchanges)
    assert abs(estimate.offset_seconds - true_ns / 1e9) <= estimate.uncertainty_seconds + ROUNDING_SECONDS
    assert estimate.uncertainty_seconds == pytest.approx(min(there + back for _, there, back in trips) / 2e9)
