"""What the contract tests launch: every strategy with every number of workers, task and option that it can have."""

import dataclasses
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from common.catalogue import strategies
from common.contract.rows import share_of
from common.contract.task import PRESETS, Task, to_arguments
from common.errors import UserError
from common.launch import command_for, environment_for
from common.processes import free_ports
from common.strategy import Options, Strategy, Work
from tests.conftest import DEADLINE_SECONDS, run_command

DIGITS_SEED = 3
"""With this seed the oracle on digits meets no kink: no pre-activation so near to zero that float32 may flip it."""


def contract_task(preset: str, workers: int, folder: Path, **overrides: object) -> Task:
    """What a strategy is to compute in so many workers, with its final weights in the folder."""
    seed = DIGITS_SEED if preset == "digits" else 0
    values = {"steps": 100, "warmup_steps": 20, "seed": seed, "workers": workers, "scaling": "strong"} | overrides
    return dataclasses.replace(
        PRESETS[preset], deadline_seconds=DEADLINE_SECONDS, checkpoint=folder / "weights.safetensors", **values
    )


def train_all(strategy: Strategy, tasks: Sequence[Task]) -> tuple[int, str]:
    """Exit status and output of the strategy, which trains these tasks one after the other in one world of workers.

    All of them have as many workers, a deadline long enough for all, and a record.
    """
    options = synchronous(strategy)
    first, *others = (to_arguments(task, options) for task in tasks)
    command = command_for(strategy, tasks[0].workers, first, free_ports(1)[0], options)
    command = ["tests/controls/several.py" if part == strategy.script else part for part in command]
    settings = {"LOCKSTEP_SCRIPT": strategy.script, "LOCKSTEP_TASKS": json.dumps(others)}
    deadline_seconds = tasks[0].deadline_seconds
    return run_command(command, deadline_seconds=deadline_seconds, **environment_for(strategy, tasks[0]), **settings)


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
