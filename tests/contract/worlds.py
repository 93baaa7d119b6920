"""What the contract tests launch: every strategy with every number of workers, task and option that it can have."""

import ast
import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from common.contract.rows import share_of
from common.contract.task import PRESETS, Task
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import strategies
from common.declarations.strategy import Options, Strategy
from common.errors import UserError
from common.launching.launch import python_for
from common.paths import ROOT
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


OPTIMIZER = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05, "decay_steps": 100}
"""All that the optimizer can do, at values where float32 follows float64 within a third of the tolerances."""


def optimizers(strategy: Strategy, workers: int) -> list[dict[str, float]]:
    """`OPTIMIZER`, or its parts where the strategy can't have them together: what goes beside no momentum, and that."""
    if can_have(strategy, workers, synchronous(strategy), "digits", **OPTIMIZER):
        return [OPTIMIZER]
    return [{name: value for name, value in OPTIMIZER.items() if name != "momentum"}, {"momentum": 0.5}]


PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"), "http://10.1.2.3:3128")
HOSTILE = PROXIES | {
    "TF_CONFIG": '{"cluster": {"worker": ["10.1.2.3:1", "10.1.2.4:1"]}, "task": {"type": "worker", "index": 0}}',
    "RANK": "3",
    "LOCAL_RANK": "3",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "10.1.2.3",
    "JAX_COORDINATOR_ADDRESS": "10.1.2.3:1",
    "RAY_ADDRESS": "10.1.2.3:6379",
    "HOROVOD_RANK": "3",
    "OMPI_COMM_WORLD_RANK": "3",
    "PMIX_RANK": "3",
    "SLURM_JOB_ID": "12",
    "SLURM_TASKS_PER_NODE": "2(x4)",
}
"""What other people's shells have: a proxy that leads nowhere from here, and some of what another cluster has left."""


@dataclass(frozen=True)
class Case:
    """What is trained in a world beside others: a task, with these options, and with something broken or nothing."""

    task: Task
    control: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


def train_all(strategy: Strategy, cases: Sequence[Case]) -> tuple[int, str]:
    """Exit status and output of the strategy, which trains these cases one after the other in one world of workers.

    All of them have as many workers, a deadline long enough for all, and a record. Nothing may be broken in the first.
    """
    first, *others = cases
    python_for(strategy)
    told = [
        {"arguments": to_arguments(case.task, synchronous(strategy, **case.options)), "control": case.control}
        for case in others
    ]
    arguments = to_arguments(first.task, synchronous(strategy, **first.options))
    # The README's command, with options, in a shell in which much has been left.
    return run_command(
        ["nox", "-s", strategy.name, "--", *arguments],
        deadline_seconds=first.task.deadline_seconds,
        PYTHONPATH=str(ROOT / "tests" / "controls" / "joined"),
        LOCKSTEP_CASES=json.dumps(told),
        **HOSTILE,
    )


@cache
def own_controls(name: str) -> tuple[str, ...]:
    """What can be broken in the strategy's own exchange, by its folder's controls, which import a framework.

    They are the keys of the strategy's dictionary, which is written out, or joined of others, as in `OF_DDP | {...}`.
    """
    path = controls_path(strategies()[name])
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    values = {node.targets[0].id: node.value for node in body if isinstance(node, ast.Assign)}

    def keys_of(value: ast.expr) -> list[str]:
        match value:
            case ast.BinOp():
                return [*keys_of(value.left), *keys_of(value.right)]
            case ast.Name():
                return keys_of(values[value.id])
        return [key.value for key in value.keys]

    controls = values.get("CONTROLS", ast.Dict([], []))
    of_strategies = zip(controls.keys, controls.values, strict=True)
    return tuple(dict.fromkeys(key for each, own in of_strategies if each.value == name for key in keys_of(own)))


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


def can_have(strategy: Strategy, workers: int, options: Options, preset: str, **overrides: object) -> bool:
    """Whether the strategy takes this task and these options with so many workers, on a machine without GPUs."""
    with suppress(UserError):
        task = contract_task(preset, workers, Path(), **overrides)
        strategy.refuse(task, options, workers, 0)
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


def synchronous(strategy: Strategy, **options: object) -> Options:
    """The strategy's options with which it follows the oracle, but for those that are given."""
    return strategy.options(**{**strategy.synchronous_with, **options})


def options_to_try(other_maths: bool) -> list[tuple[str, str, object]]:
    """Every strategy with each option, and each of its values, that the declaration says is to be tried."""
    return [
        (name, field.name, value)
        for name, strategy in strategies().items()
        for field in dataclasses.fields(strategy.options)
        for value in field.metadata["tried"]
        if field.metadata["other_maths"] is other_maths
    ]


def acts_in_a_joined_world(name: str, workers: int, option: str, value: object) -> bool:
    """Whether the strategy can train with this option beside other cases, in a world joined for those."""
    strategy = strategies()[name]
    [field] = [each for each in dataclasses.fields(strategy.options) if each.name == option]
    options = synchronous(strategy, **{option: value})
    return not field.metadata["of_world"] and can_have(strategy, workers, options, "digits")
