"""Try everything that computes on a GPU, in order of worth, and report what there is (within nine minutes).

To start it: `nox -s gpu`, or where Nox is missing `python3 -m common.sessions.gpu`. It launches what is installed:
certificates, also of workers that share a GPU; other precisions; the frameworks' ceilings; rounds of all ways in which
the baselines compute; and each baseline in turn with a bare loop. Every launch has a time limit and leaves its record.
"""

import dataclasses
import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import tyro
from rich.console import Console

from common.contract.task import PRESETS, Task
from common.declarations import catalogue
from common.declarations.strategy import Options, Strategy
from common.errors import NotInstalledError, UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.executor import STOP_SECONDS, run_planned, start
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.paths import ROOT
from common.records import ceiling, evidence, metrics
from common.records.ceiling import Ceiling
from common.records.training import Record
from common.sessions import probes
from common.sessions.comparison_scope import certificate_task, plan_table
from common.sessions.probes import PlannedProbe
from common.sessions.session import Options as SessionOptions
from common.sessions.session import Output, Schedule, Stage, begin, console_for, in_words, report
from common.statistics.paired import MARGIN

_SHARE_OF_LAUNCHES = 0.7
"""Of the time: then the launches have to leave the rest to the bare loops and the report."""

_REPORT_SECONDS = 30

_PRESETS = ("pathway", "wide", "mnist_cnn", "text_gpt", "digits", "mnist_lenet")

