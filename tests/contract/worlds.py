"""What the contract tests launch: every strategy with every number of workers, task and option that it can have."""

import dataclasses
from contextlib import suppress
from pathlib import Path

from common.catalogue import strategies
from common.contract.rows import share_of
from common.contract.task import PRESETS, Task
from common.errors import UserError
from common.strategy import Options, Strategy, Work
from tests.conftest import DEADLINE_SECONDS

DIGITS_SEED = 3
"""With this seed the oracle on digits meets no kink: no pre-activation so near to zero that float32 may flip it."""


def contract_task(preset: str, workers: int, folder: Path, **overrides: object) -> Task:
    """What a strategy is to compute in so many workers, with its final weights in the folder."""
    seed = DIGITS_SEED if preset == "digits" else 0
    values = {"steps": 100, "warmup_steps": 20, "seed": seed, "workers": workers, "scaling": "strong"} | overrides
    return dataclasses.replace(
        PRESETS[preset], deadline_seconds=DEADLINE_SECONDS, checkpoint=folder / "weights.safetensors", **values
    )


def can_have(strategy: Strategy, workers: int, options: Options, preset: str, **overrides: object) -> bool:
    """Whether the strategy takes this task and these options with so many workers, on a machine without GPUs."""
    with suppress(UserError):
        task = contract_task(preset, workers, Path(), **overrides)
        strategy.check(task, options, workers, 0)
        share_of(task, strategy.work, strategy.is_synchronous(options), 0, workers)
        return strategy.most_workers is None or workers <= strategy.most_workers
    return False


def worlds(preset: str, counts: tuple[int, ...] = (1, 2, 4), **overrides: object) -> list[tuple[str, int]]:
    """Every strategy with each of these numbers of workers that it takes the task with."""
    return [
        (name, workers)
        for name, strategy in strategies().items()
        for workers in counts
        if can_have(strategy, workers, synchronous(strategy), preset, **overrides)
    ]


def largest_worlds(preset: str) -> list[tuple[str, int]]:
    """Every strategy with two workers, or with one where it takes no more."""
    return list(dict(worlds(preset, (1, 2))).items())


def synchronous(strategy: Strategy, **options: object) -> Options:
    """The strategy's options with which it follows the oracle."""
    return strategy.options(**strategy.synchronous_with, **options)


def options_to_try(other_maths: bool) -> list[tuple[str, str, object]]:
    """Every strategy with each option, and each of its values, that the declaration says is to be tried."""
    return [
        (name, field.name, value)
        for name, strategy in strategies().items()
        for field in dataclasses.fields(strategy.options)
        for value in field.metadata["tried"]
        if field.metadata["other_maths"] is other_maths
    ]


def has_replicas_with_exchange(name: str) -> bool:
    """Whether the strategy's workers could go on without exchanging gradients."""
    return hasattr(strategies()[name].options, "exchange")


def has_copies(name: str) -> bool:
    """Whether every worker of the strategy has weights of its own in a process of its own, which could start apart."""
    return strategies()[name].work is Work.DATA_PARALLEL
