"""Predict steps with more workers, hosts and other links from what was measured here; `-- --verify` scores it.

To start it: `nox -s predict -- --workers 8 64 --over-hosts 1 8 --bandwidth 25Gbit --latency 10us`. It reads the newest
comparison and the newest session of collectives, and makes first what is missing. With --verify it measures over
virtual hosts, predicts what it then holds out, launches that, and scores itself.
"""

import dataclasses
import math
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro
from msgspec import structs
from rich.console import Console

from common.contract.collectives import Collective
from common.contract.dataset import preset_task
from common.contract.rows import local_batch
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions, Strategy
from common.declarations.sweep import Sweep
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.executor import Executor, run_planned
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts, PlannedLaunch, PlannedSweep, Size
from common.launching.virtual_hosts.description import BURST_BYTES, parse_bandwidth, parse_duration
from common.measurement import machine
from common.paths import ROOT
from common.prediction import forecast, model, scores, shown
from common.prediction.measured import Measured, Scenario, crowding_of, measured
from common.prediction.messages import Wire
from common.records import manifest
from common.records.certificate import trusted
from common.records.collectives import CollectivesRecord
from common.records.files import read_record, read_records, write_record
from common.records.prediction import Predictions, predictions_path
from common.records.training import Record
from common.sessions import chosen_hosts, comparison_scope
from common.sessions.experiment import tell
from common.sessions.folder import FINISHED
from common.sessions.session import Options, Output, Placed, Schedule, Stage, begin, console_for, report, rounds_of

HOSTS = 4
"""Virtual hosts of a verification."""

SWEEPS, HELD = "sweeps", "held_out"
"""The folders of the libraries' launches, and of those that were held out, below the session's."""

_SOURCES = {
    "compare": ("common.sessions.compare", ("quick", "full")),
    "collectives": ("common.laboratory.collectives", ("collectives",)),
}
"""By the sessions that predictions rest on their modules, and how the names of their folders end."""

_PRESETS = ("pathway", "digits", "mnist_5k")
"""Of which one worker is measured, at two batches; two workers are measured on the first alone."""

_BATCHES = (64, 192)
_HELD_BATCHES = (64, 96, 128, 192)
_HELD_MBITS = (10, 1000)
"""Between these a held-out bandwidth is drawn, by its logarithm."""

_HELD_DELAYS_SECONDS = (0.0, 0.0, 0.002, 0.01)
_DELAYED_MBITS = (10, 100)
"""Of a link with a delay: a process may have to forward its frames, which takes cores from what is measured."""

_SWEEP = Sweep(collectives=(Collective.ALL_REDUCE,), sizes=("8", "4K", "64K", "256K", "1M", "4M"), iterations=40)

