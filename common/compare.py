"""Run a comparison: make the planned launches one after the other, keep one record of each, write the report.

To start it: `nox -s compare`, or `nox -s compare -- --profile full --plan`. An interrupted comparison goes on where it
stopped when it is started again with the same options.
"""

import dataclasses
import itertools
import math
import os
import random
import re
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas
import psutil
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from common import catalogue, ceilings, regression
from common.calibration import verdict
from common.catalogue import ROOT
from common.contract.task import to_arguments
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, locked, write_atomically
from common.launch import ENDS_WITH, python_for
from common.measurement import machine, metrics
from common.measurement.intervals import median_interval
from common.measurement.record import Record, declared, read_record, read_records, write_record
from common.other_checkout import Against, find, other_checkout
from common.plan import PlannedLaunch, Scope, certified_presets, kink_free_seeds, plan_table
from common.processes import TIMED_OUT_STATUS, signals_held
from common.schedule import MORE, Durations, LeftOut, stages
from common.strategy import has_exchange, label, name_of

_STOP_SECONDS = 30.0
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())


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
    against_commit: str | None = None
    """Make the launches of every round with this commit's files as well, and end with status 1 where this checkout is
    slower, or where nothing could be compared."""
    tolerance: float = 0.05
    """By which share a step may take longer than with that commit."""


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = Console(width=None if sys.stdout.isatty() else 120)
    scope = arguments.scope
    if arguments.plan:
        _print_plan(console, scope)
        return
    ensure_writable(arguments.out)
    against = find(arguments.against_commit, arguments.tolerance) if arguments.against_commit else None
    with machine.alone():
        folder = _unfinished_folder(arguments.results, scope, against) or _new_folder(arguments.results, scope, against)
        refusal = f"Another comparison fills {folder}: wait for its end, or name another folder with --results."
        with locked(folder / "lock", refusal=refusal):
            failure = _compare(console, scope, folder, arguments.order_seed, against)
    report = [sys.executable, "-m", "reports", "--results", str(folder), "--out", str(arguments.out.resolve())]
    status = subprocess.run(report, cwd=ROOT).returncode
    if failure:
        print(f"lockstep: {failure}", file=sys.stderr)
    sys.exit(status or int(bool(failure)))


def _compare(
    console: Console, scope: Scope, folder: Path, order_seed: int | None, against: Against | None
) -> str | None:
    """Make the launches that the folder still lacks, and say what came of all of them.

    Returns why this checkout doesn't pass beside the commit that it is compared `against`; None where it does.
    """
    verdict.copy_into(folder, folder.parent)
    _forget_what_did_not_end_well(folder)
    order_seed = _order_seed(folder, order_seed)
    console.print(f"Records go to {folder}; the launches' order has seed {order_seed}.")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with other_checkout(against, folder) if against else nullcontext() as checkout:
            _run_all(console, scope, folder, order_seed, checkout)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    records = list(read_records(folder).values())
    _print_summary(console, records)
    failure = regression.conclude(console, against, folder) if against else None
    (folder / "finished").touch()
    return failure


def _forget_what_did_not_end_well(folder: Path) -> None:
    """Delete the records of an interrupted comparison whose launches are to be tried again."""
    for path, record in read_records(folder).items():
        if record.status != "ok":
            path.unlink()


