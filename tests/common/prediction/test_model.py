"""common/prediction/model.py: parameters from what was measured, and what they predict."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from common.prediction.message_costs import Wire
from common.prediction.model import bands, fit, slowest_of
from tests.common.prediction.made_up import (
    ALPHA,
    GAMMA,
    PER_ROW,
    REST,
    SIZE,
    exchange_seconds,
    make_measured,
    scenario,
)


@pytest.fixture
def model():
    return fit(make_measured())


EXCHANGE = exchange_seconds(2)


@pytest.mark.parametrize(
    ("rest", "factor", "overhead", "left"),
    [
        (REST, 1 + REST / EXCHANGE, REST, 0),
        (-0.5 * EXCHANGE, 0.5, 0, 0),
        (-0.0035, 0.05, 0, EXCHANGE - 0.0035 - 0.05 * EXCHANGE),
    ],
    ids=["as the library", "less than the library", "no exchange that shows"],
)
def test_messages_cost_what_they_do_in_the_library_or_less_where_two_workers_take_less(rest, factor, overhead, left):
    fitted = fit(make_measured(rest=rest)).strategies["torch_ddp"]
    assert (fitted.factor, fitted.rest_seconds) == pytest.approx((factor, left))
    assert fitted.costs.alpha_seconds == pytest.approx(min(factor, 1) * ALPHA)
    assert fitted.costs.gamma_seconds_per_byte == pytest.approx(min(factor, 1) * GAMMA)
    assert fitted.costs.overhead_seconds == pytest.approx(overhead)


def test_one_worker_takes_what_one_took(model):
    assert model.seconds(scenario(workers=1, rows=96)) == pytest.approx(PER_ROW * 96)


@pytest.mark.parametrize("workers", [2, 4, 64, 1024])
def test_two_workers_take_what_they_took_and_more_the_ring_of_more(model, workers):
    expected = 1.1 * PER_ROW * 64 + REST + exchange_seconds(workers)
    assert model.seconds(scenario(workers=workers)) == pytest.approx(expected)


def test_a_slow_link_takes_what_its_bits_do(model):
    wire = Wire(100e6, 0.001)
    # Each message first asks, and then sends.
    waiting = REST + 2 * (ALPHA + 2 * 0.001) + SIZE * 8 / 100e6 * 1514 / 1448
    assert model.seconds(scenario(workers=2, wire=wire)) == pytest.approx(1.1 * PER_ROW * 64 + waiting)


def test_a_ring_whose_ranks_ask_ahead_waits_twice_for_the_first_message_of_a_pass_alone(model):
    def waiting(strategy: str) -> float:
        far, near = (scenario(strategy, 4, wire=Wire(latency_seconds=each)) for each in (0.01, 0.0))
        return (model.seconds(far) - model.seconds(near)) / 0.01

    assert waiting("torch_ddp") == pytest.approx(12)
    assert waiting("tf_multi_worker_mirrored") == pytest.approx(8)


def test_a_token_bucket_fills_while_ranks_compute(model):
    beta = 8 / 100e6 * 1514 / 1448
    whole = model.seconds(scenario(workers=2, wire=Wire(100e6)))
    # What it lets through at once is free, as long as the wire isn't always busy.
    few = model.seconds(scenario(workers=2, wire=Wire(100e6, burst_bytes=1000)))
    assert few == pytest.approx(whole - 2 * 1000 * beta - 1000 * beta)
    assert model.seconds(scenario(workers=2, wire=Wire(100e6, burst_bytes=SIZE))) == pytest.approx(SIZE * beta)
    # Nor is a step shorter than over a wire that is never waited for.
    unlimited = model.seconds(scenario(workers=2))
    assert model.seconds(scenario(workers=2, wire=Wire(1e12, burst_bytes=SIZE))) == pytest.approx(unlimited)


@pytest.mark.parametrize(("busy", "times"), [(0.0, 1.0), (0.5, 2**0.5), (1.0, 2.0)])
def test_where_cores_are_shared_computing_and_copying_take_longer(model, busy, times):
    shared = model.seconds(scenario(workers=4, crowding=2.0), busy=busy)
    latency, copying = REST + 6 * ALPHA, exchange_seconds(4) - 6 * ALPHA
    assert shared == pytest.approx(2 * 1.1 * PER_ROW * 64 + times * latency + 2 * copying)


def test_crowding_counts_from_that_of_the_two_workers_that_were_measured():
    measured = make_measured()
    crowded = {dataclasses.replace(each, crowding=1.5): seconds for each, seconds in measured.steps.items()}
    model = fit(dataclasses.replace(measured, steps=crowded))
    alike = model.seconds(scenario(workers=4, crowding=1.5))
    assert alike == pytest.approx(fit(measured).seconds(scenario(workers=4)))


def test_an_all_reduce_of_what_is_fused_waited_for_a_cycle_and_for_another_one():
    measured = make_measured()
    exchanges = {size: [0.0005 + 4 * ALPHA + size * GAMMA] * 3 for size in (8, 4096, 2**20, 2**22)}
    steps = {dataclasses.replace(each, strategy="horovod_torch"): own for each, own in measured.steps.items()}
    model = fit(dataclasses.replace(measured, steps=steps, exchanges={"horovod_gloo": exchanges}))
    assert model.strategies["horovod_torch"].costs.alpha_seconds == pytest.approx(ALPHA)


def test_the_slowest_of_many_is_the_expected_maximum():
    ratios = np.array([0.9, 1.0, 1.4])
    assert slowest_of(ratios, 1) == pytest.approx(1.1)
    # Of two draws (1/3)^2 are both the least, and (2/3)^2 both below the largest.
    assert slowest_of(ratios, 2) == pytest.approx(0.9 / 9 + 1.0 * 3 / 9 + 1.4 * 5 / 9)
    assert slowest_of(ratios, 1024) == pytest.approx(1.4)


def test_stragglers_make_computing_longer_the_more_workers_there_are():
    model = fit(dataclasses.replace(make_measured(), ratios=np.linspace(0.9, 1.2, 100)))
    parts = [model.parts(scenario(workers=workers)) for workers in (2, 4, 1024)]
    assert parts[0].straggling_seconds == pytest.approx(0)
    assert 0 < parts[1].straggling_seconds < parts[2].straggling_seconds
    assert [each.computing_seconds for each in parts] == pytest.approx([1.1 * each.alone_seconds for each in parts])


def test_without_a_second_batch_computing_is_in_proportion_to_the_rows():
    measured = make_measured()
    steps = {each: seconds for each, seconds in measured.steps.items() if each.rows == 64}
    model = fit(dataclasses.replace(measured, steps=steps))
    assert model.seconds(scenario(rows=128)) == pytest.approx(PER_ROW * 128)


def test_bands_hold_how_launches_differ_widened_since_a_median_of_three_is_near_each_of_them():
    measured, asked = make_measured(launches=1), scenario(workers=8)
    # Of a configuration to which no parameter is fitted.
    noisy = {scenario(workers=4): np.exp([-0.3, 0.0, 0.3]).tolist()}
    found = bands(dataclasses.replace(measured, steps={**measured.steps, **noisy}), [asked])[asked]
    middle, widened = fit(measured).seconds(asked), np.exp(0.3 * np.sqrt(3 / 2))
    assert found == pytest.approx([middle / widened, middle * widened] * 2)


@pytest.mark.parametrize("ratios", [{"tf_multi_worker_mirrored": 1.5, "torch_lightning_ddp": 1 / 1.5}, {}])
def test_80_and_95_percent_of_draws_from_the_spread_of_factors_lie_in_their_bands(ratios):
    measured, asked = make_measured(rest=0.0, launches=1), scenario(workers=8)
    steps = {each: seconds for each, seconds in measured.steps.items() if each.strategy in {"torch_ddp", *ratios}}
    for name, ratio in ratios.items():
        steps[scenario(name, 2)] = [steps[scenario(workers=2)][0] + (ratio - 1) * exchange_seconds(2)]
    found = bands(dataclasses.replace(measured, steps=steps), [asked])[asked]
    factors = (np.array(found) - 1.1 * PER_ROW * 64) / exchange_seconds(8)
    # Log 1.5 lies between the quartiles of three, which is 0.3 deviations; so many are usual where there is one.
    # A normal distribution's percentiles are from a table.
    assert np.log(factors) / 0.3 == pytest.approx([-1.2816, 1.2816, -1.96, 1.96], abs=0.3)


def test_bands_hold_what_other_launches_of_the_library_would_have_been_fitted_to():
    measured, asked = make_measured(), scenario(workers=64)
    exchanges = {size: [0.8 * own[0], own[0], 1.2 * own[0]] for size, own in measured.exchanges["gloo"].items()}
    varied = dataclasses.replace(measured, exchanges=dict.fromkeys(measured.exchanges, exchanges))
    (low_80, high_80, low_95, high_95), seconds = bands(varied, [asked])[asked], fit(varied).seconds(asked)
    assert low_95 <= low_80 < 0.98 * seconds < 1.02 * seconds < high_80 <= high_95


def test_where_cores_are_shared_bands_hold_any_part_of_latency_that_is_processor_time():
    measured, asked = make_measured(launches=1), scenario(workers=4, crowding=2.0)
    expected = [fit(measured).seconds(asked, busy=busy) for busy in (0.1, 0.9, 0.025, 0.975)]
    alone = fit(measured).seconds(asked, busy=0.0)
    assert np.array(bands(measured, [asked])[asked]) - alone == pytest.approx(np.array(expected) - alone, rel=0.5)


def test_a_preset_that_was_not_measured_is_refused(model):
    with pytest.raises(UserError, match="torch_ddp wasn't measured on wide"):
        model.seconds(dataclasses.replace(scenario(workers=4), preset="wide"))


@pytest.mark.parametrize("missing", ["exchanges", "steps"])
def test_without_anything_measured_the_way_out_is_named(missing):
    with pytest.raises(UserError, match="run `nox -s compare` and `nox -s collectives`"):
        fit(dataclasses.replace(make_measured(), **{missing: {}}))


def test_two_workers_are_never_faster_than_themselves():
    # Times a number and over it again, some of these seconds come out below themselves.
    model = fit(dataclasses.replace(make_measured(), ratios=np.array([0.9, 1.0, 1.13])))
    parts = [model.parts(scenario(workers=2, rows=rows)) for rows in range(1, 500)]
    assert min(each.straggling_seconds for each in parts) >= 0
