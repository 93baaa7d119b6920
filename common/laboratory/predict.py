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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd
import tyro

from common.contract.collective_meanings import Collective
from common.contract.dataset import preset_task
from common.contract.rows import local_batch
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions, Strategy
from common.declarations.sweep import Sweep
from common.errors import UserError, exit_with_one_line
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts, PlannedLaunch, PlannedSweep, Size
from common.launching.virtual_hosts.description import BURST_BYTES, parse_bandwidth, parse_duration
from common.measurement import machine
from common.paths import ROOT
from common.prediction import forecast, model, scores, shown
from common.prediction.measured import Scenario, crowding_of, measured
from common.prediction.message_costs import Wire
from common.records import manifest
from common.records.collective_times import CollectivesRecord
from common.records.files import read_record, read_records, write_record
from common.records.prediction import Predictions, predictions_path
from common.records.training import Record
from common.sessions import comparison_scope
from common.sessions.experiment import Experiment, clocked_task, run
from common.sessions.folder import FINISHED
from common.sessions.session import Placed, Stage, rounds_of

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
_HELD_ROUNDS = 2
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
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The virtual hosts of a verification."""
    ranks: ClassVar[tuple[int, ...]] = (1, 2, HOSTS)
    """The numbers of workers of a verification."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that can't be had."""
        for name in self.strategies:
            if catalogue.find(name).graph is None:
                raise UserError(f"{name} declares no graph of its step, so nothing predicts it: leave it out.")
        if min([*self.workers, *self.over_hosts, self.held_out], default=0) < 1:
            raise UserError("--workers, --over-hosts and --held-out take whole numbers above 0.")
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


def plan(scope: Scope, results: Path) -> pd.DataFrame:
    """What is launched for a verification, else what predictions rest on."""
    if scope.verify:
        fitted = len([*fitted_to(scope, 1)])
        rows = [("fitted to", scope.repetitions, fitted), ("held out", _HELD_ROUNDS, scope.held_out)]
        return pd.DataFrame(rows, columns=["launches", "rounds", "in each"])
    sources = [(session, _newest(results, session) or "none yet, so it is made first") for session in _SOURCES]
    return pd.DataFrame(sources, columns=["session", "folder"])


def prepare(scope: Scope, results: Path) -> None:
    """Make the sessions that predictions rest on and that aren't there; they take turns with this one.

    Raises UserError where one doesn't come to its end.
    """
    for session, (module, _) in _SOURCES.items():
        if scope.verify or _newest(results, session):
            continue
        subprocess.run([sys.executable, "-m", module, "--results", str(results)], cwd=ROOT)
        if not _newest(results, session):
            raise UserError(f"Nothing is measured here: `nox -s {session}` didn't come to its end; mend it first.")


def _newest(results: Path, session: str) -> Path | None:
    """The newest folder of a session that came to its end; None: there is none."""
    ended = [each for kind in _SOURCES[session][1] for each in results.glob(f"*-{kind}") if (each / FINISHED).exists()]
    return max(ended, key=lambda each: each.name, default=None)