def run_planned(launch: PlannedLaunch, folder: Path, launcher: str = "common.launch", root: Path = ROOT) -> Record:
    """Make one planned launch in a fresh process group and return its record, left in `folder` beside its log.

    `launcher` is the module that starts it, and `root` the checkout whose code runs. A launch that leaves no record
    gets one here: `unsupported` when it refused, else `failed`.
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
        arguments = ["-m", launcher, launch.strategy.name, *to_arguments(task, launch.options)]
        status = _launch(arguments, root, log_path, task.deadline_seconds)
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


def _run_all(console: Console, scope: Scope, folder: Path, order_seed: int, other: Path | None) -> None:
    """Make every launch that the schedule asks for and that has no record yet.

    Launches that were made before an interruption count with the time that they took, so the schedule goes on as it
    was begun. Those of rounds are made with the `other` checkout as well, where there is one.
    """
    order, seeds = random.Random(order_seed), kink_free_seeds(scope)
    durations, left_out, known, done = Durations(), LeftOut(), _read_durations(folder, for_pairs=other is not None), []

    def probe() -> None:
        durations.probes = _probed(console, scope, durations, folder)

    # Drawn between launches alone, which have the machine for themselves.
    with Progress(*_COLUMNS, console=console, transient=True, auto_refresh=False) as progress:
        shown = progress.add_task("", total=scope.limit_seconds)
        for stage in stages(scope, order, seeds, durations, left_out, probe):
            if not done or stage.title != done[-1].title:
                console.print(f"{stage.title}:")
            done.append(stage)
            write_atomically(folder / "plan.csv", _as_csv(plan_table(done, order_seed, scope.margin)))
            for launch in stage.launches:
                now = f"{stage.title}, {launch.name}"
                progress.update(shown, completed=durations.spent(), description=now, refresh=True)
                durations.add(launch, *_made(console, launch, known, folder, other if stage.name == "round" else None))
                write_atomically(folder / "durations.csv", _table(durations.seconds, "launch", "seconds"))
            if scope.limit_seconds is None and len(done) == 1 < scope.rounds:
                again = durations.expected([launch for launch in stage.launches if launch.purpose == "throughput"])
                hours = (scope.rounds - 1) * again / 3600
                console.print(f"The other {scope.rounds - 1} rounds will take about {hours:.1f} hours.")
    write_atomically(folder / "left_out.csv", _table(left_out.minutes, "strategy", "minutes"))
    for strategy, minutes in left_out.minutes.items():
        console.print(f"Time didn't suffice for {strategy}: --minutes {math.ceil(minutes)} would do.")


def _probed(console: Console, scope: Scope, durations: Durations, folder: Path) -> float:
    """Make the probes of the frameworks' ceilings, unless the time is short; returns the seconds that they took.

    Before they are made, each is expected to last as long as a typical launch.
    """
    probes = ceilings.planned(scope)
    limit = math.inf if scope.limit_seconds is None else scope.limit_seconds
    if durations.spent() + durations.report() + len(probes) * durations.typical() > limit:
        console.print("Time didn't suffice for the frameworks' ceilings.")
        return 0.0
    if probes:
        console.print("the frameworks' ceilings:")
    return ceilings.run_all(console, probes, folder, _launch, _why)


def _made(
    console: Console, launch: PlannedLaunch, known: Mapping[str, float], folder: Path, other: Path | None
) -> tuple[float, bool]:
    """Make the launch, unless its seconds are known; returns them, and whether it ended well.

    With an `other` checkout they are those of both its launches.
    """
    if launch.name in known:
        return known[launch.name], read_record(folder / f"{launch.name}.json").status == "ok"
    started = time.monotonic()
    if other and launch.purpose == "throughput":
        record, record_there = regression.run_both(run_planned, launch, folder, other)
    else:
        record, record_there = run_planned(launch, folder), None
    seconds = time.monotonic() - started
    console.print(_line_of(launch, record, seconds))
    if record_there:
        console.print(f"{_line_of(launch, record_there, seconds)}, other commit")
    if launch.purpose == "certificate" and record.status != "ok":
        name = name_of(launch.strategy.name, label(launch.options))
        console.print(f"  note: {name} with {launch.workers} workers has no certificate: {record.reason}")
    return seconds, record.status == "ok"


def _table(numbers: Mapping[str, float], *columns: str) -> bytes:
    return _as_csv(pandas.DataFrame(numbers.items(), columns=columns))


def _as_csv(table: pandas.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def _read_durations(folder: Path, for_pairs: bool) -> dict[str, float]:
    """Seconds that the launches with a record in the folder took, before an interruption.

    One that was interrupted before they were noted took as long as the others on average; if such launches are one of
    two `for_pairs`, it counts as not made, since the other one may be missing.
    """
    path = folder / "durations.csv"
    noted = dict(pandas.read_csv(path).itertuples(index=False)) if path.exists() else {}
    made = [record.stem for record in folder.glob("*.json")]
    usual = statistics.fmean(noted.values()) if noted else 0.0
    return {name: noted.get(name, usual) for name in made if name in noted or not for_pairs}


def _line_of(launch: PlannedLaunch, record: Record, seconds: float) -> str:
    if record.status != "ok":
        return f"{record.status:>11}  {launch.name}: {record.reason} (log: {record.log})"
    rate = metrics.throughput(record).samples_per_second
    return f"{'ok':>11}  {launch.name:<58} {rate:>9,.0f} samples/s {seconds:>6.1f} s"


def _launch(
    arguments: list[str],
    root: Path,
    log_path: Path,
    deadline_seconds: float,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Exit status of Python with these arguments in `root`; its output goes to the log. What it started ends, always.

    Where this process is killed, the launch ends as well.
    """
    command = [sys.executable, *arguments]
    with log_path.open("wb") as log:
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        launcher = psutil.Popen(
            command,
            cwd=root,
            env=os.environ | {ENDS_WITH: str(os.getpid())} | dict(variables or {}),
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


def _new_folder(results: Path, scope: Scope, against: Against | None) -> Path:
    folder = results / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{scope.profile}"
    write_atomically(folder / "options.txt", _identity(scope, against).encode())
    return folder


def _unfinished_folder(results: Path, scope: Scope, against: Against | None) -> Path | None:
    """The newest folder of a comparison with these options, of the same files, that was interrupted."""
    identity = _identity(scope, against)
    for folder in sorted(results.glob(f"*-{scope.profile}"), reverse=True):
        marker = folder / "options.txt"
        if marker.exists() and not (folder / "finished").exists() and marker.read_text() == identity:
            return folder
    return None


def _identity(scope: Scope, against: Against | None) -> str:
    """What an interrupted comparison has in common with the one that goes on with it."""
    return repr(scope) + (f"\nagainst {against.difference}" if against else "")


def _order_seed(folder: Path, asked_for: int | None) -> int:
    """The seed that the folder's plan was begun with, else the one asked for, else a new one."""
    marker = folder / "order_seed.txt"
    if not marker.exists():
        write_atomically(marker, str(secrets.randbelow(2**31) if asked_for is None else asked_for).encode())
    return int(marker.read_text())


def _print_plan(console: Console, scope: Scope) -> None:
    """What would be launched if no launch took any time, up to where rounds repeat themselves."""
    order, seeds, durations = random.Random(0), dict.fromkeys(certified_presets(scope), 0), Durations()
    counts: dict[tuple, int] = {}
    names: dict[tuple, str] = {}
    for stage in itertools.takewhile(
        lambda each: each.title != MORE, stages(scope, order, seeds, durations, LeftOut())
    ):
        for launch in stage.launches:
            durations.add(launch, 0.0, ok=True)
            exchange = "" if has_exchange(launch.options) else "off"
            task, name = launch.task, name_of(launch.strategy.name, label(launch.options))
            key = (stage.name, name, task.preset, task.scaling, launch.workers, exchange, launch.purpose)
            counts[key], names[key] = counts.get(key, 0) + 1, launch.strategy.name
    table = Table("stage", "strategy", "preset", "scaling", "workers", "exchange", "purpose", "launches")
    stages_in_order, strategies_in_order = list(dict.fromkeys(key[0] for key in counts)), [*catalogue.strategies()]
    place = {key: (stages_in_order.index(key[0]), strategies_in_order.index(names[key])) for key in counts}
    for key in sorted(counts, key=lambda key: (place[key], key)):
        table.add_row(*map(str, key), str(counts[key]))
    console.print(table)
    total = f"{sum(counts.values())} launches"
    if scope.limit_seconds is None:
        console.print(f"{total}. The first of {scope.rounds} rounds will tell how long they take.")
        return
    console.print(
        f"Up to {total} in {scope.limit_seconds / 60:g} minutes, the report included: after the first round as many "
        "strategies, in this order, as fit their rounds and certificates; then what else fits, and more rounds."
    )


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