Planned = Placed[PlannedLaunch | PlannedSweep]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What is asked."""

    workers: tuple[int, ...] = (8, 64, 1024)
    """Numbers of workers to predict."""
    over_hosts: tuple[int, ...] = ()
    """On how many hosts each of these is; none named: a host for each worker."""
    bandwidth: str | None = None
    """Of each host's link, such as 25Gbit; none: as fast as this machine's processor sends."""
    latency: str | None = None
    """From a host to another, such as 10us."""
    preset: str = "pathway"
    """What is trained."""
    batch: int | None = None
    """Rows per step, as --scaling says; none: the preset's."""
    scaling: Literal["weak", "strong"] = "weak"
    """weak: --batch is what each worker gets. strong: --batch is the global batch."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: all that were measured."""
    verify: bool = False
    """Measure one worker and two over virtual hosts, predict what is held out, launch that, and score predictions."""
    held_out: int = 64
    """Scenarios that are held out, about; each is launched in two rounds."""
    repetitions: int = 2
    """Rounds of what the models of a verification are fitted to."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that can't be had."""
        for name in self.strategies:
            if catalogue.find(name).graph is None:
                raise UserError(f"{name} declares no graph of its step, so nothing predicts it: leave it out.")
        if min([*self.workers, *self.over_hosts, self.held_out, self.repetitions], default=0) < 1:
            raise UserError("--workers, --over-hosts, --held-out and --repetitions take whole numbers above 0.")
        if self.over_hosts and len(self.over_hosts) != len(self.workers):
            raise UserError("--over-hosts: name as many numbers as --workers has.")
        for workers, hosts in self.worlds:
            if workers % hosts:
                raise UserError(f"--workers {workers} can't be alike on {hosts} hosts: give a multiple of the hosts.")
            local_batch(self.task, workers)
        _ = self.wire

    @property
    def worlds(self) -> list[tuple[int, int]]:
        """Workers, and the hosts that they are on."""
        return [*zip(self.workers, self.over_hosts or self.workers, strict=True)]

    @property
    def task(self) -> Task:
        """What is trained."""
        task = preset_task(self.preset)
        return dataclasses.replace(task, scaling=self.scaling, batch=task.batch if self.batch is None else self.batch)

    @property
    def wire(self) -> Wire:
        """What joins hosts. Raises UserError for a bandwidth or a time without a unit."""
        bits = parse_bandwidth(self.bandwidth) if self.bandwidth else None
        return Wire(bits, parse_duration(self.latency) if self.latency else 0.0)

    @property
    def chosen(self) -> list[Strategy]:
        """The strategies of a verification: those that are named, or all that have a graph and go over hosts."""
        return [
            each
            for each in catalogue.strategies().values()
            if each.graph and each.launcher.across_hosts and not each.work.is_divided
            if not self.strategies or each.name in self.strategies
        ]


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/prediction.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = console_for(width=150)
    if arguments.scope.verify:
        _verify(console, arguments)
    else:
        _predict(console, arguments)


# From what was measured before


def _predict(console: Console, arguments: Arguments) -> None:
    scope, output = arguments.scope, arguments.output
    results = arguments.session.results
    if output.plan:
        for session, (_, kinds) in _SOURCES.items():
            console.print(f"{session}: {_newest(results, kinds) or 'none yet, so it is made first'}")
        return
    ensure_writable(output.out)
    folders = [_newest(results, kinds) or _made(results, session) for session, (_, kinds) in _SOURCES.items()]
    records = read_records(folders[0], Record)
    _refuse_others(records.values(), folders[0])
    measurements = measured(trusted(records, folders[0]).values(), read_records(folders[1], CollectivesRecord).values())
    strategies = model.fit(measurements).strategies
    missing = [name for name in scope.strategies if name not in strategies]
    if missing:
        raise UserError(
            f"{missing[0]} isn't in {folders[0]} with one worker and with two: compare it, or leave it out."
        )
    task = scope.task
    asked = [
        Scenario(name, task.preset, local_batch(task, workers), workers, hosts, scope.wire if hosts > 1 else Wire())
        for name in scope.strategies or strategies
        for workers, hosts in scope.worlds
        if workers <= forecast.most_workers(name, task.preset)
    ]
    with begin(console, "predict", arguments, f"{scope}\n{folders}") as session:
        predictions = forecast.predictions(measurements, asked, [folder.name for folder in folders])
        _keep(session.folder, predictions)
        tell(console, shown.observed(predictions), session.folder)
    sys.exit(report("reports.experiment", session.folder, output.out))


def _newest(results: Path, kinds: Sequence[str]) -> Path | None:
    """The newest folder of a session of this kind that came to its end; None: there is none."""
    ended = [each for kind in kinds for each in results.glob(f"*-{kind}") if (each / FINISHED).exists()]
    return max(ended, key=lambda each: each.name, default=None)


def _made(results: Path, session: str) -> Path:
    """The folder of a session that is made now. Raises UserError where it doesn't come to its end."""
    module, kinds = _SOURCES[session]
    subprocess.run([sys.executable, "-m", module, "--results", str(results)], cwd=ROOT)
    folder = _newest(results, kinds)
    if folder is None:
        raise UserError(f"Nothing is measured here: `nox -s {session}` didn't come to its end; mend it first.")
    return folder


