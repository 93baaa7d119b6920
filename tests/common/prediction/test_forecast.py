"""common/prediction/forecast.py: the answers."""

from dataclasses import replace

import numpy as np
import pytest

from common.declarations.catalogue import find
from common.prediction.forecast import assumptions, digest_of, most_workers, predictions, scenario_of
from common.prediction.message_costs import Wire
from common.prediction.model import fit
from tests.common.prediction.made_up import make_measured, scenario


def forecast(measured, asked):
    return predictions(measured, asked, ["somewhere"]).predicted


def test_a_prediction_says_which_scenario_it_is_of():
    asked = scenario(workers=8, rows=96, wire=Wire(1e9, 0.001), crowding=2.0)
    measured = make_measured()
    found = predictions(measured, [asked], ["somewhere"])
    [row] = found.predicted
    assert scenario_of(row) == asked
    assert row.oversubscribed
    assert row.colors == [*find("torch_ddp").family.colors]
    assert (found.sources, found.assumptions) == (["somewhere"], assumptions(measured))
    assert found.digest == digest_of(fit(measured)) != digest_of(fit(make_measured(rest=0.0)))
    assert found.predicted_at.endswith("+00:00")
    assert "none takes more than 1.00 times the median" in " ".join(assumptions(replace(measured, ratios=np.array([]))))


def test_the_bandwidth_for_90_percent_is_the_least_that_gives_it():
    measured = make_measured(rest=0.0)
    asked = scenario(workers=2, rows=640, wire=Wire(1e9))
    [row] = forecast(measured, [asked])
    # Two workers compute 10 % slower beside one another, so nothing reaches 90 % but in the limit.
    assert row.bandwidth_for_90 is None
    [row] = forecast(make_measured_without_contention(), [asked])
    model = fit(make_measured_without_contention())
    for factor, reaches in ((1.01, True), (0.98, False)):
        each = scenario(workers=2, rows=640, wire=Wire(factor * row.bandwidth_for_90))
        assert (model.seconds(scenario(rows=640)) / model.seconds(each) >= 0.9) == reaches


def make_measured_without_contention():
    measured = make_measured(rest=0.0)
    for each, seconds in measured.without_exchange.items():
        gone = 0.1 / 1.1 * seconds[0]
        measured.steps[each][:] = [value - gone for value in measured.steps[each]]
        seconds[:] = [value - gone for value in seconds]
    return measured


def test_half_efficiency_is_where_doubling_crosses_it():
    [row] = forecast(make_measured(), [scenario(workers=8)])
    model = fit(make_measured())
    alone, most = model.seconds(scenario()), row.half_efficiency_workers
    assert most in [2**power for power in range(17)]
    assert alone / model.seconds(scenario(workers=most)) >= 0.5 > alone / model.seconds(scenario(workers=2 * most))


def test_with_rows_enough_efficiency_never_falls_to_half():
    [row] = forecast(make_measured(), [scenario(workers=2, rows=10**7)])
    assert row.half_efficiency_workers is None


def test_a_pipeline_has_as_many_stages_as_layers_at_most():
    assert most_workers("torch_model_parallel", "pathway") == 4
    assert most_workers("torch_ddp", "pathway") == 65_536


def test_a_step_is_the_sum_of_its_parts_within_its_bands_and_what_was_not_verified_is_extrapolated():
    rows = forecast(make_measured(), [scenario(workers=workers) for workers in (2, 4, 8, 65_536)])
    assert [row.is_extrapolated for row in rows] == [False, False, True, True]
    for row in rows:
        parts = row.computing_seconds + row.straggling_seconds + row.exchange_seconds + row.rest_seconds
        assert parts == pytest.approx(row.seconds)
        assert row.low_95 <= row.low_80 <= row.seconds <= row.high_80 <= row.high_95
    assert rows[-1].efficiency < 0.01