Planned = PlannedLaunch | PlannedProbe
StageName = Literal["certificate", "precision", "ceiling", "round", "bare"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Try everything that computes on a GPU."""

    device: Literal["gpu", "cpu"] = "gpu"
    """Where to compute; cpu tries the same launches without a GPU."""
    minutes: float = 9.0
    """After this time everything has ended but the report."""
    launch_seconds: float = 60.0
    """The time limit of a launch."""
    stages: tuple[StageName, ...] = get_args(StageName)
    """What is tried, always in this order."""
    rounds: int = 6
    """Rounds of all ways in which the baselines compute, where the time suffices."""
    session: tyro.conf.OmitArgPrefixes[SessionOptions] = dataclasses.field(default_factory=SessionOptions)
    output: tyro.conf.OmitArgPrefixes[Output] = dataclasses.field(
        default_factory=lambda: Output(out=Path("reports/out/gpu.pdf"))
    )

    def __post_init__(self) -> None:
        """Raises UserError for a number that can't be meant."""
        if min(self.minutes, self.launch_seconds, self.rounds) <= 0:
            raise UserError("--minutes, --launch-seconds and --rounds take numbers above 0.")


def main() -> None:
    """Try what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console, started = console_for(width=140), time.monotonic()
    installed = _installed(console)
    if arguments.output.plan:
        for stage in _stages(dataclasses.replace(arguments, rounds=1), installed):
            console.print(f"{stage.title}: {', '.join(launch.name for launch in stage.launches)}")
        return
    if arguments.device == "gpu" and not machine.gpu_names():
        raise UserError("The driver shows no NVIDIA GPU here: try the same launches on the CPU by --device cpu.")
    ensure_writable(arguments.output.out)
    with begin(console, "gpu", arguments, arguments.device) as session:
        ends_at = started + 60 * arguments.minutes * _SHARE_OF_LAUNCHES
        stages = (stage for stage in _stages(arguments, installed) if stage.name in arguments.stages)
        one_by_one = _in_time(stages, ends_at - arguments.launch_seconds / 4)
        session.run(
            Schedule[Planned, Any](one_by_one),
            run_planned,
            probes.read,
            _in_words,
            lambda stages: plan_table(stages, session.order_seed, MARGIN),
        )
    baselines = [strategy.name for strategy in installed if strategy.most_workers == 1 and "bare" in arguments.stages]
    seconds = started + 60 * arguments.minutes - _REPORT_SECONDS - time.monotonic()
    if baselines:
        _measure_bare_loops(console, baselines, session.folder, seconds)
    if importlib.util.find_spec("typst") is None:
        console.print(
            f"typst isn't installed: `nox -s report -- --results {session.folder}` writes the report elsewhere."
        )
        return
    sys.exit(report("reports", session.folder, arguments.output.out))


def _installed(console: Console) -> list[Strategy]:
    """The strategies whose framework is installed, quick ones first; says why the others are left out."""
    installed, missing = list[Strategy](), dict[str, None]()
    for strategy in catalogue.strategies().values():
        try:
            python_for(strategy)
            installed.append(strategy)
        except NotInstalledError as error:
            missing[str(error)] = None
    for sentence in missing:
        console.print(f"Left out: {sentence}")
    return sorted(installed, key=lambda strategy: not strategy.may_be_quick)


def _in_time(stages: Iterable[Stage[Planned]], ends_at: float) -> Iterator[Stage[Planned]]:
    """The stages' launches one by one, none of which begins after `ends_at`, by time.monotonic."""
    for stage in stages:
        for launch in stage.launches:
            if time.monotonic() < ends_at:
                yield dataclasses.replace(stage, launches=[launch])


def _stages(arguments: Arguments, strategies: Sequence[Strategy]) -> Iterator[Stage[Planned]]:
    """All launches in order of worth."""
    yield Stage("certificate", "certificates", [*_certificates(arguments, strategies)])
    others = [
        _timed(arguments, strategy, PRESETS["pathway"], strategy.options(**{name: value}))
        for strategy in strategies
        if strategy.may_be_quick
        for name, values in _choices(strategy, other_maths=True).items()
        for value in values
    ]
    yield Stage("precision", "other precisions, and compressed gradients", others)
    yield Stage("ceiling", "ceilings", [*_probes(arguments, strategies)])
    baselines = [strategy for strategy in strategies if strategy.most_workers == 1]
    for repetition in range(1, arguments.rounds + 1):
        launches = [
            _timed(arguments, strategy, task, strategy.options(**values), repetition)
            for preset in _PRESETS
            for strategy in baselines
            for task, values in _ways(strategy, preset)
        ]
        yield Stage("round", f"round {repetition} of {arguments.rounds}", launches)


def _certificates(arguments: Arguments, strategies: Sequence[Strategy]) -> Iterator[PlannedLaunch]:
    """One worker of each strategy; and two that share the GPU, where that can be."""
    for strategy in strategies:
        worlds = [(1, strategy.synchronous_with)]
        if hasattr(strategy.options, "shares_gpus"):
            worlds.append((2, {"backend": "gloo"}))
        for workers, values in worlds:
            options = strategy.options(**values)
            task = _limited(arguments, certificate_task("digits", workers))
            yield PlannedLaunch(strategy, workers, "certificate", 1, task, options)


def _probes(arguments: Arguments, strategies: Sequence[Strategy]) -> Iterator[PlannedProbe]:
    """Each framework's products of two presets and of one large layer, whose rate is the GPU's peak."""
    wide = PRESETS["wide"]
    tasks = [wide, PRESETS["mnist_cnn"], dataclasses.replace(wide, dimensions=(8192, 8192), batch=8192)]
    for family in {strategy.family.environment: strategy.family for strategy in strategies}.values():
        if family.probe and family.probe.products:
            for task in tasks if arguments.device == "gpu" else tasks[:2]:
                task = _limited(arguments, dataclasses.replace(task, scaling="weak", workers=1))
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


def _timed(
    arguments: Arguments, strategy: Strategy, task: Task, options: Options, repetition: int = 1
) -> PlannedLaunch:
    """A launch of one worker that tells the speed."""
    if task.preset == "wide":
        # A GPU has done the preset's windows in a few milliseconds.
        task = dataclasses.replace(task, steps=130, warmup_steps=5, window_steps=25)
    task = _limited(arguments, dataclasses.replace(task, scaling="weak", workers=1))
    return PlannedLaunch(strategy, 1, "throughput", repetition, task, options)


def _limited(arguments: Arguments, task: Task) -> Task:
    return dataclasses.replace(task, device=arguments.device, deadline_seconds=arguments.launch_seconds)


def _in_words(launch: Planned, record: Record | Ceiling) -> str:
    """The speed of a good launch and what its updates were made of, else why it isn't good."""
    if record.status != "ok":
        return in_words(launch, record)
    if isinstance(record, Ceiling):
        return "; ".join(ceiling.in_words(record))
    return f"{1000 * metrics.throughput(record).seconds_per_step:.3f} ms a step. {evidence.in_words(record)}"


def _measure_bare_loops(console: Console, baselines: Sequence[str], folder: Path, seconds: float) -> None:
    """Measure each baseline in turn with a bare loop, and keep what that prints; it ends after so many seconds."""
    if seconds <= STOP_SECONDS:
        console.print("Time didn't suffice for bare loops.")
        return
    arguments = ["--strategies", *baselines, "--preset", *_PRESETS, "--workers", "1", "--launches", "1"]
    log_path = folder / "bare_loops.txt"
    status = start(["-m", "tests.benchmarks", *arguments], ROOT, log_path, seconds - STOP_SECONDS, {})
    console.print(log_path.read_text(encoding="utf-8"))
    if status:
        console.print(f"Not all bare loops were measured (status {status}).")


if __name__ == "__main__":
    exit_with_one_line(main)
