"""Every strategy, started as a user starts it, against the float64 oracle."""

import dataclasses

import pytest

from common.catalogue import strategies
from tests.contract.worlds import contract_task, has_replicas_with_exchange, largest_worlds, worlds

GRID = [
    pytest.param("pathway", {}, id="pathway"),
    pytest.param("pathway", {"scaling": "weak"}, id="pathway-weak"),
    pytest.param("pathway", {"batch": 60, "decay_steps": 50, "bias": True}, id="pathway-bias-short_decay"),
    pytest.param("digits", {"momentum": 0.9, "weight_decay": 0.01, "seed": 2}, id="digits-momentum-weight_decay"),
    pytest.param("digits", {"activation": "tanh", "dimensions": (64, 32, 10)}, id="digits-tanh-two_layers"),
    pytest.param("wide", {"batch": 64, "steps": 20, "warmup_steps": 5, "activation": "tanh"}, id="wide-tanh"),
]
LAUNCHES_OF_THE_GRID = [
    pytest.param(*world, *case.values, id=f"{world[0]}-{world[1]}-{case.id}")
    for case in GRID
    for world in worlds(case.values[0], **case.values[1])
]


def assert_follows(launched, deviation) -> None:
    assert launched.status == 0, launched.output
    assert deviation.follows, deviation


def launch_synchronously(launch, strategy, task, name="run"):
    return launch(strategy, task, name, **strategies()[strategy].synchronous_with)


@pytest.mark.parametrize(("strategy", "workers"), worlds("digits"))
def test_a_strategy_follows_the_oracle_on_digits(strategy, workers, launch, deviation_of, tmp_path):
    launched = launch_synchronously(launch, strategy, contract_task("digits", workers, tmp_path))
    assert_follows(launched, deviation_of(launched))
    assert launched.record.world_size == workers


@pytest.mark.parametrize(("strategy", "workers"), largest_worlds("pathway"))
def test_a_strategy_follows_the_oracle_on_pathway(strategy, workers, launch, deviation_of, tmp_path):
    launched = launch_synchronously(launch, strategy, contract_task("pathway", workers, tmp_path))
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "workers", "preset", "overrides"), LAUNCHES_OF_THE_GRID)
def test_the_grid_follows_the_oracle(strategy, workers, preset, overrides, launch, deviation_of, tmp_path):
    launched = launch_synchronously(launch, strategy, contract_task(preset, workers, tmp_path, **overrides))
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "workers"), largest_worlds("digits"))
def test_a_resumed_run_follows_the_oracle_as_an_uninterrupted_one_does(
    strategy, workers, launch, deviation_of, tmp_path
):
    optimizer = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05}
    if (strategy, workers) not in worlds("digits", **optimizer):
        optimizer = {"momentum": 0.5}
    task = contract_task("digits", workers, tmp_path, **optimizer)
    first = launch_synchronously(launch, strategy, dataclasses.replace(task, steps=60), "first")
    assert first.status == 0, first.output
    second = launch_synchronously(launch, strategy, task, "second")
    assert second.record.first_step == 60
    assert_follows(second, deviation_of(second))


@pytest.mark.parametrize(
    ("strategy", "workers"), [world for world in largest_worlds("digits") if has_replicas_with_exchange(world[0])]
)
def test_without_exchange_the_replicas_drift_from_the_oracle(strategy, workers, launch, deviation_of, tmp_path):
    task = contract_task("digits", workers, tmp_path)
    launched = launch(strategy, task, exchange=False, **strategies()[strategy].synchronous_with)
    assert launched.status == 0, launched.output
    assert not deviation_of(launched).follows
