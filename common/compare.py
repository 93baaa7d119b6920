"""Run a comparison: make the planned launches one after the other, keep one record of each, write the report.

To start it: `nox -s compare`, or `nox -s compare -- --profile full --plan`. An interrupted comparison goes on where it
stopped when it is started again with the same options.
"""

import dataclasses
import itertools
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas
import psutil
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from common.catalogue import ROOT
from common.contract.task import to_arguments
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, locked, write_atomically
from common.launch import ENDS_WITH, python_for
from common.measurement import machine, metrics
from common.measurement.intervals import FEWEST_LAUNCHES, median_interval
from common.measurement.record import Record, declared, read_record, read_records, write_record
from common.plan import (
    FULL_REPETITIONS,
    QUICK_SECONDS,
    PlannedLaunch,
    Scope,
    has_another_round,
    kink_free_seeds,
    plan_round,
    plan_table,
)
from common.processes import TIMED_OUT_STATUS, signals_held
from common.strategy import has_exchange, label, name_of

_STOP_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Compare the strategies on this machine and write the report."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = dataclasses.field(default_factory=Scope)
    plan: bool = False
    """Print the launches and the time that they will take, and run nothing."""
    results: Path = Path("results")
    """Folder in which each comparison gets a folder of its own."""
    out: Path = Path("reports/out/comparison.pdf")
    """The report."""
    order_seed: int | None = None
    """Seed of the order of the launches; none: a new one. The plan and the report name it."""


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = Console(width=None if sys.stdout.isatty() else 120)
    scope = arguments.scope
    if arguments.plan:
        _print_plan(console, scope)
        return
    ensure_writable(arguments.out)
    with machine.alone():
        folder = _unfinished_folder(arguments.results, scope) or _new_folder(arguments.results, scope)
        refusal = f"Another comparison fills {folder}: wait for its end, or name another folder with --results."
        with locked(folder / "lock", refusal=refusal):
            _compare(console, scope, folder, arguments.order_seed)
    report = [sys.executable, "-m", "reports", "--results", str(folder), "--out", str(arguments.out.resolve())]
    sys.exit(subprocess.run(report, cwd=ROOT).returncode)


def _compare(console: Console, scope: Scope, folder: Path, order_seed: int | None) -> None:
    """Make the launches that the folder still lacks, and say what came of all of them."""
    _forget_what_did_not_end_well(folder)
    order_seed = _order_seed(folder, order_seed)
    console.print(f"Records go to {folder}; the launches' order has seed {order_seed}.")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        _run_all(console, scope, folder, order_seed)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    records = list(read_records(folder).values())
    (folder / "finished").touch()
    _print_summary(console, records)


def _forget_what_did_not_end_well(folder: Path) -> None:
    """Delete the records of an interrupted comparison whose launches are to be tried again."""
    for path, record in read_records(folder).items():
        if record.status != "ok":
            path.unlink()


def run_planned(launch: PlannedLaunch, folder: Path) -> Record:
    """Make one planned launch in a fresh process group and return its record, left in `folder` beside its log.

    A launch that leaves no record gets one here: `unsupported` when it refused, else `failed`.
    """
    folder = folder.resolve()
    # Not by with_suffix, which would end the name at the point of an option's value.
    checkpoint = folder / f"{launch.name}.safetensors" if launch.task.checkpoint else None
    if checkpoint:
        checkpoint.unlink(missing_ok=True)
    record_path, log_path = folder / f"{launch.name}.json", folder / f"{launch.name}.log"
    task = dataclasses.replace(launch.task, record=record_path, checkpoint=checkpoint)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        python_for(launch.strategy)
        status = _launch(launch.strategy.name, to_arguments(task, launch.options), log_path, task.deadline_seconds)
    except UserError as error:
        log_path.write_text(f"lockstep: {error}\n")
        status = None
    if status == 0 and record_path.exists():
        return read_record(record_path)
    outcome, reason = _why(status, task.deadline_seconds, log_path.read_text(errors="replace"))
    known = declared(launch.strategy, task, launch.options, launch.workers)
    record = Record(**known, status=outcome, reason=reason, log=log_path.name, started_at=started_at)
    write_record(record_path, record)
    return read_record(record_path)


