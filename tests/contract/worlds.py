"""What the contract tests launch: every strategy with every number of workers, task and option that it can have.

Most of it is cases, which a strategy trains in one launch of two workers, or of one where it takes no more. Each has a
name, by which its record and its weights are found in the launch's folder.
"""

import ast
import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from common.contract.checkpoint import Checkpoint, write_checkpoint
from common.contract.oracle import run_oracle
from common.contract.rows import share_of
from common.contract.task import PRESETS, Task
from common.contract.work import Work
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import strategies
from common.declarations.strategy import SHARDING_OF, Options, ReplicaOptions, Strategy
from common.errors import UserError
from common.launching.launch import python_for
from common.paths import ROOT
from tests.conftest import DEADLINE_SECONDS, run_command
from tests.controls.generic import controls_of

DIGITS_SEED = 3
"""With this seed the oracle on digits meets no kink: no pre-activation so near to zero that float32 may flip it."""

FOLLOWING, BROKEN, STOPPED, OTHER_MATHS = "following", "broken", "stopped", "other maths"
"""Kinds of cases: of right maths, with something broken, stopped by the comparison of all replicas, and others."""

ALONE, ASYNCHRONOUS = "alone", "asynchronous"
"""Kinds of cases whose workers keep their gradients, and wait for one another or not."""

DIFFERING = {"replicas_apart": "skipped_broadcast", "replicas_diverge": "diverged"}
"""Cases with replicas that differ, and the control that makes them so."""

INTERRUPTED = "interrupted"
"""A case that ends after 60 steps, with checkpoints on the way; another one goes on from its last."""

AS_THEY_ARE = "images_as_they_are"
"""The network on images of strategies without batch normalisation."""

NETWORKS = {
    "text": ("text_gpt", {}),
    "images": ("mnist_cnn", {"batch_norm": "local"}),
    "images_by_statistics_of_all": ("mnist_cnn", {"batch_norm": "synchronised"}),
    AS_THEY_ARE: ("mnist_cnn", {}),
}
"""Other networks by the names of their cases: the preset, and what of it is different. The grid has one more."""

OPTIMIZER = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05, "decay_steps": 100}
"""All that the optimizer can do, at values where float32 follows float64 within a third of the tolerances."""

GRID = {
    "pathway": ("pathway", {}),
    "pathway-weak": ("pathway", {"scaling": "weak"}),
    "pathway-bias-short_decay": ("pathway", {"batch": 60, "decay_steps": 50, "bias": True}),
    "digits-momentum-weight_decay": ("digits", {"momentum": 0.9, "weight_decay": 0.01, "seed": 2}),
    "digits-tanh-two_layers": ("digits", {"activation": "tanh", "dimensions": (64, 32, 10)}),
    "digits-tanh-all": ("digits", {"activation": "tanh"} | OPTIMIZER),
    # What an optimizer of a library's does as the contract has it, although it can't do all of that together.
    "digits-tanh-momentum": ("digits", {"activation": "tanh", "momentum": 0.9, "final_learning_rate": 0.1}),
    "digits-tanh-weight_decay": ("digits", {"activation": "tanh", "weight_decay": 0.01}),
    "digits-tanh-fall": (
        "digits",
        {"activation": "tanh", "weight_decay": 0.01, "final_learning_rate": 0.05, "decay_steps": 50},
    ),
    "mnist_lenet": ("mnist_lenet", {}),
    "wide-tanh": ("wide", {"batch": 64, "steps": 20, "warmup_steps": 5, "activation": "tanh"}),
}
"""What the grid trains with each number of workers: the preset, and what of it is different."""

OFTEN = ("backend", "jit_compile", "adasum", "gradient_hook")
"""Options of a world that every run of the tests tries; the others tune a library, and are tried in the grid."""

LIMIT_SECONDS, GRID_LIMIT_SECONDS = 400, 900
"""For a launch, of which a slow machine needs four times what a quiet one does."""

PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"), "http://10.1.2.3:3128")
RANKS = dict.fromkeys(("RANK", "LOCAL_RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"), "3")
HOSTILE = {
    **PROXIES,
    **RANKS,
    "TF_CONFIG": '{"cluster": {"worker": ["10.1.2.3:1", "10.1.2.4:1"]}, "task": {"type": "worker", "index": 0}}',
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "10.1.2.3",
    "JAX_COORDINATOR_ADDRESS": "10.1.2.3:1",
    "RAY_ADDRESS": "10.1.2.3:6379",
    "SLURM_JOB_ID": "12",
    "SLURM_TASKS_PER_NODE": "2(x4)",
}
"""What other people's shells have: a proxy that leads nowhere from here, and some of what another cluster has left."""


@dataclass(frozen=True)
class Case:
    """What is trained in a world beside others: a task, with these options, and with something broken or nothing."""

    kind: str
    task: Task
    control: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


def contract_task(preset: str, workers: int, folder: Path, **overrides: object) -> Task:
    """What a strategy is to compute in so many workers, with its final weights in the folder."""
    values = {"steps": 100, "warmup_steps": 20, "seed": DIGITS_SEED if preset == "digits" else 0, "scaling": "strong"}
    values |= {"deadline_seconds": DEADLINE_SECONDS, "checkpoint": folder / "weights.safetensors", "workers": workers}
    return dataclasses.replace(PRESETS[preset], **values | overrides)


def synchronous(strategy: Strategy, **options: object) -> Options:
    """The strategy's options with which it follows the oracle, but for those that are given."""
    return strategy.options(**{**strategy.synchronous_with, **options})


def can_have(strategy: Strategy, workers: int, options: Options, preset: str, **overrides: object) -> bool:
    """Whether the strategy takes this task and these options with so many workers, on a machine without GPUs."""
    with suppress(UserError):
        task = contract_task(preset, workers, Path(), **overrides)
        strategy.refuse(task, options, workers, 0)
        share_of(task, strategy.work, strategy.is_synchronous(options), 0, workers)
        return strategy.most_workers is None or workers <= strategy.most_workers
    return False


def worlds(preset: str, counts: tuple[int, ...] = (1, 2, 4)) -> list[tuple[str, int]]:
    """Every strategy with each of these numbers of workers that it takes the preset with."""
    return [
        (name, workers)
        for name, strategy in strategies().items()
        for workers in counts
        if can_have(strategy, workers, synchronous(strategy), preset)
    ]


WORLDS = dict(worlds("digits", (1, 2)))
"""How many workers every strategy's launch of cases has: two, or one where it takes no more."""


def optimizers(strategy: Strategy, workers: int) -> list[dict[str, float]]:
    """`OPTIMIZER`, or its parts where the strategy can't have them together: what goes beside no momentum, and that."""
    if can_have(strategy, workers, synchronous(strategy), "digits", **OPTIMIZER):
        return [OPTIMIZER]
    return [{name: value for name, value in OPTIMIZER.items() if name != "momentum"}, {"momentum": 0.5}]


@cache
def own_controls(name: str) -> tuple[str, ...]:
    """What can be broken in the strategy's own exchange, by the keys of its dictionary in its folder's controls.

    The module imports a framework, which isn't installed here, so mocks stand for every name that it doesn't assign.
    """
    path = controls_path(strategies()[name])
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    dictionaries = ast.Module([node for node in body if isinstance(node, ast.Assign)], [])
    names = defaultdict(Mock, CONTROLS={})
    exec(compile(dictionaries, path, "exec"), {}, names)
    return tuple(names["CONTROLS"].get(name, ()))


def controls_path(strategy: Strategy) -> Path:
    """The module of controls of the strategy's folder, which may not exist."""
    return ROOT / "tests" / "controls" / f"{Path(strategy.script).parts[0]}.py"


def is_left_to_the_grid(name: str) -> bool:
    """Whether the grid has the launch of all the strategy's cases.

    The usual tests have that of one strategy of each environment: the first of the quick profile that distributes.
    """
    strategy = strategies()[name]
    alike = (each for each in strategies().values() if each.family.environment == strategy.family.environment)
    return strategy is not next((each for each in alike if each.quick and each.most_workers != 1), None)


