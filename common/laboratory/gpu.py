"""Try everything that computes on a GPU, in order of worth, and report what there is (within nine minutes).

It launches what is installed: certificates, also of workers that share a GPU; other precisions; the frameworks'
ceilings; rounds of all ways in which the baselines compute; and each baseline in turn with a bare loop. Every launch
has a time limit and leaves its record. Where Nox is missing, `python3 -m common.laboratory.gpu` starts it.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pandas as pd

from common.contract.task import PRESETS, Task
from common.declarations import catalogue
from common.declarations.strategy import Options, Strategy
from common.errors import NotInstalledError, UserError, exit_with_one_line
from common.launching.executor import STOP_SECONDS, start
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.paths import ROOT
from common.records import ceiling
from common.records.ceiling import Ceiling
from common.records.training import Record
from common.sessions.comparison_scope import certificate_task, plan_table
from common.sessions.experiment import Experiment, run
from common.sessions.probes import PlannedProbe
from common.sessions.session import Stage
from common.statistics.paired import MARGIN

_SHARE_OF_LAUNCHES = 0.7
"""Of the time: then the launches have to leave the rest to the bare loops and the report."""

_REPORT_SECONDS = 30

_PRESETS = ("pathway", "wide", "mnist_cnn", "text_gpt", "digits", "mnist_lenet")

Planned = PlannedLaunch | PlannedProbe


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session tries."""

    device: Literal["gpu", "cpu"] = "gpu"
    """Where to compute; cpu tries the same launches without a GPU."""
    minutes: float = 9.0
    """After this time everything has ended but the report."""
    launch_seconds: float = 60.0
    """The time limit of a launch."""
    repetitions: int = 6
    """Rounds of all ways in which the baselines compute, where the time suffices."""

    def __post_init__(self) -> None:
        """Raises UserError for a number that can't be meant."""
        if min(self.minutes, self.launch_seconds) <= 0:
            raise UserError("--minutes and --launch-seconds take numbers above 0.")


def refuse(scope: Scope, results: Path) -> None:
    """Raises UserError where there is no GPU to compute on."""
    if scope.device == "gpu" and not machine.gpu_names():
        raise UserError("The driver shows no NVIDIA GPU here: try the same launches on the CPU by --device cpu.")


def plan(scope: Scope, results: Path) -> pd.DataFrame:
    """All launches in order, of the rounds those of the first."""
    stages = all_stages(dataclasses.replace(scope, repetitions=1), installed())
    rows = [(stage.title, launch.name) for stage in stages for launch in stage.launches]
    return pd.DataFrame(rows, columns=["stage", "launch"])


