"""What the harness costs: each strategy against a bare loop of the same framework, in turn, on the same rows.

To start it: `nox -s benchmark`. A ratio is the strategy's samples per second over the bare loop's; a claim holds when
the lower end of its 95 % interval is at least what is claimed. Each strategy's own file here says what its bare loop
is, in `OPTIONS` which of its options it is launched with, and in `CLAIMED` what is claimed where that isn't 0.98: one
ratio, or a ratio for some pairs of preset and number of workers.
"""

import ast
import dataclasses
import itertools
import json
import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.task import PRESETS, Task
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find, strategies
from common.declarations.strategy import Options, Strategy
from common.errors import LaunchFailedError, exit_with_one_line
from common.launching.launch import command_for, environment_for
from common.launching.processes import exit_on_signals, free_ports, run_group
from common.measurement import machine
from common.paths import ROOT
from common.statistics.intervals import median_interval

Pairs = list[tuple[float, float]]

FOLDER = Path(__file__).parent
MEASURED = tuple(name for name in strategies() if (FOLDER / f"{name}.py").is_file())
"""The strategies that have a bare loop beside this file."""


@dataclass(frozen=True)
class Arguments:
    """Measure what the harness costs."""

    strategies: tuple[Literal[MEASURED], ...] = MEASURED
    """Strategies to measure."""
    preset: tuple[Literal["digits", "pathway", "wide", "mnist_lenet", "mnist_cnn", "text_gpt"], ...] = (
        "pathway",
        "wide",
    )
    """Presets to measure them on."""
    workers: tuple[int, ...] = (1, 2)
    """Numbers of workers."""
    backend: Literal["auto", "mpi"] = "auto"
    """What carries the tensors of those strategies that can be launched with it; auto: each one's own choice."""
    launches: int = 5
    """Launches of each case: where the two loops' tensors lie in memory differs from one to the next."""


def main() -> None:
    """Measure every case in shuffled order and print one row for each."""
    arguments = tyro.cli(Arguments, description=__doc__)
    exit_on_signals()
    with machine.alone():
        _measure_all(arguments)


def _measure_all(arguments: Arguments) -> None:
    console = Console(width=140)
    cases = list(itertools.product(arguments.strategies, arguments.preset, arguments.workers))
    cases = [case for case in cases if case[2] <= (find(case[0]).most_workers or case[2])]
    cases = [case for case in cases if case[1] in constant(case[0], "PRESETS", ("pathway", "wide", "mnist_cnn"))]
    pairs: dict[tuple, Pairs] = {case: [] for case in cases}
    launches = cases * arguments.launches
    random.Random(0).shuffle(launches)
    for position, case in enumerate(launches, start=1):
        strategy, preset, workers = case
        pairs[case] += measure(find(strategy), preset, workers, options_for(find(strategy), arguments.backend))
        # What was measured so far is there for whoever interrupts the rest.
        n, _, _, ratio, interval, *_ = row_of(case, pairs[case])
        console.print(f"{position}/{len(launches)} {' '.join(map(str, case))}: {ratio} ({interval}), n = {n}")
    table = Table(
        "strategy", "preset", "workers", "pairs", "ms per step", "bare", "ratio", "95 % interval", "claimed", "holds"
    )
    for case in cases:
        table.add_row(*map(str, case), *row_of(case, pairs[case]))
    console.print(table)


def constant(strategy: str, name: str, default: object) -> object:
    """What the strategy's own file here assigns to `name`, read without importing its framework, or else `default`."""
    for node in ast.parse((FOLDER / f"{strategy}.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    return default


def claimed(strategy: str, preset: str, workers: int) -> float | None:
    """The ratio that is claimed at least; None: nothing is claimed."""
    claim = constant(strategy, "CLAIMED", 0.98)
    return claim.get((preset, workers)) if isinstance(claim, dict) else claim


def row_of(case: tuple[str, str, int], pairs: Pairs) -> list[str]:
    """One case's cells: n, both medians in milliseconds per step, the ratio with its interval, claim and verdict."""
    steps = task_for(case[1], 1).window_steps
    ratio = median_interval([bare / harness for harness, bare in pairs])
    harness, bare = (median_interval(seconds).median * 1000 / steps for seconds in zip(*pairs, strict=True))
    claim = claimed(*case)
    return [
        str(ratio.n),
        f"{harness:.3f}",
        f"{bare:.3f}",
        f"{ratio.median:.3f}",
        f"{ratio.low:.3f} to {ratio.high:.3f}",
        "" if claim is None else f"{claim}",
        "" if claim is None else ("yes" if ratio.low >= claim else "no"),
    ]


def task_for(preset: str, workers: int) -> Task:
    """64 rows per worker in 160 windows; on a CPU 512 on wide in 24, and 64 on mnist_cnn in 40."""
    slow = {} if machine.gpu_names() else {"wide": (50, 2, 2), "mnist_cnn": (210, 10, 5)}
    steps, warmup_steps, window_steps = slow.get(preset, (4050, 50, 25))
    lengths = {"steps": steps, "warmup_steps": warmup_steps, "window_steps": window_steps}
    return dataclasses.replace(PRESETS[preset], scaling="weak", workers=workers, **lengths)


def options_for(strategy: Strategy, backend: str) -> Options:
    """The options of the strategy's launches: those that its own file here names, and the backend where it has it."""
    choices = get_args(get_type_hints(strategy.options).get("backend"))
    asked_for = {"backend": backend} if backend in choices else {}
    return strategy.options(**asked_for | constant(strategy.name, "OPTIONS", {}))


def measure(strategy: Strategy, preset: str, workers: int, options: Options) -> Pairs:
    """Seconds of each window of the strategy and of the bare loop that followed it, from one launch."""
    with tempfile.TemporaryDirectory() as folder:
        task = dataclasses.replace(task_for(preset, workers), record=Path(folder, "record.json"))
        script = [f"tests/benchmarks/{strategy.name}.py", *to_arguments(task, options)]
        command = command_for(strategy, workers, script, free_ports(1)[0], options)
        pairs = Path(folder, "pairs.json")
        paths = os.pathsep.join(filter(None, [os.fspath(ROOT), os.environ.get("PYTHONPATH")]))
        environment = environment_for(strategy, task) | {"LOCKSTEP_PAIRS": str(pairs), "PYTHONPATH": paths}
        with Path(folder, "log").open("w+", encoding="utf-8") as log:
            outcome = run_group([command], environment, task.deadline_seconds, streams={"stdout": log, "stderr": log})
            log.seek(0)
            if outcome.status:
                raise LaunchFailedError(f"{strategy.name} at {workers} on {preset} failed: {log.read()[-1000:]}")
        return [tuple(pair) for pair in json.loads(pairs.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    exit_with_one_line(main)
