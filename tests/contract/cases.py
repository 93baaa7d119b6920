"""What every strategy trains in one launch of two workers, or of one where it takes no more.

Each case has a name, by which its record and its weights are found in the launch's folder.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from common.contract.checkpoint import Checkpoint, write_checkpoint
from common.contract.oracle import run_oracle
from common.contract.task import Task
from common.contract.work import Work
from common.declarations.catalogue import strategies
from common.declarations.strategy import SHARDING_OF, ReplicaOptions
from tests.contract.worlds import (
    Case,
    acts_in_a_joined_world,
    can_have,
    contract_task,
    is_left_to_the_grid,
    optimizers,
    options_to_try,
    own_controls,
    synchronous,
    worlds,
)
from tests.controls.generic import controls_of

WORLDS = dict(worlds("digits", (1, 2)))
"""How many workers every strategy's launch has: two, or one where it takes no more."""

DIFFERING = {"replicas_apart": "skipped_broadcast", "replicas_diverge": "diverged"}
"""Cases with replicas that differ, and the control that makes them so."""

INTERRUPTED = "interrupted"
"""A case that ends after 60 steps, with checkpoints on the way; another one goes on from its last."""

NETWORKS = {
    "text": ("text_gpt", {}),
    "images": ("mnist_cnn", {"batch_norm": "local"}),
    "images_by_statistics_of_all": ("mnist_cnn", {"batch_norm": "synchronised"}),
    "images_as_they_are": ("mnist_cnn", {}),
}
"""Other networks by the names of their cases: the preset, and what of it is different. The grid has one more."""

GRID = {
    "pathway": ("pathway", {}),
    "pathway-weak": ("pathway", {"scaling": "weak"}),
    "pathway-bias-short_decay": ("pathway", {"batch": 60, "decay_steps": 50, "bias": True}),
    "digits-momentum-weight_decay": ("digits", {"momentum": 0.9, "weight_decay": 0.01, "seed": 2}),
    "digits-tanh-two_layers": ("digits", {"activation": "tanh", "dimensions": (64, 32, 10)}),
    "mnist_lenet": ("mnist_lenet", {}),
    "wide-tanh": ("wide", {"batch": 64, "steps": 20, "warmup_steps": 5, "activation": "tanh"}),
}
"""What the grid trains with each number of workers: the preset, and what of it is different."""

OF_A_LIBRARY = [
    {"momentum": 0.9, "final_learning_rate": 0.1},
    {"weight_decay": 0.01},
    {"weight_decay": 0.01, "final_learning_rate": 0.05, "decay_steps": 50},
]
"""What an optimizer of a library's does as the contract has it, although it can't do all of that together."""

OFTEN = ("backend", "jit_compile", "adasum", "gradient_hook")
"""Options of a world that every run of the tests tries; the others tune a library, and are tried in the grid."""

LIMIT_SECONDS = 400
"""For a launch, of which a slow machine needs four times what a quiet one does."""


def following(name: str) -> list[str]:
    """Names of the cases that have to follow the oracle.

    If the first or the last didn't, what is said of those in between would be in doubt.
    """
    return [
        *("first", "resumed", "pathway", "pathway_weak", "last"),
        *networks(name),
        *(["momentum"] if len(optimizers(strategies()[name], WORLDS[name])) > 1 else []),
        *(["replicas_alike"] if _compares_replicas(name) else []),
        *(["apart_then_broadcast"] if strategies()[name].work is Work.DATA_PARALLEL else []),
    ]


def networks(name: str) -> list[str]:
    """The cases of other networks that the strategy can train; the last is for those without batch normalisation."""
    strategy = strategies()[name]
    able = [
        case
        for case, (preset, changed) in NETWORKS.items()
        if can_have(strategy, WORLDS[name], synchronous(strategy), preset, **changed)
    ]
    return able[:-1] if any(case.startswith("images") for case in able[:-1]) else able


@cache
def with_option(name: str, other_maths: bool) -> dict[str, tuple[str, object]]:
    """By the name of its case, every option that is tried beside other cases, and its value."""
    return {
        f"{option}-{value}": (option, value)
        for each, option, value in options_to_try(other_maths)
        if each == name and acts_in_a_joined_world(name, WORLDS[name], option, value)
    }


def launches() -> list[ParameterSet]:
    """Launches of worlds of their own that follow the oracle: strategy, preset, workers, options, the task's changes.

    In every run of the tests are two workers of each strategy whose launch of all cases is left to the grid.
    """
    found = in_own_worlds(other_maths=False)
    for name, workers in worlds("digits"):
        strategy, is_usual = strategies()[name], WORLDS[name] == workers
        first, *others = optimizers(strategy, workers)
        if not is_usual or is_left_to_the_grid(name):
            found.append(_launch(is_usual, name, "digits", workers, {}, {"activation": "tanh"} | first))
        for optimizer in OF_A_LIBRARY if others else ():
            found.append(_launch(False, name, "digits", workers, {}, {"activation": "tanh"} | optimizer))
    for name, option, value in options_to_try(other_maths=False):
        if (option, value) == ("backend", "mpi"):
            for preset, workers in itertools.product(("digits", "pathway"), (1, 4)):
                found.append(_launch(False, name, preset, workers, {option: value}, {}))
    return found