def _run_all(console: Console, scope: Scope, folder: Path, order_seed: int) -> None:
    """Make every launch of the plan that has no record yet, round by round.

    Rounds that were begun before an interruption are ended, and the time that they took counts.
    """
    order, launches = random.Random(order_seed), []
    seeds, begun = kink_free_seeds(scope), _rounds_begun(folder)
    started = time.monotonic() - _read_seconds(folder)
    for repetition in itertools.count(1):
        planned = plan_round(scope, repetition, order, seeds)
        seconds, estimated = time.monotonic() - started, sum(launch.estimated_seconds for launch in launches)
        # How many times as long as estimated a launch takes on this machine.
        pace = seconds / estimated if estimated else 1.0
        to_come = sum(launch.estimated_seconds for launch in _without_record(planned, folder))
        if repetition > begun and not has_another_round(scope, repetition, seconds, pace * to_come):
            return
        launches += planned
        write_atomically(folder / "plan.csv", plan_table(launches, order_seed).to_csv(index=False).encode())
        for launch, record in _run_round(console, scope, repetition, planned, folder):
            write_atomically(folder / "seconds.txt", str(time.monotonic() - started).encode())
            if launch.purpose == "certificate" and record.status != "ok":
                name = name_of(launch.strategy.name, label(launch.options))
                console.print(f"  note: {name} with {launch.workers} workers has no certificate: {record.reason}")


def _rounds_begun(folder: Path) -> int:
    """How many rounds the folder's plan has; none where there is no plan yet."""
    plan = folder / "plan.csv"
    return int(pandas.read_csv(plan)["repetition"].max()) if plan.exists() else 0


def _read_seconds(folder: Path) -> float:
    """How long the launches in the folder took, before an interruption."""
    seconds = folder / "seconds.txt"
    return float(seconds.read_text()) if seconds.exists() else 0.0


def _without_record(launches: list[PlannedLaunch], folder: Path) -> list[PlannedLaunch]:
    return [launch for launch in launches if not (folder / f"{launch.name}.json").exists()]


def _run_round(
    console: Console, scope: Scope, repetition: int, launches: list[PlannedLaunch], folder: Path
) -> Iterator[tuple[PlannedLaunch, Record]]:
    """Run the launches that have no record yet, showing progress with the time left of this round."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    remaining = _without_record(launches, folder)
    total = scope.repetitions or (FULL_REPETITIONS if scope.profile == "full" else None)
    title = f"round {repetition}" + (f" of {total}" if total else " (as many as fit)")
    estimate = sum(launch.estimated_seconds for launch in remaining)
    console.print(f"{title}: {len(remaining)} launches, about {estimate / 60:.0f} min.")
    # Drawn between launches alone, which have the machine for themselves.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task(title, total=estimate)
        for position, launch in enumerate(remaining, start=1):
            progress.update(task, description=f"{title}, {position}/{len(remaining)} {launch.name}", refresh=True)
            launch_started = time.monotonic()
            record = run_planned(launch, folder)
            progress.advance(task, launch.estimated_seconds)
            console.print(_line_of(launch, record, time.monotonic() - launch_started))
            yield launch, record


def _line_of(launch: PlannedLaunch, record: Record, seconds: float) -> str:
    if record.status != "ok":
        return f"{record.status:>11}  {launch.name}: {record.reason} (log: {record.log})"
    rate = metrics.throughput(record).samples_per_second
    return f"{'ok':>11}  {launch.name:<58} {rate:>9,.0f} samples/s {seconds:>6.1f} s"


def _launch(strategy: str, options: list[str], log_path: Path, deadline_seconds: float) -> int:
    """Exit status of `python -m common.launch`, whose output goes to the log; it ends all that it started, always.

    Where this process is killed, the launch ends as well.
    """
    command = [sys.executable, "-m", "common.launch", strategy, *options]
    with log_path.open("wb") as log:
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        launcher = psutil.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {ENDS_WITH: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return int(launcher.wait(deadline_seconds + _STOP_SECONDS))
        except psutil.TimeoutExpired:
            return TIMED_OUT_STATUS
        finally:
            with signals_held():
                if launcher.poll() is None:
                    launcher.terminate()
                    launcher.wait(_STOP_SECONDS)


def _why(status: int | None, deadline_seconds: float, log: str) -> tuple[str, str]:
    """`unsupported` or `failed`, and one sentence, from a launch's exit status (None: never started) and its log."""
    if status == TIMED_OUT_STATUS:
        return "failed", f"It was ended by its deadline of {deadline_seconds:g} s."
    if failures := re.findall(r"lockstep: failed: (.+)", log):
        return "failed", failures[0]
    if refusals := re.findall(r"lockstep: (?!note)(.+)", log):
        return "unsupported", refusals[0]
    if status == 0:
        return "failed", "It ended without leaving a record."
    return "failed", f"It ended with status {status}."


