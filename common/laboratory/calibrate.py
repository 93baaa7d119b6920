"""Hold the statistics to their promise here: equal launches, and ones with busy work (about 45 minutes).

To start it: `nox -s calibrate`. One strategy is launched under three names, in rounds: `first` and `second` are equal,
and `busy` has busy work of 5 % of its own step in its loop. An interrupted calibration goes on where it stopped when it
is started again with the same options. Exits with 1 where a promise is broken.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from msgspec import structs

from common.declarations import catalogue
from common.errors import UserError, exit_with_one_line
from common.launching.executor import Executor, run_planned
from common.launching.planned import PlannedLaunch
from common.observations.display import Display, Measure, Table
from common.observations.numbers import percent
from common.records import calibration, certificate, manifest, metrics
from common.records.calibration import LONG_BLOCK, Calibration
from common.records.files import write_record
from common.records.training import Record
from common.sessions import comparison_scope
from common.sessions.comparison_scope import main_worlds, speed_launches
from common.sessions.experiment import Experiment, in_rounds, run
from common.sessions.folder import order_seed
from common.sessions.session import Placed

LAUNCHES = "first_base"
"""The program of the catalogue's that it launches where none is named."""

RUNNERS: dict[str, Literal["busy"] | None] = {"first": None, "second": None, "busy": "busy"}
"""What runs the strategy's script, by the name that it is launched under."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What is launched, and how often."""

    strategy: str = field(default_factory=lambda: catalogue.first_base().name)
    """The strategy that is launched under three names."""
    repetitions: int = 180
    """Rounds of one launch under each name: with fewer than 180 hardly anything can be concluded."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy that doesn't exist and for too few rounds."""
        catalogue.find(self.strategy)
        if self.repetitions < LONG_BLOCK:
            raise UserError(f"--repetitions {self.repetitions}: give {LONG_BLOCK} or more, which make a block.")


def launches(scope: Scope, repetition: int) -> Iterator[Placed[PlannedLaunch]]:
    """The launch that a round of the quick comparison has of the strategy, under each name in a folder of that name."""
    strategy, compared = catalogue.find(scope.strategy), comparison_scope.Scope(strategies=(scope.strategy,))
    size = main_worlds(compared)[strategy.name]
    [launch] = speed_launches(compared, strategy, size, repetition, with_t_comp=False)
    for name, runner in RUNNERS.items():
        yield Placed(name, dataclasses.replace(launch, runner=runner))


def make(launch: PlannedLaunch, folder: Path, hosts: Executor[Any]) -> Record:
    """Make one launch and return its record. Raises UserError where it measured nothing: rounds have to be whole."""
    record = run_planned(launch, folder, hosts)
    if record.status == "ok":
        [compared] = certificate.compare({launch.name: record}, folder)
        if compared.verdict == certificate.DEVIATES:
            record = structs.replace(record, status="failed", reason=f"It trained something else: {compared.note}")
            write_record(folder / f"{launch.name}.json", record)
    if record.status != "ok":
        raise UserError(
            f"Round {launch.repetition} has no measurement of {folder.name}, since its launch is {record.status} "
            f"({str(record.reason).rstrip('.')}; log: {folder / str(record.log)}): mend that, start it again, and it "
            "goes on there."
        )
    return record


def calibrated(folder: Path, records: Mapping[str, Record]) -> dict[str, Calibration]:
    """What the rounds say in which every name was measured; nothing where they make no block."""
    measured = {name: record for name, record in records.items() if record.status == "ok"}
    rates: dict[str, dict[int, float]] = {name: {} for name in RUNNERS}
    for name, record in measured.items():
        number = int(name.rpartition("-")[2])
        rates[name.partition("/")[0]][number] = metrics.throughput(record).samples_per_second
    whole = pd.DataFrame(rates).dropna().sort_index()
    if len(whole) < LONG_BLOCK:
        return {}
    figures = calibration.measured(**{name: whole[name].to_numpy() for name in RUNNERS})
    record = next(iter(measured.values()))
    result = Calibration(
        **dataclasses.asdict(figures),
        strategy=record.strategy,
        workers=record.world_size,
        processor=record.host.processor,
        cores=record.host.usable_cores or 0,
        commit=record.git_commit or "unknown",
        date=record.started_at[: len("2026-01-31")],
        order_seed=order_seed(folder, None),
    )
    return {calibration.KIND: result}


def show(calibrations: Sequence[Calibration], observed: pd.DataFrame) -> Display:
    """The promises, whether they hold, and the numbers that say so."""
    [result] = calibrations
    words = {True: "yes", False: "no", None: "can't be concluded"}
    rows = [[each.name, words[each.holds], each.seen] for each in calibration.promises(result)]
    return Display(
        made_at=result.date,
        title="Whether the statistics keep their promises here",
        answer=f"The promises hold: {', '.join(f'{name} {holds}' for name, holds, _ in rows)}.",
        contender="launch",
        series=[],
        measures=[Measure(name="samples_per_second", label="samples/s")],
        sentences=[
            f"Each of {result.rounds} rounds had one strategy under three names. Under one of them it had busy work of "
            f"5 % of its step, and took {percent(result.busy_share, 2)} longer (median)."
        ],
        next_steps=[f"nox -s calibrate -- --repetitions {2 * result.rounds}: twice as many rounds conclude more."],
        tables=[Table(title="Promises", columns=["promise", "holds", "seen"], rows=rows, is_printed=True)],
    )


def keep(folder: Path, calibrations: Mapping[str, Calibration]) -> int:
    """Keep the result for reports of comparisons; returns 1 where a promise is broken."""
    [result], path = calibrations.values(), folder / calibration.FILE
    calibration.write(path, result)
    manifest.note(folder, [path])
    return int(any(promise.holds is False for promise in calibration.promises(result)))


EXPERIMENT = Experiment(
    name="calibrate",
    results=calibration.KIND,
    about=__doc__ or "",
    scope=Scope,
    record=Record,
    records_below=dict.fromkeys(RUNNERS, Record),
    stages=in_rounds(launches),
    make=make,
    gather=calibrated,
    show=show,
    keep=keep,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