def options_to_try(name: str) -> Iterator[tuple[dataclasses.Field, object, bool]]:
    """The strategy's options with each value that the declaration says is to be tried.

    The last is whether it can train with that beside other cases, in a world joined for those.
    """
    strategy = strategies()[name]
    for each in dataclasses.fields(strategy.options):
        for value in each.metadata["tried"]:
            is_able = can_have(strategy, WORLDS[name], synchronous(strategy, **{each.name: value}), "digits")
            yield each, value, is_able and not each.metadata["of_world"]


@cache
def cases_of(name: str, folder: Path = Path()) -> dict[str, Case]:
    """All cases of a strategy by name, in the order in which they are trained.

    If the first or the last didn't follow the oracle, what is said of those in between would be in doubt.
    """
    strategy, workers, cases = strategies()[name], WORLDS[name], dict[str, Case]()
    plain, with_momentum = ({"activation": "tanh"} | optimizers(strategy, workers)[place] for place in (0, -1))
    own, has_replicas = own_controls(name), issubclass(strategy.options, ReplicaOptions)

    def add(
        kind: str, case: str, preset: str = "digits", changed: Mapping = plain, control: str = "", **options: object
    ) -> None:
        cases[case] = Case(kind, _task_of(case, preset, workers, folder, **changed), control, options)

    add(FOLLOWING, "first")
    add("", INTERRUPTED, changed=with_momentum | {"steps": 60, "checkpoint_steps": 25})
    add(FOLLOWING, "resumed", changed=with_momentum | {"checkpoint": cases[INTERRUPTED].task.checkpoint})
    add(FOLLOWING, "pathway", "pathway", {"steps": 60})
    add(FOLLOWING, "pathway_weak", "pathway", {"steps": 60, "scaling": "weak"})
    for case, (preset, changed) in NETWORKS.items():
        is_needed = case != AS_THEY_ARE or not any(each.startswith("images") for each in cases)
        if is_needed and can_have(strategy, workers, synchronous(strategy), preset, **changed):
            add(FOLLOWING, case, preset, {"steps": 8, "warmup_steps": 2} | changed)
    if plain != with_momentum:
        add(FOLLOWING, "momentum", changed=with_momentum)
    if strategy.work is Work.DATA_PARALLEL:
        add(FOLLOWING, "apart_then_broadcast", control="apart_then_broadcast")
    for control in (*controls_of(strategy), *own):
        add(BROKEN, control, changed=with_momentum if control == "lost_momentum" else plain, control=control)
    if has_replicas:
        add(FOLLOWING, "replicas_alike", check_replicas=True)
    # Where each parameter has an owner, which sends it to all others after the update, replicas that start apart are
    # alike by then.
    if has_replicas and SHARDING_OF not in strategy.compared_with:
        for case, control in DIFFERING.items():
            if control in own:
                add(STOPPED, case, control=control, check_replicas=True)
    if hasattr(strategy.options, "exchange") and workers > 1:
        add(ALONE, "without_exchange", exchange=False)
        if strategy.synchronous_with:
            defaults = {option: getattr(strategy.options(), option) for option in strategy.synchronous_with}
            add(ASYNCHRONOUS, "asynchronous_without_exchange", exchange=False, **defaults)
    for option, value, is_joined in options_to_try(name):
        if is_joined:
            kind = OTHER_MATHS if option.metadata["other_maths"] else FOLLOWING
            add(kind, f"{option.name}-{value}", **{option.name: value})
    add(FOLLOWING, "last")
    return cases


@cache
def grid_of(name: str, workers: int, folder: Path = Path()) -> dict[str, Case]:
    """The cases of the grid that the strategy can have with so many workers, by name."""
    strategy, limit = strategies()[name], {"deadline_seconds": GRID_LIMIT_SECONDS}
    return {
        case: Case("", _task_of(case, preset, workers, folder, **changed | limit))
        for case, (preset, changed) in GRID.items()
        if can_have(strategy, workers, synchronous(strategy), preset, **changed)
    }


