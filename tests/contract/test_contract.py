"""Every strategy against the float64 oracle: started as a user starts it, and in the grid one case after the other."""

import dataclasses
from functools import cache

import pytest

from common.catalogue import strategies
from common.measurement.record import read_record
from tests.conftest import Launched
from tests.contract.worlds import contract_task, has_replicas_with_exchange, largest_worlds, train_all, worlds

GRID = {
    "pathway": ("pathway", {}),
    "pathway-weak": ("pathway", {"scaling": "weak"}),
    "pathway-bias-short_decay": ("pathway", {"batch": 60, "decay_steps": 50, "bias": True}),
    "digits-momentum-weight_decay": ("digits", {"momentum": 0.9, "weight_decay": 0.01, "seed": 2}),
    "digits-tanh-two_layers": ("digits", {"activation": "tanh", "dimensions": (64, 32, 10)}),
    "wide-tanh": ("wide", {"batch": 64, "steps": 20, "warmup_steps": 5, "activation": "tanh"}),
}
RESUMED = ("interrupted", "resumed")


@cache
def grid_of(strategy: str, workers: int) -> dict[str, tuple[str, dict]]:
    """The cases of the grid that the strategy can have with so many workers: preset, and what of it is different."""
    cases = {
        name: (preset, overrides)
        for name, (preset, overrides) in GRID.items()
        if (strategy, workers) in worlds(preset, **overrides)
    }
    if (strategy, workers) in largest_worlds("digits"):
        optimizer = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05}
        if (strategy, workers) not in worlds("digits", **optimizer):
            optimizer = {"momentum": 0.5}
        cases |= zip(RESUMED, (("digits", optimizer | {"steps": 60}), ("digits", optimizer)), strict=True)
    return cases


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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that trains all cases of a world in the grid, joining it once, and returns what one of them left."""
    folders = {}

    def train(strategy, workers):
        folder = folders[strategy, workers] = tmp_path_factory.mktemp("grid")
        tasks = []
        for name, (preset, overrides) in grid_of(strategy, workers).items():
            task = contract_task(preset, workers, folder, **overrides)
            weights = folder / f"{'state' if name in RESUMED else name}.safetensors"
            record = folder / f"{name}.json"
            tasks.append(dataclasses.replace(task, record=record, checkpoint=weights, deadline_seconds=900))
        return train_all(strategies()[strategy], tasks)

    outcome_of = cache(train)

    def what_is_left(strategy, workers, case):
        status, output = outcome_of(strategy, workers)
        assert status == 0, output
        folder = folders[strategy, workers]
        return Launched(status, output, read_record(folder / f"{case}.json"), folder)

    return what_is_left


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "workers", "case"),
    [
        (*world, case)
        for world in dict.fromkeys([*worlds("digits"), *worlds("pathway")])
        for case in grid_of(*world)
        if case not in RESUMED
    ],
)
def test_the_grid_follows_the_oracle(strategy, workers, case, trained, deviation_of):
    launched = trained(strategy, workers, case)
    assert_follows(launched, deviation_of(launched))
    assert launched.record.world_size == workers


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "workers"), largest_worlds("digits"))
def test_a_resumed_run_follows_the_oracle_as_an_uninterrupted_one_does(strategy, workers, trained, deviation_of):
    assert trained(strategy, workers, "interrupted").record.first_step == 0
    launched = trained(strategy, workers, "resumed")
    assert launched.record.first_step == 60
    assert_follows(launched, deviation_of(launched))


@pytest.mark.parametrize(
    ("strategy", "workers"), [world for world in largest_worlds("digits") if has_replicas_with_exchange(world[0])]
)
def test_without_exchange_the_replicas_drift_from_the_oracle(strategy, workers, launch, deviation_of, tmp_path):
    task = contract_task("digits", workers, tmp_path)
    launched = launch(strategy, task, exchange=False, **strategies()[strategy].synchronous_with)
    assert launched.status == 0, launched.output
    assert not deviation_of(launched).follows