def _new_folder(results: Path, scope: Scope) -> Path:
    folder = results / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{scope.profile}"
    write_atomically(folder / "options.txt", repr(scope).encode())
    return folder


def _unfinished_folder(results: Path, scope: Scope) -> Path | None:
    """The newest folder of a comparison with these options that was interrupted."""
    for folder in sorted(results.glob(f"*-{scope.profile}"), reverse=True):
        marker = folder / "options.txt"
        if marker.exists() and not (folder / "finished").exists() and marker.read_text() == repr(scope):
            return folder
    return None


def _order_seed(folder: Path, asked_for: int | None) -> int:
    """The seed that the folder's plan was begun with, else the one asked for, else a new one."""
    marker = folder / "order_seed.txt"
    if not marker.exists():
        write_atomically(marker, str(secrets.randbelow(2**31) if asked_for is None else asked_for).encode())
    return int(marker.read_text())


def _print_plan(console: Console, scope: Scope) -> None:
    rounds = scope.repetitions or (FULL_REPETITIONS if scope.profile == "full" else FEWEST_LAUNCHES)
    order, seeds = random.Random(0), kink_free_seeds(scope)
    launches = [launch for repetition in range(1, rounds + 1) for launch in plan_round(scope, repetition, order, seeds)]
    counts: dict[tuple, list[PlannedLaunch]] = {}
    for launch in launches:
        exchange = "" if has_exchange(launch.options) else "off"
        task, name = launch.task, name_of(launch.strategy.name, label(launch.options))
        key = (name, task.preset, task.scaling, launch.workers, exchange, launch.purpose)
        counts.setdefault(key, []).append(launch)
    table = Table("strategy", "preset", "scaling", "workers", "exchange", "purpose", "launches", "minutes")
    for key in sorted(counts):
        minutes = sum(launch.estimated_seconds for launch in counts[key]) / 60
        table.add_row(*map(str, key), str(len(counts[key])), f"{minutes:.1f}")
    console.print(table)
    minutes = sum(launch.estimated_seconds for launch in launches) / 60
    in_words = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.1f} minutes"
    console.print(f"{len(launches)} launches, about {in_words}.")
    if scope.profile == "quick" and not scope.repetitions:
        limit = f"{QUICK_SECONDS / 60:.0f} minutes in all"
        console.print(f"These are {rounds} rounds; fewer or more of them run, as many as fit into {limit}.")


def _print_summary(console: Console, records: list[Record]) -> None:
    """Medians by strategy and workers of every throughput launch, and how all launches ended."""
    rates: dict[tuple, list[float]] = {}
    for record in records:
        if record.status == "ok" and record.checkpoint is None and record.exchange:
            key = (record.task["preset"], record.scaling, record.name, record.world_size)
            rates.setdefault(key, []).append(metrics.throughput(record).samples_per_second)
    table = Table("preset", "scaling", "strategy", "workers", "launches", "samples/s (median)")
    for key in sorted(rates):
        interval = median_interval(rates[key])
        table.add_row(*map(str, key), str(interval.n), f"{interval.median:,.0f}")
    console.print(table)
    statuses = [record.status for record in records]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("ok", "unsupported", "failed"))
    console.print(f"{len(records)} launches: {counts}.")


if __name__ == "__main__":
    exit_with_one_line(main)