def _task_of(case: str, preset: str, workers: int, folder: Path, **changed: object) -> Task:
    """The task of a case, with files of its own in the folder."""
    own = {"record": folder / f"{case}.json", "checkpoint": folder / f"{case}.safetensors"}
    return contract_task(preset, workers, folder, **{"deadline_seconds": LIMIT_SECONDS} | own | changed)


def of_kind(*kinds: str) -> list[tuple[str, str]]:
    """Every strategy with the name of each of its cases of these kinds."""
    return [(name, case) for name in WORLDS for case, each in cases_of(name).items() if each.kind in kinds]


def train_all(name: str, cases: Mapping[str, Case]) -> tuple[int, str]:
    """Exit status and output of the strategy, which trains these cases one after the other in one world of workers.

    The first has a deadline long enough for all, and nothing broken.
    """
    strategy = strategies()[name]
    python_for(strategy)
    if "lost_momentum" in cases:
        # What it goes on from: what the oracle has after 60 of its steps.
        task = cases["lost_momentum"].task
        state = {key: value.astype(np.float32) for key, value in run_oracle(task, task.batch, 60).state.items()}
        write_checkpoint(task.checkpoint, Checkpoint(state, 60, task.batch), task)
    first, *others = [
        {"arguments": to_arguments(case.task, synchronous(strategy, **case.options)), "control": case.control}
        for case in cases.values()
    ]
    # The README's command, with options, in a shell in which much has been left.
    return run_command(
        ["nox", "-s", name, "--", *first["arguments"]],
        deadline_seconds=next(iter(cases.values())).task.deadline_seconds,
        PYTHONPATH=str(ROOT / "tests" / "controls" / "joined"),
        LOCKSTEP_CASES=json.dumps(others),
        **HOSTILE,
    )


def launches() -> list[ParameterSet]:
    """Launches of worlds of their own that follow the oracle: strategy, preset, workers and options.

    In every run of the tests are two workers of each strategy whose launch of all cases is left to the grid.
    """
    found = in_own_worlds(other_maths=False)
    for name, workers in WORLDS.items():
        if is_left_to_the_grid(name):
            found.append(_launch(True, name, "digits", workers))
        if ("backend", "mpi") in [(option.name, value) for option, value, _ in options_to_try(name)]:
            for preset, count in itertools.product(("digits", "pathway"), (1, 4)):
                found.append(_launch(False, name, preset, count, backend="mpi"))
    return found


def in_own_worlds(other_maths: bool) -> list[ParameterSet]:
    """As `launches` has them those with each option of a world on digits, and with every option on pathway."""
    tried = [
        (name, option.name, value, is_joined)
        for name in WORLDS
        for option, value, is_joined in options_to_try(name)
        if option.metadata["other_maths"] is other_maths
    ]
    # The last strategy of the quick profile that has an option tries it often, or the last one.
    by_profile = sorted(tried, key=lambda each: strategies()[each[0]].quick)
    often = {option: name for name, option, _, is_joined in by_profile if not is_joined}
    found = []
    for name, option, value, is_joined in tried:
        # Adasum between CPUs goes over MPI.
        options = {option: value} | ({"backend": "mpi"} if option == "adasum" else {})
        for preset in ("pathway",) if is_joined else ("digits", "pathway"):
            strategy = strategies()[name]
            workers = 2 if can_have(strategy, 2, synchronous(strategy, **options), preset) else 1
            is_often = preset == "digits" and option in OFTEN and often[option] == name
            found.append(_launch(is_often, name, preset, workers, **options))
    return found


def _launch(is_often: bool, name: str, preset: str, workers: int, **options: object) -> ParameterSet:
    identity = "-".join([name, preset, str(workers), *(f"{option}-{value}" for option, value in options.items())])
    marks = [] if is_often else [pytest.mark.grid]
    return pytest.param(name, preset, workers, options, marks=marks, id=identity)
