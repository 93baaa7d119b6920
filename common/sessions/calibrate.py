"""Hold the statistics to their promise on this machine, with launches that are known to be equal, or to be slower.

To start it: `nox -s calibrate`. One strategy is launched under three names, in rounds: `first` and `second` are equal,
and `busy` has busy work of 5 % of its own step in its loop. An interrupted calibration goes on where it stopped when it
is started again with the same options. Exits with 1 where a promise is broken.
"""

import dataclasses
import random
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from common.declarations import catalogue
from common.declarations.strategy import Strategy
from common.errors import UserError, exit_with_one_line
from common.launching import supervision
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.records import manifest, metrics
from common.records.files import read_record
from common.records.training import Record
from common.sessions import calibration_blocks, calibration_verdict
from common.sessions.calibration_blocks import LONG_BLOCK, Measured
from common.sessions.calibration_subject import subject
from common.sessions.calibration_verdict import Calibration, Promise
from common.sessions.comparison_plan import Scope, main_worlds, throughput
from common.sessions.session import Options, Rounds, Session, begin, console_for, in_words, numbered

RUNNERS: dict[str, Literal["busy"] | None] = {"first": None, "second": None, "busy": "busy"}
"""By alias what runs the strategy's script."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Hold the statistics to their promise on this machine."""

    strategy: str = field(default_factory=lambda: subject().name)
    """The strategy that is launched under three names."""
    rounds: int = 180
    """Rounds of one launch under each name: with fewer than 180 hardly anything can be concluded."""
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)

    def __post_init__(self) -> None:
        """Raises UserError for a strategy that doesn't exist and for too few rounds."""
        catalogue.find(self.strategy)
        if self.rounds < LONG_BLOCK:
            raise UserError(f"--rounds {self.rounds}: give {LONG_BLOCK} or more, which make a block.")


@dataclass(frozen=True)
class Aliased:
    """A launch of the strategy under one of the names, in whose folder its record lies."""

    alias: str
    launch: PlannedLaunch

    @property
    def name(self) -> str:
        """Unique in a calibration."""
        return f"{self.alias}/{self.launch.name}"


class Calibrated(Rounds[Aliased]):
    """The rounds of a calibration, and samples per second of each alias in each of them."""

    def __init__(self, rounds: list[list[Aliased]], folder: Path) -> None:
        super().__init__(numbered(rounds))
        self._folder = folder
        self.rates: dict[str, list[float]] = {alias: [] for alias in RUNNERS}

    def note(self, launch: Aliased, seconds: float, record: Record) -> None:
        """Take note of a launch's rate. Raises UserError where it measured nothing: every round has to be whole."""
        super().note(launch, seconds, record)
        if record.status != "ok":
            log = self._folder / launch.alias / str(record.log)
            raise UserError(
                f"Round {launch.launch.repetition} has no measurement of {launch.alias}, since its launch is "
                f"{record.status} ({str(record.reason).rstrip('.')}; log: {log}): mend that, start it again, and it "
                "goes on there."
            )
        self.rates[launch.alias].append(metrics.throughput(record).samples_per_second)


def planned(strategy: Strategy, repetition: int, alias: str = "first") -> PlannedLaunch:
    """The launch that a round of the quick comparison has of the strategy, under one of the names."""
    scope = Scope(strategies=(strategy.name,))
    [launch] = throughput(scope, strategy, main_worlds(scope)[strategy.name], repetition, alone=False)
    return dataclasses.replace(launch, runner=RUNNERS[alias])


def rounds(strategy: Strategy, count: int, order_seed: int) -> list[list[Aliased]]:
    """Every round: one launch under each name, in an order that the seed shuffles."""
    order = random.Random(order_seed)
    return [
        [Aliased(alias, planned(strategy, repetition, alias)) for alias in order.sample([*RUNNERS], len(RUNNERS))]
        for repetition in range(1, count + 1)
    ]


def main() -> None:
    """Calibrate as the command line says. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console, strategy = console_for(width=120), catalogue.find(arguments.strategy)
    python_for(strategy)
    options = {"strategy": strategy.name, "workers": planned(strategy, 1).workers, "rounds": arguments.rounds}
    with begin(console, "calibrate", arguments, str(options), kind=calibration_verdict.KIND) as session:
        schedule = Calibrated(rounds(strategy, arguments.rounds, session.order_seed), session.folder)
        session.run(schedule, _make, partial(read_record, kind=Record), _in_words)
        rates = {alias: np.array(each) for alias, each in schedule.rates.items()}
        calibration = _conclude(session, strategy, calibration_blocks.measured(**rates))
    promises = calibration_verdict.promises(calibration)
    _print_promises(console, promises)
    sys.exit(any(promise.holds is False for promise in promises))


def _make(launch: Aliased, folder: Path) -> Record:
    return supervision.run_planned(launch.launch, folder / launch.alias)


def _in_words(launch: Aliased, record: Record) -> str:
    if record.status != "ok":
        return in_words(launch, record)
    return f"{metrics.throughput(record).samples_per_second:>9,.0f} samples/s"


def _conclude(session: Session, strategy: Strategy, measured: Measured) -> Calibration:
    """Print what the rounds say, and write it into the folder."""
    _print_measured(session.console, measured)
    host = machine.host_facts()
    calibration = Calibration(
        **dataclasses.asdict(measured),
        strategy=strategy.name,
        workers=planned(strategy, 1).workers,
        processor=host.processor,
        cores=host.cores,
        commit=machine.git_commit() or "unknown",
        date=datetime.now(UTC).date().isoformat(),
        order_seed=session.order_seed,
    )
    path = session.folder / calibration_verdict.FILE
    calibration_verdict.write(path, calibration)
    manifest.note(session.folder, [path])
    return calibration


def _print_measured(console: Console, measured: Measured) -> None:
    table = Table("rounds", "spread within rounds", "busy took longer by (median)", "found in 90 % of blocks of ten")
    shares = (measured.spread, measured.busy_share, measured.smallest_difference)
    table.add_row(str(measured.rounds), *[f"{100 * share:.2f} %" for share in shares])
    console.print(table)


def _print_promises(console: Console, promises: list[Promise]) -> None:
    words = {True: "yes", False: "no", None: "can't be concluded"}
    table = Table("promise", "holds", "seen")
    for promise in promises:
        table.add_row(promise.name, words[promise.holds], promise.seen)
    console.print(table)


if __name__ == "__main__":
    exit_with_one_line(main)
