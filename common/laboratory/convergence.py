"""Send less and converge otherwise: which loss after how long and how many bytes (about 20 minutes at 100 Mbit/s).

Strategies that declare ways to send fewer bytes are trained with each of them and without. A round is a seed of the
weights and of the rows' order. On one machine bytes are cheap: `--virtual-hosts 2 --bandwidth 100mbit` shows a slow
link.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import tyro

from common.contract.dataset import preset_task
from common.declarations import catalogue
from common.declarations.strategy import Strategy, name_of, other_maths
from common.errors import UserError, exit_with_one_line
from common.launching.planned import Hosts, PlannedLaunch
from common.observations.display import Display, Measure, Series
from common.observations.table import Missing, Observation
from common.records.metrics import throughput
from common.records.training import Record
from common.sessions.comparison_scope import placements
from common.sessions.experiment import Experiment, in_rounds, run

_SMOOTHED_STEPS = 20
"""A loss counts as the mean over so many steps: batches differ."""

_LOWERED = (50, 70, 80, 90)
"""How far a loss has to fall, percent of the way from that of the first step to 0."""

_DRAWN_POINTS = 40
"""Of a launch's course."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session trains."""

    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: each that declares a way to send fewer bytes by other maths."""
    preset: str = "mnist_5k"
    """What is trained, under strong scaling."""
    workers: int = 2
    """Workers of each strategy."""
    steps: int = 600
    """Steps of each launch."""
    repetitions: int = 6
    """Seeds, each a round; with fewer than 6 nothing is told for sure."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The hosts where there are several, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that can't be had."""
        preset_task(self.preset)
        for name in self.strategies:
            if not _ways(catalogue.find(name)):
                raise UserError(f"{name} declares no way to send fewer bytes by other maths: name another strategy.")
        if self.workers < 2:
            raise UserError(f"--workers {self.workers}: give 2 or more, since one sends nothing.")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The number of workers of each strategy."""
        return (self.workers,)


def _ways(strategy: Strategy) -> list[dict[str, object]]:
    """Values of its options with which it sends fewer bytes and computes other maths."""
    return [dict(values) for values in strategy.over_links if other_maths(strategy.options(**values))]


def launches(scope: Scope, repetition: int) -> Iterator[PlannedLaunch]:
    """Each strategy with each of its ways and as it is, from the weights and rows of one seed."""
    named = scope.strategies or [name for name, each in catalogue.strategies().items() if _ways(each)]
    hosts = scope.spread
    size = placements(hosts, scope.workers)[-1]
    task = dataclasses.replace(
        preset_task(scope.preset), steps=scope.steps, workers=scope.workers, seed=repetition, deadline_seconds=180.0
    )
    for strategy in map(catalogue.find, named):
        for values in [{}, *_ways(strategy)]:
            yield PlannedLaunch(
                strategy=strategy,
                workers=scope.workers,
                purpose="throughput",
                repetition=repetition,
                task=task,
                options=strategy.options(**values),
                hosts=size.hosts if hosts else None,
                bandwidth_bits_per_second=size.bandwidth_bits_per_second,
            )


def observe(launch: str, record: Record) -> Iterator[Observation | Missing]:
    """Seconds and bytes until the loss has fallen so far, and the loss over both.

    A step counts as the launch's median step, warm-up left out. Bytes are measured, or by formula where nothing tells.
    """
    world = ", ".join(filter(None, [f"{record.world_size} workers", record.placement, record.task.preset]))
    series = _series_of(record)
    missing = partial(Missing, world=world, series=series, round=record.task.seed)
    if record.status != "ok":
        yield missing(x=math.nan, status=record.status, reason=str(record.reason))
        return
    row = partial(Observation, world=world, series=series, round=record.task.seed, launch=launch)
    row = partial(row, oversubscribed=record.oversubscribed)
    sent = record.formula_bytes_per_step if record.wire_bytes_per_step is None else record.wire_bytes_per_step
    costs = {"seconds": throughput(record).seconds_per_step} | ({} if sent is None else {"bytes": sent})
    losses = np.array(record.losses, float)
    smooth = np.convolve(losses, np.full(_SMOOTHED_STEPS, 1 / _SMOOTHED_STEPS), "valid")
    for percent in _LOWERED:
        steps = np.flatnonzero(smooth <= (1 - percent / 100) * losses[0]) + _SMOOTHED_STEPS
        if not len(steps):
            yield missing(x=percent, status="ok", reason="The loss didn't fall so far.")
            continue
        for measure, cost in costs.items():
            yield row(x=percent, measure=measure, value=cost * int(steps[0]))
    units = {"seconds": 1.0, "bytes": 1e6}
    for step in np.unique(np.linspace(_SMOOTHED_STEPS, len(losses), _DRAWN_POINTS).astype(int)):
        for measure, cost in costs.items():
            x, loss = cost * int(step) / units[measure], float(smooth[step - _SMOOTHED_STEPS])
            yield row(x=x, measure=f"loss over {measure}", value=loss)


def _series_of(record: Record) -> str:
    """The strategy with its way, if any."""
    return name_of(record.strategy, record.label.removesuffix(", other maths"))


def show(records: Sequence[Record], observed: pd.DataFrame) -> Display:
    """Each way beside its strategy as it is."""
    names = {_series_of(record): record for record in records}
    series = [
        Series(name=name, colors=record.colors, base=record.strategy if name != record.strategy else "", growth=False)
        for name, record in sorted(names.items())
    ]
    return Display(
        title="Fewer bytes, other maths: how soon the loss falls",
        contender="way",
        x="% lower loss",
        series=series,
        measures=[
            Measure(name="seconds", label="until then, s", meaning="steps until then, times the median step"),
            Measure(name="bytes", label="sent until then, MB", factor=1e-6, meaning="by all workers' host"),
            Measure(name="loss over seconds", label="training loss", over="seconds"),
            Measure(name="loss over bytes", label="training loss", over="MB sent"),
        ],
        method=[
            f"A loss is the mean over {_SMOOTHED_STEPS} steps, and is lowered by 100 % at 0. Each round has a seed of "
            "its own for weights and rows.",
            "The ways compute other maths, so that none of them is held to the oracle.",
        ],
    )


EXPERIMENT = Experiment(
    name="convergence",
    about=__doc__ or "",
    scope=Scope,
    hosts="any",
    record=Record,
    stages=in_rounds(launches),
    observe=observe,
    show=show,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
