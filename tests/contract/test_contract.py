"""Every strategy, started as a user starts it, against the float64 oracle."""

import dataclasses
from contextlib import suppress

import pytest

from common.config import MODEL_PARALLEL, PRESETS, check_layout
from common.errors import UserError
from common.launch import UNDISTRIBUTED, strategies
from tests.conftest import DEADLINE_SECONDS

DIGITS_SEED = 3
"""With this seed the oracle on digits meets no kink: no pre-activation so near to zero that float32 may flip it."""

WORLDS = [
    (name, workers) for name in strategies() for workers in (1, 2, 4) if workers == 1 or name not in UNDISTRIBUTED
]
SYNCHRONOUS = {"tf_parameter_server": {"updates": "synchronous"}}
"""What makes a strategy follow the oracle that doesn't by default."""

GRID = [
    pytest.param("pathway", {}, id="pathway"),
    pytest.param("pathway", {"scaling": "weak"}, id="pathway-weak"),
    pytest.param("pathway", {"batch": 60, "decay_steps": 50, "bias": True}, id="pathway-bias-short_decay"),
    pytest.param("digits", {"momentum": 0.9, "weight_decay": 0.01, "seed": 2}, id="digits-momentum-weight_decay"),
    pytest.param("digits", {"activation": "tanh", "dimensions": (64, 32, 10)}, id="digits-tanh-two_layers"),
    pytest.param("wide", {"batch": 64, "steps": 20, "warmup_steps": 5, "activation": "tanh"}, id="wide-tanh"),
]
REFUSED = {"tf_keras_mirrored": "momentum-weight_decay", "horovod_keras": "momentum-weight_decay"}
"""Cases that a strategy refuses, as its own tests show: Keras's SGD computes something else there."""


def can_be_laid_out(strategy, workers, preset, **overrides):
    """Whether the layers can be divided among so many parts of the model, where the strategy divides it."""
    with suppress(UserError):
        check_layout(dataclasses.replace(PRESETS[preset], **overrides), strategy, workers)
        return True
    return False


CELLS = [
    pytest.param(*world, *case.values, id=f"{world[0]}-{world[1]}-{case.id}")
    for case in GRID
    for world in WORLDS
    if not case.id.endswith(REFUSED.get(world[0], "nothing"))
    and can_be_laid_out(*world, case.values[0], **case.values[1])
]
LARGEST_CERTAIN = [(name, 1 if name in UNDISTRIBUTED else 2) for name in strategies()]

WITH_EXCHANGE = [(name, workers) for name, workers in LARGEST_CERTAIN if workers > 1 and name not in MODEL_PARALLEL]


OVER_MPI = [
    pytest.param(
        *(strategy, workers, preset),
        marks=[] if (workers, preset) == (2, "digits") else [pytest.mark.grid],
        id=f"{strategy}-{workers}-{preset}",
    )
    for strategy in strategies()
    if strategy.startswith("horovod_")
    for workers in (1, 2, 4)
    for preset in ("digits", "pathway")
]


def contract_config(preset: str, workers: int, folder, **overrides):
    seed = DIGITS_SEED if preset == "digits" else 0
    values = {"steps": 100, "warmup_steps": 20, "seed": seed, "workers": workers, "scaling": "strong"} | overrides
    return dataclasses.replace(
        PRESETS[preset], deadline_seconds=DEADLINE_SECONDS, checkpoint=folder / "weights.safetensors", **values
    )


def assert_follows(launched, deviation) -> None:
    assert launched.status == 0, launched.output
    assert deviation.follows, deviation


@pytest.mark.parametrize(("strategy", "workers"), [world for world in WORLDS if can_be_laid_out(*world, "digits")])
def test_a_strategy_follows_the_oracle_on_digits(strategy, workers, launch, deviation_of, tmp_path):
    launched = launch(strategy, contract_config("digits", workers, tmp_path, **SYNCHRONOUS.get(strategy, {})))
    assert_follows(launched, deviation_of(launched))
    assert launched.record.world_size == workers


@pytest.mark.parametrize(("strategy", "workers"), LARGEST_CERTAIN)
def test_a_strategy_follows_the_oracle_on_pathway(strategy, workers, launch, deviation_of, tmp_path):
    launched = launch(strategy, contract_config("pathway", workers, tmp_path, **SYNCHRONOUS.get(strategy, {})))
    assert_follows(launched, deviation_of(launched))


@pytest.mark.parametrize(("strategy", "workers", "preset"), OVER_MPI)
def test_horovod_over_mpi_follows_the_oracle(strategy, workers, preset, launch, deviation_of, tmp_path):
    launched = launch(strategy, contract_config(preset, workers, tmp_path, backend="mpi"))
    assert_follows(launched, deviation_of(launched))
    assert (launched.record.backend, launched.record.world_size) == ("mpi", workers)


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "workers", "preset", "overrides"), CELLS)
def test_the_grid_follows_the_oracle(strategy, workers, preset, overrides, launch, deviation_of, tmp_path):
    launched = launch(
        strategy, contract_config(preset, workers, tmp_path, **SYNCHRONOUS.get(strategy, {}), **overrides)
    )
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "workers"), LARGEST_CERTAIN)
def test_a_resumed_run_follows_the_oracle_as_an_uninterrupted_one_does(
    strategy, workers, launch, deviation_of, tmp_path
):
    optimizer = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05}
    if strategy in REFUSED:
        optimizer = {"momentum": 0.5}
    config = contract_config("digits", workers, tmp_path, **SYNCHRONOUS.get(strategy, {}), **optimizer)
    first = launch(strategy, dataclasses.replace(config, steps=60), "first")
    assert first.status == 0, first.output
    second = launch(strategy, config, "second")
    assert second.record.first_step == 60
    assert_follows(second, deviation_of(second))


@pytest.mark.parametrize(("strategy", "workers"), WITH_EXCHANGE)
def test_without_exchange_the_replicas_drift_from_the_oracle(strategy, workers, launch, deviation_of, tmp_path):
    launched = launch(strategy, contract_config("digits", workers, tmp_path, exchange=False))
    assert launched.status == 0, launched.output
    assert not deviation_of(launched).follows