def _refuse_others(records: Iterable[Record], folder: Path) -> None:
    """Raises UserError where what was measured is another machine's, or another commit's."""
    processor, commit = machine.host_facts().processor, machine.git_commit()
    for record in records:
        if record.status != "ok":
            continue
        if record.host.processor != processor:
            raise UserError(f"{folder} was measured on another machine: run `nox -s compare` on this one.")
        if record.git_commit != commit:
            raise UserError(f"{folder} was measured at commit {record.git_commit}: run `nox -s compare` at this one.")


def _keep(folder: Path, predictions: Predictions) -> None:
    write_record(predictions_path(folder), predictions)
    manifest.note(folder, [predictions_path(folder)])


# Held to launches


def _verify(console: Console, arguments: Arguments) -> None:
    scope, output = arguments.scope, arguments.output
    selection = Selection(virtual_hosts=HOSTS)
    hosts, spread = chosen_hosts.find(console, "common.laboratory.predict", selection, (1, 2, HOSTS), output.plan)
    assert spread, "Virtual hosts are several."
    if output.plan:
        launches = [*fitted_to(scope, 1)]
        console.print(
            f"{scope.repetitions} rounds of {len(launches)} launches that the models are fitted to, then 2 rounds of "
            f"{scope.held_out} scenarios that are held out."
        )
        return
    ensure_writable(output.out)
    assert hosts, "They have been made."
    with begin(console, "predict", arguments, f"{scope}") as session:
        schedule = Schedule[Planned, Record | CollectivesRecord](
            stages(scope, spread, session.order_seed, session.folder)
        )
        session.run(schedule, partial(make_on, hosts), _read)
        predictions = _scored(session.folder)
        _keep(session.folder, predictions)
        tell(console, shown.observed(predictions), session.folder)
    sys.exit(report("reports.experiment", session.folder, output.out))


