"""Hold the statistics to their promise here: equal launches, and ones with busy work (about 45 minutes).

To start it: `nox -s calibrate`. One strategy is launched under three names, in rounds: `first` and `second` are equal,
and `busy` has busy work of 5 % of its own step in its loop. An interrupted calibration goes on where it stopped when it
is started again with the same options. Exits with 1 where a promise is broken.
"""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from rich.table import Table

from common.declarations import catalogue
from common.declarations.strategy import Strategy
from common.errors import UserError, exit_with_one_line
from common.launching import executor
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.records import calibration, certificate, manifest, metrics
from common.records.calibration import LONG_BLOCK, Calibration
from common.records.files import read_record
from common.records.training import Record
from common.sessions.comparison_scope import Scope, main_worlds, speed_launches
from common.sessions.session import Options, Placed, Schedule, Stage, begin, console_for, in_words, rounds_of

LAUNCHES = "first_base"
"""The program of the catalogue's that it launches where none is named."""

RUNNERS: dict[str, Literal["busy"] | None] = {"first": None, "second": None, "busy": "busy"}
"""What runs the strategy's script, by the name that it is launched under."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Hold the statistics to their promise on this machine."""

    strategy: str = field(default_factory=lambda: catalogue.first_base().name)
    """The strategy that is launched under three names."""
    rounds: int = 180
    """Rounds of one launch under each name: with fewer than 180 hardly anything can be concluded."""
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Raises UserError for a strategy that doesn't exist and for too few rounds."""
        catalogue.find(self.strategy)
        if self.rounds < LONG_BLOCK:
            raise UserError(f"--rounds {self.rounds}: give {LONG_BLOCK} or more, which make a block.")


class Rates(Schedule[Placed[PlannedLaunch], Record]):
    """The rounds of a calibration, and samples per second under each name in each of them."""

    def __init__(self, stages: Sequence[Stage[Placed[PlannedLaunch]]], folder: Path) -> None:
        super().__init__(stages)
        self._folder = folder
        self.rates: dict[str, list[float]] = {name: [] for name in RUNNERS}

    def note(self, launch: Placed[PlannedLaunch], seconds: float, record: Record) -> None:
        """Take note of a launch's rate. Raises UserError where it measured nothing: every round has to be whole."""
        super().note(launch, seconds, record)
        if record.status != "ok":
            log = self._folder / launch.folder / str(record.log)
            raise UserError(
                f"Round {launch.launch.repetition} has no measurement of {launch.folder}, since its launch is "
                f"{record.status} ({str(record.reason).rstrip('.')}; log: {log}): mend that, start it again, and it "
                "goes on there."
            )
        [compared] = certificate.compare({launch.launch.name: record}, self._folder / launch.folder)
        if compared.verdict == certificate.DEVIATES:
            raise UserError(f"{launch.launch.name} trained something else ({compared.note}): mend that first.")
        self.rates[launch.folder].append(metrics.throughput(record).samples_per_second)


def planned(strategy: Strategy, repetition: int, name: str = "first") -> PlannedLaunch:
    """The launch that a round of the quick comparison has of the strategy, under one of the three names."""
    scope = Scope(strategies=(strategy.name,))
    [launch] = speed_launches(scope, strategy, main_worlds(scope)[strategy.name], repetition, with_t_comp=False)
    return dataclasses.replace(launch, runner=RUNNERS[name])


def main() -> None:
    """Calibrate as the command line says. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console, strategy = console_for(width=120), catalogue.find(arguments.strategy)
    python_for(strategy)
    workers = planned(strategy, 1).workers
    identity = str({"strategy": strategy.name, "workers": workers, "rounds": arguments.rounds})
    with begin(console, "calibrate", arguments, identity, kind=calibration.KIND) as session:
        rounds = rounds_of(
            arguments.rounds,
            session.order_seed,
            lambda number: [Placed(name, planned(strategy, number, name)) for name in RUNNERS],
        )
        schedule = Rates(rounds, session.folder)
        session.run(schedule, _make, partial(read_record, kind=Record), _in_words)
        measured = calibration.measured(**{name: np.array(rates) for name, rates in schedule.rates.items()})
        table = Table(
            "rounds", "spread within rounds", "busy took longer by (median)", "found in 90 % of blocks of ten"
        )
        shares = (measured.spread, measured.busy_share, measured.smallest_difference)
        table.add_row(str(measured.rounds), *[f"{100 * share:.2f} %" for share in shares])
        console.print(table)
        host = machine.host_facts()
        result = Calibration(
            **dataclasses.asdict(measured),
            strategy=strategy.name,
            workers=workers,
            processor=host.processor,
            cores=host.usable_cores or 0,
            commit=machine.git_commit() or "unknown",
            date=datetime.now(UTC).date().isoformat(),
            order_seed=session.order_seed,
        )
        path = session.folder / calibration.FILE
        calibration.write(path, result)
        manifest.note(session.folder, [path])
    promises = calibration.promises(result)
    table = Table("promise", "holds", "seen")
    for promise in promises:
        table.add_row(promise.name, {True: "yes", False: "no", None: "can't be concluded"}[promise.holds], promise.seen)
    console.print(table)
    sys.exit(any(promise.holds is False for promise in promises))


def _make(launch: Placed[PlannedLaunch], folder: Path) -> Record:
    return executor.run_planned(launch.launch, folder / launch.folder)


def _in_words(launch: Placed[PlannedLaunch], record: Record) -> str:
    if record.status != "ok":
        return in_words(launch, record)
    return f"{metrics.throughput(record).samples_per_second:>9,.0f} samples/s"


if __name__ == "__main__":
    exit_with_one_line(main)