def stages(scope: Scope, seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """Rounds that models are fitted to; then predictions are kept, and rounds follow of what they hold out.

    Without a verification there are no launches: predictions rest on what other sessions have measured.
    """
    path = predictions_path(folder)
    if not scope.verify:
        keep(folder, {path.name: _predictions(scope, folder.parent)})
        return
    yield from rounds_of(scope.repetitions, seed, partial(fitted_to, scope))
    if not path.exists():
        measurements = measured(folder, folder / SWEEPS)
        fitted = model.fit(measurements)
        held = drawn(scope, forecast.digest_of(fitted), [*fitted.strategies])
        keep(folder, {path.name: forecast.predictions(measurements, held, [folder.name])})
    kept = read_record(path, Predictions)
    order = random.Random(kept.digest)
    for number in range(1, _HELD_ROUNDS + 1):
        launches = [Planned(HELD, launch_of(forecast.scenario_of(each), number)) for each in kept.predicted]
        order.shuffle(launches)
        yield Stage("held out", f"held out, round {number} of {_HELD_ROUNDS}", launches)


def _predictions(scope: Scope, results: Path) -> Predictions:
    """What the newest sessions predict. Raises UserError where they can't."""
    folders = [each for name in _SOURCES if (each := _newest(results, name))]
    comparison, collectives = folders
    _refuse_others(read_records(comparison, Record).values(), comparison)
    measurements = measured(comparison, collectives)
    strategies = model.fit(measurements).strategies
    missing = [name for name in scope.strategies if name not in strategies]
    if missing:
        raise UserError(
            f"{missing[0]} isn't in {comparison} with one worker and with two: compare it, or leave it out."
        )
    task = scope.task
    asked = [
        Scenario(name, task.preset, local_batch(task, workers), workers, hosts, scope.wire if hosts > 1 else Wire())
        for name in scope.strategies or strategies
        for workers, hosts in scope.worlds
        if workers <= forecast.most_workers(name, task.preset)
    ]
    return forecast.predictions(measurements, asked, [folder.name for folder in folders])


def _refuse_others(records: Iterable[Record], folder: Path) -> None:
    """Raises UserError where what was measured is another machine's, or another commit's."""
    processor, commit = machine.host_facts().processor, machine.git_commit()
    for record in (each for each in records if each.status == "ok"):
        if record.host.processor != processor:
            raise UserError(f"{folder} was measured on another machine: run `nox -s compare` on this one.")
        if record.git_commit != commit:
            raise UserError(f"{folder} was measured at commit {record.git_commit}: run `nox -s compare` at this one.")


def fitted_to(scope: Scope, repetition: int) -> Iterator[Planned]:
    """A round of what models are fitted to: one worker at two batches of each preset, two workers on the first preset
    with exchange and without, as fast as links go, and each library's all-reduce between two ranks.
    """
    for strategy in scope.chosen:
        for preset in _PRESETS:
            for batch in _BATCHES:
                yield Planned("", launch_of(Scenario(strategy.name, preset, batch, 1, 1), repetition))
        two = launch_of(Scenario(strategy.name, _PRESETS[0], _BATCHES[0], 2, 2), repetition)
        yield Planned("", two)
        if issubclass(strategy.options, ExchangeOptions):
            alone = dataclasses.replace(two.options, exchange=False)
            yield Planned("", dataclasses.replace(two, options=alone))
    for library in dict.fromkeys(strategy.family.library for strategy in scope.chosen):
        yield Planned(SWEEPS, PlannedSweep(catalogue.find_library(library), _SWEEP, repetition, hosts=2))


def drawn(scope: Scope, digest: str, names: Sequence[str]) -> list[Scenario]:
    """What is held out: the digest of the models draws a preset, a batch, hosts and a link for each strategy."""
    draw = random.Random(digest)
    cores = scope.spread and scope.spread.cores_together
    held: list[Scenario] = []
    for _ in range(math.ceil(scope.held_out / len(names))):
        preset, batch = draw.choice(_PRESETS), draw.choice(_HELD_BATCHES)
        # Twice as many scenarios have cores of their own as share them.
        workers = draw.choice((2, 2, HOSTS))
        delay_seconds = draw.choice(_HELD_DELAYS_SECONDS)
        low, high = map(math.log, _DELAYED_MBITS if delay_seconds else _HELD_MBITS)
        is_unlimited = not delay_seconds and draw.random() < 0.2
        bits = None if is_unlimited else 1e6 * round(math.exp(draw.uniform(low, high)))
        wire = Wire(bits, delay_seconds, BURST_BYTES)
        held += [
            Scenario(name, preset, batch, workers, workers, wire, crowding_of(name, workers, cores)) for name in names
        ]
    return held


def launch_of(scenario: Scenario, repetition: int) -> PlannedLaunch:
    """The launch of a scenario over virtual hosts, with one worker on each."""
    strategy, workers, wire = catalogue.find(scenario.strategy), scenario.workers, scenario.wire
    options = strategy.options()
    # Workers that don't wait for one another run dry at the end of a window, for longer over a slow link.
    window_steps, windows = (300 if wire.bandwidth_bits_per_second else 60, 3)
    if strategy.is_synchronous(options):
        # A step may have dozens of messages, which each wait for the delay.
        window_steps, windows = (5, 8) if wire.latency_seconds else (15, 10)
    task = clocked_task(scenario.preset, workers, scenario.rows, window_steps, window_steps, windows)
    bits, delay_seconds = wire.bandwidth_bits_per_second, wire.latency_seconds
    if strategy.is_synchronous(options):
        task = comparison_scope.with_steps_for(task, Size(workers, workers, bits))
    return PlannedLaunch(strategy, workers, "throughput", repetition, task, options, workers, bits, delay_seconds)


def scored(folder: Path, records: Mapping[str, object]) -> dict[str, Predictions]:
    """The kept predictions, with what was measured of each since, and how well they did; empty: none were kept."""
    path = predictions_path(folder)
    if not path.exists():
        return {}
    kept = read_record(path, Predictions)
    return {path.name: scores.scored(kept, measured(folder / HELD), measured(folder, folder / SWEEPS))}


def keep(folder: Path, predictions: Mapping[str, Predictions]) -> int:
    """Keep the predictions of a session in their file."""
    for name, each in predictions.items():
        write_record(folder / name, each)
        manifest.note(folder, [folder / name])
    return 0


EXPERIMENT = Experiment(
    name="predict",
    results="prediction",
    about=__doc__ or "",
    scope=Scope,
    hosts=lambda scope: Selection(virtual_hosts=HOSTS if scope.verify else None),
    record=Record,
    records_below={SWEEPS: CollectivesRecord, HELD: Record},
    prepare=prepare,
    stages=stages,
    plan=plan,
    gather=scored,
    observe=shown.observe,
    show=shown.show,
    keep=keep,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