def stages_in_time(scope: Scope, order_seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """What there is time for: the launches one by one, and when these are made, bare loops."""
    started, strategies = time.monotonic(), installed()
    ends_at = started + 60 * scope.minutes * _SHARE_OF_LAUNCHES - scope.launch_seconds / 4
    yield from in_time(all_stages(scope, strategies), ends_at)
    baselines = [strategy.name for strategy in strategies if strategy.most_workers == 1]
    _measure_bare_loops(baselines, folder, started + 60 * scope.minutes - _REPORT_SECONDS - time.monotonic())


def installed() -> list[Strategy]:
    """The strategies whose framework is installed, quick ones first; says why the others are left out."""
    found, missing = list[Strategy](), dict[str, None]()
    for strategy in catalogue.strategies().values():
        try:
            python_for(strategy)
            found.append(strategy)
        except NotInstalledError as error:
            missing[str(error)] = None
    for sentence in missing:
        print(f"Left out: {sentence}")
    return sorted(found, key=lambda strategy: not strategy.may_be_quick)


def in_time(stages: Iterable[Stage[Planned]], ends_at: float) -> Iterator[Stage[Planned]]:
    """The stages' launches one by one, none of which begins after `ends_at`, by time.monotonic."""
    for stage in stages:
        for launch in stage.launches:
            if time.monotonic() < ends_at:
                yield dataclasses.replace(stage, launches=[launch])


def all_stages(scope: Scope, strategies: Sequence[Strategy]) -> Iterator[Stage[Planned]]:
    """All launches in order of worth."""
    yield Stage("certificate", "certificates", [*_certificates(scope, strategies)])
    others = [
        _timed(scope, strategy, PRESETS["pathway"], strategy.options(**{name: value}))
        for strategy in strategies
        if strategy.may_be_quick
        for name, values in _choices(strategy, other_maths=True).items()
        for value in values
    ]
    yield Stage("precision", "other precisions, and compressed gradients", others)
    yield Stage("ceiling", "ceilings", [*_probes(scope, strategies)])
    baselines = [strategy for strategy in strategies if strategy.most_workers == 1]
    for repetition in range(1, scope.repetitions + 1):
        launches = [
            _timed(scope, strategy, task, strategy.options(**values), repetition)
            for preset in _PRESETS
            for strategy in baselines
            for task, values in _ways(strategy, preset)
        ]
        yield Stage("round", f"round {repetition} of {scope.repetitions}", launches)


def _certificates(scope: Scope, strategies: Sequence[Strategy]) -> Iterator[PlannedLaunch]:
    """One worker of each strategy; and two that share the GPU, where that can be."""
    for strategy in strategies:
        worlds = [(1, strategy.synchronous_with)]
        if hasattr(strategy.options, "shares_gpus"):
            worlds.append((2, {"backend": "gloo"}))
        for workers, values in worlds:
            options = strategy.options(**values)
            task = _limited(scope, certificate_task("digits", workers))
            yield PlannedLaunch(strategy, workers, "certificate", 1, task, options)


def _probes(scope: Scope, strategies: Sequence[Strategy]) -> Iterator[PlannedProbe]:
    """Each framework's products of two presets and of one large layer, whose rate is the GPU's peak."""
    wide = PRESETS["wide"]
    tasks = [wide, PRESETS["mnist_cnn"], dataclasses.replace(wide, dimensions=(8192, 8192), batch=8192)]
    for family in {strategy.family.environment: strategy.family for strategy in strategies}.values():
        if family.probe and family.probe.products:
            for task in tasks if scope.device == "gpu" else tasks[:2]:
                task = _limited(scope, dataclasses.replace(task, scaling="weak", workers=1))
                yield PlannedProbe(strategy=catalogue.find(family.probe.like), task=task, variables={})


def _choices(strategy: Strategy, other_maths: bool) -> dict[str, list[str]]:
    """By the names of those options that are a choice of words all words that aren't the default."""
    hints, choices = get_type_hints(strategy.options), dict[str, list[str]]()
    for each in dataclasses.fields(strategy.options):
        words = [word for word in get_args(hints[each.name]) if isinstance(word, str) and word != each.default]
        if words and bool(each.metadata.get("other_maths")) == other_maths:
            choices[each.name] = words
    return choices


def _ways(strategy: Strategy, preset: str) -> Iterator[tuple[Task, dict[str, str]]]:
    """Tasks on the preset, and the baseline's options: each at its default and at each other value.

    Batches of the preset `wide` have 8192 rows as well, which fill a large GPU.
    """
    task = PRESETS[preset]
    same, other = (
        [{name: word} for name, words in _choices(strategy, other_maths).items() for word in words]
        for other_maths in (False, True)
    )
    yield from ((task, values) for values in [{}, *same])
    if preset == "wide":
        yield from ((dataclasses.replace(task, batch=8192), values) for values in [{}, *same, *other])


def _timed(scope: Scope, strategy: Strategy, task: Task, options: Options, repetition: int = 1) -> PlannedLaunch:
    """A launch of one worker that tells the speed."""
    if task.preset == "wide":
        # A GPU has done the preset's windows in a few milliseconds.
        task = dataclasses.replace(task, steps=130, warmup_steps=5, window_steps=25)
    task = _limited(scope, dataclasses.replace(task, scaling="weak", workers=1))
    return PlannedLaunch(strategy, 1, "throughput", repetition, task, options)


def _limited(scope: Scope, task: Task) -> Task:
    return dataclasses.replace(task, device=scope.device, deadline_seconds=scope.launch_seconds)


def _measure_bare_loops(baselines: Sequence[str], folder: Path, seconds: float) -> None:
    """Measure each baseline in turn with a bare loop, and keep what that prints; it ends after so many seconds."""
    if seconds <= STOP_SECONDS:
        print("Time didn't suffice for bare loops.")
        return
    arguments = ["--strategies", *baselines, "--preset", *_PRESETS, "--workers", "1", "--launches", "1"]
    log_path = folder / "bare_loops.txt"
    status = start(["-m", "tests.benchmarks", *arguments], ROOT, log_path, seconds - STOP_SECONDS, {})
    print(log_path.read_text(encoding="utf-8"))
    if status:
        print(f"Not all bare loops were measured (status {status}).")


EXPERIMENT = Experiment(
    name="gpu",
    about=__doc__ or "",
    scope=Scope,
    record=Record,
    records_below={ceiling.FOLDER: Ceiling},
    prepare=refuse,
    plan=plan,
    stages=stages_in_time,
    plan_table=partial(plan_table, margin=MARGIN),
    report="reports",
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