def stages(scope: Scope, spread: Hosts, seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """Rounds that models are fitted to; then predictions are kept, and rounds follow of what they hold out."""
    yield from rounds_of(scope.repetitions, seed, partial(fitted_to, scope))
    path = predictions_path(folder)
    if not path.exists():
        measurements = _fitted_records(folder)
        fitted = model.fit(measurements)
        held = drawn(scope, spread, forecast.digest_of(fitted), [*fitted.strategies])
        scenarios = [scenario for scenario, _ in held]
        _keep(folder, forecast.predictions(measurements, scenarios, [folder.name]))
    kept = read_record(path, Predictions)
    names = [*dict.fromkeys(each.strategy for each in kept.predicted)]
    held = [launch for _, launch in drawn(scope, spread, kept.digest, names)]
    order = random.Random(kept.digest)
    for number in (1, 2):
        launches = [Planned(HELD, dataclasses.replace(launch, repetition=number)) for launch in held]
        order.shuffle(launches)
        yield Stage("held out", f"held out, round {number} of 2", launches)


def fitted_to(scope: Scope, repetition: int) -> Iterator[Planned]:
    """A round of what models are fitted to: one worker at two batches of each preset, two workers on the first preset
    with exchange and without, as fast as links go, and each library's all-reduce between two ranks.
    """
    for strategy in scope.chosen:
        for preset in _PRESETS:
            for batch in _BATCHES:
                yield Planned("", _launch(strategy, preset, batch, 1, Wire(), repetition))
        two = _launch(strategy, _PRESETS[0], _BATCHES[0], 2, Wire(), repetition)
        yield Planned("", two)
        if issubclass(strategy.options, ExchangeOptions):
            alone = dataclasses.replace(two.options, exchange=False)
            yield Planned("", dataclasses.replace(two, options=alone))
    for library in dict.fromkeys(strategy.family.library for strategy in scope.chosen):
        yield Planned(SWEEPS, PlannedSweep(catalogue.find_library(library), _SWEEP, repetition, hosts=2))


def drawn(scope: Scope, spread: Hosts, digest: str, names: Sequence[str]) -> list[tuple[Scenario, PlannedLaunch]]:
    """What is held out: the digest of the models draws a preset, a batch, hosts and a link for each strategy."""
    draw = random.Random(digest)
    held: list[tuple[Scenario, PlannedLaunch]] = []
    for _ in range(math.ceil(scope.held_out / len(names))):
        preset, batch = draw.choice(_PRESETS), draw.choice(_HELD_BATCHES)
        # Twice as many scenarios have cores of their own as share them.
        workers = draw.choice((2, 2, HOSTS))
        delay_seconds = draw.choice(_HELD_DELAYS_SECONDS)
        low, high = map(math.log, _DELAYED_MBITS if delay_seconds else _HELD_MBITS)
        is_unlimited = not delay_seconds and draw.random() < 0.2
        bits = None if is_unlimited else 1e6 * round(math.exp(draw.uniform(low, high)))
        wire = Wire(bits, delay_seconds, BURST_BYTES)
        for name in names:
            crowding = crowding_of(name, workers, spread.cores_together)
            scenario = Scenario(name, preset, batch, workers, workers, wire, crowding)
            held.append((scenario, _launch(catalogue.find(name), preset, batch, workers, wire, 1)))
    return held


def _launch(strategy: Strategy, preset: str, batch: int, workers: int, wire: Wire, repetition: int) -> PlannedLaunch:
    """A launch with one worker on each host."""
    options, task = strategy.options(), dataclasses.replace(preset_task(preset), scaling="weak", workers=workers)
    # Workers that don't wait for one another run dry at the end of a window, for longer over a slow link.
    window_steps, windows = (300 if wire.bandwidth_bits_per_second else 60, 3)
    if strategy.is_synchronous(options):
        # A step may have dozens of messages, which each wait for the delay.
        window_steps, windows = (5, 8) if wire.latency_seconds else (15, 10)
    task = dataclasses.replace(
        task,
        batch=batch,
        warmup_steps=window_steps,
        window_steps=window_steps,
        steps=(1 + windows) * window_steps,
        deadline_seconds=180.0,
    )
    bits, delay_seconds = wire.bandwidth_bits_per_second, wire.latency_seconds
    if strategy.is_synchronous(options):
        task = comparison_scope.with_steps_for(task, Size(workers, workers, bits))
    return PlannedLaunch(strategy, workers, "throughput", repetition, task, options, workers, bits, delay_seconds)


def make_on(executor: Executor[Any], planned: Planned, folder: Path) -> Record | CollectivesRecord:
    """Make one launch and return its record."""
    return run_planned(planned.launch, folder / planned.folder, executor)


def _read(path: Path) -> Record | CollectivesRecord:
    return read_record(path, CollectivesRecord if path.parent.name == SWEEPS else Record)


def _fitted_records(folder: Path) -> Measured:
    """What the models of a verification are fitted to, which lies in its folder before anything that is held out."""
    records = trusted(read_records(folder, Record), folder)
    return measured(records.values(), read_records(folder / SWEEPS, CollectivesRecord).values())


def _scored(folder: Path) -> Predictions:
    """The predictions with what was measured of each, and how well they did."""
    kept = read_record(predictions_path(folder), Predictions)
    launched = measured(trusted(read_records(folder / HELD, Record), folder / HELD).values(), ()).steps
    held = [
        structs.replace(each, measured_seconds=[*launched.get(forecast.scenario_of(each), ())])
        for each in kept.predicted
    ]
    baselines = scores.baselines_of(_fitted_records(folder))
    return structs.replace(
        kept,
        predicted=held,
        scores=scores.score([each for each in held if not each.oversubscribed], baselines),
        oversubscribed_scores=scores.score([each for each in held if each.oversubscribed], baselines),
    )


if __name__ == "__main__":
    exit_with_one_line(main)