def in_own_worlds(other_maths: bool) -> list[ParameterSet]:
    """As `launches` has them those with each option of a world on digits, and with every option on pathway."""
    tried = options_to_try(other_maths)
    of_worlds = [each for each in tried if not acts_in_a_joined_world(each[0], WORLDS[each[0]], *each[1:])]
    # The last strategy of the quick profile that has an option tries it often, or the last one.
    often = {option: name for name, option, _ in sorted(of_worlds, key=lambda each: strategies()[each[0]].quick)}
    found = []
    for name, option, value in tried:
        # Adasum between CPUs goes over MPI.
        options = {option: value} | ({"backend": "mpi"} if option == "adasum" else {})
        for preset in ("digits", "pathway") if (name, option, value) in of_worlds else ("pathway",):
            strategy = strategies()[name]
            workers = 2 if can_have(strategy, 2, synchronous(strategy, **options), preset) else 1
            is_often = preset == "digits" and option in OFTEN and often[option] == name
            found.append(_launch(is_often, name, preset, workers, options, {}))
    return found


def _launch(
    is_often: bool, name: str, preset: str, workers: int, options: dict[str, object], changed: dict[str, object]
) -> ParameterSet:
    words = [f"{option}-{value}" for option, value in (options | changed).items()]
    identity = "-".join([name, preset, str(workers), *words])
    marks = [] if is_often else [pytest.mark.grid]
    return pytest.param(name, preset, workers, options, changed, marks=marks, id=identity)


def broken(name: str) -> list[str]:
    """Names of the controls, each of which has to be caught."""
    return [*controls_of(strategies()[name]), *own_controls(name)]


def stopped(name: str) -> list[str]:
    """Names of the cases that the comparison of all replicas has to stop.

    Where each parameter has an owner, which sends it to all others after the update, replicas that start apart are
    alike by then.
    """
    if not _compares_replicas(name) or SHARDING_OF in strategies()[name].compared_with:
        return []
    return [case for case, control in DIFFERING.items() if control in own_controls(name)]


def without_exchange(name: str) -> list[str]:
    """Names of the cases whose workers keep their gradients."""
    return ["without_exchange"] if hasattr(strategies()[name].options, "exchange") and WORLDS[name] > 1 else []


def asynchronous_without_exchange(name: str) -> list[str]:
    """Names of the cases whose workers keep their gradients, and don't wait for one another either."""
    return ["asynchronous_without_exchange"] if without_exchange(name) and strategies()[name].synchronous_with else []


def case_of(name: str, case: str, folder: Path) -> Case:
    """The case of a strategy, with files of its own in the folder."""
    is_control = case in broken(name) or case == "apart_then_broadcast"
    control, options = DIFFERING.get(case, case if is_control else ""), dict[str, object]()
    if case.startswith("replicas_"):
        options["check_replicas"] = True
    if case in without_exchange(name) + asynchronous_without_exchange(name):
        options["exchange"] = False
    if case in asynchronous_without_exchange(name):
        declared = strategies()[name]
        options |= {option: getattr(declared.options(), option) for option in declared.synchronous_with}
    if tried := (with_option(name, False) | with_option(name, True)).get(case):
        options[tried[0]] = tried[1]
    weights = INTERRUPTED if case == "resumed" else case
    files = {"record": folder / f"{case}.json", "checkpoint": folder / f"{weights}.safetensors"}
    task = dataclasses.replace(_task_of(name, case, folder), deadline_seconds=LIMIT_SECONDS, **files)
    return Case(task, control, options)


def cases_of(name: str, folder: Path) -> Sequence[Case]:
    """All cases of a strategy, as they are to be trained; the checkpoint that one of them goes on from is written."""
    names = [INTERRUPTED, *following(name), *broken(name), *without_exchange(name), *stopped(name)]
    names += asynchronous_without_exchange(name)
    names += [*with_option(name, False), *with_option(name, True)]
    names.sort(key=lambda case: {"first": -1, "last": 1}.get(case, 0))
    _leave_checkpoint(case_of(name, "lost_momentum", folder).task)
    return [case_of(name, case, folder) for case in names]


def grid_of(name: str, workers: int) -> list[str]:
    """Names of the cases of the grid that the strategy can have with so many workers."""
    strategy = strategies()[name]
    return [
        case
        for case, (preset, changed) in GRID.items()
        if can_have(strategy, workers, synchronous(strategy), preset, **changed)
    ]


def grid_cases_of(name: str, workers: int, folder: Path) -> Sequence[Case]:
    """All cases of the grid that the strategy can have with so many workers, as they are to be trained."""
    cases = []
    for case in grid_of(name, workers):
        preset, changed = GRID[case]
        task = contract_task(preset, workers, folder, **changed)
        files = {"record": folder / f"{case}.json", "checkpoint": folder / f"{case}.safetensors"}
        cases.append(Case(dataclasses.replace(task, deadline_seconds=900, **files)))
    return cases


def _task_of(name: str, case: str, folder: Path) -> Task:
    strategy, workers = strategies()[name], WORLDS[name]
    if case.startswith("pathway"):
        scaling = "weak" if case == "pathway_weak" else "strong"
        return contract_task("pathway", workers, folder, scaling=scaling, steps=60)
    if case in NETWORKS:
        preset, changed = NETWORKS[case]
        return contract_task(preset, workers, folder, steps=8, warmup_steps=2, **changed)
    with_momentum = case in ("lost_momentum", INTERRUPTED, "resumed", "momentum")
    optimizer = optimizers(strategy, workers)[-1 if with_momentum else 0]
    if case == INTERRUPTED:
        optimizer = optimizer | {"steps": 60, "checkpoint_steps": 25}
    return contract_task("digits", workers, folder, activation="tanh", **optimizer)


def _compares_replicas(name: str) -> bool:
    return issubclass(strategies()[name].options, ReplicaOptions)


def _leave_checkpoint(task: Task) -> None:
    """Save what the oracle has after 60 of the task's steps."""
    state = {name: value.astype(np.float32) for name, value in run_oracle(task, task.batch, 60).state.items()}
    write_checkpoint(task.checkpoint, Checkpoint(state, 60, task.batch), task)
