"""Hold the statistics to their promise on this machine, with launches that are known to be equal, or to be slower.

To start it: `nox -s calibrate`. One strategy is launched under three names, in rounds: `first` and `second` are equal,
and `busy` has busy work of 5 % of its own step in its loop. An interrupted calibration goes on where it stopped when it
is started again with the same options. Exits with 1 where a promise is broken.
"""

import dataclasses
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from common.declarations import catalogue
from common.errors import UserError, exit_with_one_line
from common.launching.launch import python_for
from common.measurement import machine
from common.records import manifest
from common.sessions import calibration_blocks, calibration_verdict
from common.sessions.calibration_blocks import LONG_BLOCK, Measured, Simulated
from common.sessions.calibration_rounds import planned, run_rounds
from common.sessions.calibration_subject import subject
from common.sessions.calibration_verdict import Calibration, Promise
from common.sessions.folder import order_seed, unfinished_or_new

SIMULATION_SEED = 0
"""Of the simulated families, so that their result is the code's alone."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Hold the statistics to their promise on this machine."""

    strategy: str = field(default_factory=lambda: subject().name)
    """The strategy that is launched under three names."""
    rounds: int = 180
    """Rounds of one launch under each name: with fewer than 180 hardly anything can be concluded."""
    families: int = 10_000
    """Families of each size that are simulated."""
    results: Path = Path("results")
    """Folder in which each calibration gets a folder of its own."""
    order_seed: int | None = None
    """Seed of the order of the launches; none: a new one."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy that doesn't exist and for too few rounds or families."""
        catalogue.find(self.strategy)
        if self.rounds < LONG_BLOCK:
            raise UserError(f"--rounds {self.rounds}: give {LONG_BLOCK} or more, which make a block.")
        if self.families < 1:
            raise UserError(f"--families {self.families}: give a whole number above 0.")


def main() -> None:
    """Calibrate as the command line says. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = Console(width=None if sys.stdout.isatty() else 120)
    python_for(catalogue.find(arguments.strategy))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with machine.alone():
            calibration = _calibrate(console, arguments)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    judged = calibration_verdict.promises(calibration)
    _print_promises(console, judged)
    sys.exit(any(promise.holds is False for promise in judged))


def _calibrate(console: Console, arguments: Arguments) -> Calibration:
    """Make the rounds that the folder still lacks, judge them, and write what came of them."""
    strategy = catalogue.find(arguments.strategy)
    workers, host = planned(strategy, 1).workers, machine.host_facts()
    known = {"strategy": strategy.name, "workers": workers, "rounds": arguments.rounds}
    folder = unfinished_or_new(arguments.results, calibration_verdict.KIND, str(known), calibration_verdict.FILE)
    seed = order_seed(folder, arguments.order_seed)
    console.print(f"Records of {strategy.name} go to {folder}; the launches' order has seed {seed}.")
    measured = calibration_blocks.measured(**run_rounds(console, strategy, arguments.rounds, folder, seed))
    simulated = calibration_blocks.simulate(arguments.families, np.random.default_rng(SIMULATION_SEED))
    _print_measured(console, measured)
    _print_simulated(console, simulated)
    calibration = Calibration(
        **known | dataclasses.asdict(measured),
        processor=host.processor,
        cores=host.cores,
        commit=machine.git_commit() or "unknown",
        date=datetime.now(UTC).date().isoformat(),
        order_seed=seed,
        families=arguments.families,
        false_different=float(np.nanmax([each.false_different for each in simulated])),
        false_alike=float(np.nanmax([each.false_alike for each in simulated])),
    )
    calibration_verdict.write(folder / calibration_verdict.FILE, calibration)
    manifest.note(folder, [folder / calibration_verdict.FILE])
    return calibration


def _print_measured(console: Console, measured: Measured) -> None:
    table = Table("rounds", "spread within rounds", "busy took longer by (median)", "found in 90 % of blocks of ten")
    shares = (measured.spread, measured.busy_share, measured.smallest_difference)
    table.add_row(str(measured.rounds), *[f"{100 * share:.2f} %" for share in shares])
    console.print(table)


def _print_simulated(console: Console, simulated: list[Simulated]) -> None:
    table = Table("simulated strategies", "how many", "rounds", "false different", "false alike")
    for each in simulated:
        rates = [f"{100 * rate:.1f} %" if rate == rate else "" for rate in (each.false_different, each.false_alike)]
        table.add_row(each.truth, str(each.strategies), str(each.rounds), *rates)
    console.print(table)


def _print_promises(console: Console, promises: list[Promise]) -> None:
    words = {True: "yes", False: "no", None: "can't be concluded"}
    table = Table("promise", "holds", "seen")
    for promise in promises:
        table.add_row(promise.name, words[promise.holds], promise.seen)
    console.print(table)


if __name__ == "__main__":
    exit_with_one_line(main)
