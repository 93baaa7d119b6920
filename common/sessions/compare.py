"""Run a comparison: make the planned launches one after the other, keep one record of each, write the report.

To start it: `nox -s compare`, or `nox -s compare -- --profile full --plan`. An interrupted comparison goes on where it
stopped when it is started again with the same options.
"""

import contextlib
import dataclasses
import itertools
import math
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from common import command_line
from common.contract import oracles
from common.contract.rows import share_of
from common.contract.task import maths_of
from common.declarations import catalogue
from common.declarations.strategy import has_exchange, label, name_of
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, locked, write_atomically
from common.launching.hosts import cluster
from common.launching.hosts.selection import Selection
from common.launching.hosts.supervision import Cluster
from common.launching.hosts.supervision import run_planned as over_hosts
from common.launching.planned import PlannedLaunch
from common.launching.processes import signals_held
from common.launching.supervision import run_planned
from common.measurement import machine
from common.paths import ROOT
from common.records import certificate, manifest, metrics
from common.records.certificate import Comparison
from common.records.files import read_record, read_records
from common.records.training import Record
from common.sessions import calibration_verdict, ceilings, regression
from common.sessions.folder import order_seed, unfinished_or_new
from common.sessions.other_checkout import RECORDS, Against, find, other_checkout
from common.sessions.plan import Scope, Stage, certificates, certified_presets, kink_free_seeds, plan_table, worlds
from common.sessions.schedule import MORE, Durations, stages
from common.statistics.intervals import median_interval

TOLERANCE = 0.05
"""By which share a step may take longer than with the other commit, unless it is told otherwise."""

_TABLES = ("durations.csv", "plan.csv")
"""What is written anew as the comparison goes on."""

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Compare the strategies on this machine and write the report."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = dataclasses.field(default_factory=Scope)
    selection: tyro.conf.OmitArgPrefixes[Selection] = dataclasses.field(default_factory=Selection)
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
    tolerance: float | None = None
    """By which share a step may take longer than with that commit; none: 0.05."""

    def __post_init__(self) -> None:
        """Raises UserError for a tolerance without a commit, and for a commit over several hosts."""
        if self.tolerance is not None and self.against_commit is None:
            raise UserError(
                f"--tolerance {self.tolerance:g} has no effect without --against-commit: name a commit there, or leave "
                "--tolerance out."
            )
        if self.against_commit is not None and not self.selection.is_here:
            raise UserError("--against-commit compares on this machine alone: leave out the options that name hosts.")


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console = Console(width=None if sys.stdout.isatty() else 120)
    selection, workers = arguments.selection, max(arguments.scope.workers)
    if arguments.plan and selection.virtual_hosts is not None:
        spread = cluster.spread_of(selection, workers)
        _print_plan(console, dataclasses.replace(arguments.scope, spread=spread), None)
        return
    if cluster.is_to_be_made(selection):
        # On their head this program runs once more, and finds hosts like any others.
        command = [sys.executable, "-m", "common.sessions.compare", *sys.argv[1:]]
        with machine.alone() as lock:
            sys.exit(cluster.run_on_virtual_hosts(selection, command, lock))
    hosts = None if selection.is_here else cluster.find(console, selection, workers)
    scope = dataclasses.replace(arguments.scope, spread=hosts.spread if hosts else None)
    if arguments.plan:
        _print_plan(console, scope, arguments.against_commit)
        return
    sys.exit(_compare_and_report(console, arguments, scope, hosts))


def _compare_and_report(console: Console, arguments: Arguments, scope: Scope, hosts: Cluster | None) -> int:
    """Compare over these hosts, or on this machine alone, and write the report; returns the exit status."""
    ensure_writable(arguments.out)
    against = _against(arguments)
    with machine.alone():
        identity = _identity(scope, arguments.selection, against)
        folder = unfinished_or_new(arguments.results, scope.profile, identity, "finished")
        refusal = f"Another comparison fills {folder}: wait for its end, or name another folder with --results."
        with locked(folder / "lock", refusal=refusal):
            failure = _compare(console, arguments, scope, hosts, folder, against)
    report = [sys.executable, "-m", "reports", "--results", str(folder), "--out", str(arguments.out.resolve())]
    status = subprocess.run(report, cwd=ROOT).returncode
    if failure:
        print(f"lockstep: {failure}", file=sys.stderr)
    return status or int(bool(failure))


def _against(arguments: Arguments) -> Against | None:
    """The commit to compare with, if any. Raises UserError where that can't be."""
    if arguments.against_commit is None:
        return None
    return find(arguments.against_commit, TOLERANCE if arguments.tolerance is None else arguments.tolerance)


def _compare(
    console: Console,
    arguments: Arguments,
    scope: Scope,
    hosts: Cluster | None,
    folder: Path,
    against: Against | None,
) -> str | None:
    """Make the launches that the folder still lacks, and say what came of all of them.

    Returns why this checkout doesn't pass, by itself or beside the commit that it is compared `against`; None where it
    does.
    """
    calibration_verdict.copy_into(folder, folder.parent)
    _forget_what_did_not_end_well(folder)
    seed = order_seed(folder, arguments.order_seed)
    again = command_line.of_session("compare", dataclasses.replace(arguments, order_seed=seed))
    write_atomically(folder / "command.txt", f"{again}\n".encode())
    console.print(f"Records go to {folder}; the launches' order has seed {seed}.")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with other_checkout(against, folder) if against else nullcontext() as checkout:
            make = partial(over_hosts, cluster=hosts) if hosts else run_planned
            _run_all(console, scope, folder, seed, make, checkout)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    records = read_records(folder, Record)
    _print_summary(console, list(records.values()))
    failure = _conclude(console, folder, records, against)
    (folder / "finished").touch()
    return failure


def _conclude(console: Console, folder: Path, records: Mapping[str, Record], against: Against | None) -> str | None:
    """Why this checkout doesn't pass, by itself or beside the commit that it is compared `against`."""
    if not against:
        return failure_of(records, certificate.compare(records, folder))
    failure = regression.conclude(console, against, folder)
    manifest.note(folder, [folder / regression.FILE])
    # This checkout alone makes certificates, so the gate has no pair of one that fails.
    certificates_here = {name: record for name, record in records.items() if record.task.checkpoint_steps}
    return failure or failure_of(certificates_here, [])


def failure_of(records: Mapping[str, Record], comparisons: Sequence[Comparison]) -> str | None:
    """Why a comparison ends with status 1, in one sentence; None where it ends with 0.

    Something doesn't follow its oracle, or no launch of a configuration ended ok, and one failed.
    """
    statuses: dict[str, list[str]] = {}
    for record in records.values():
        workers = "1 worker" if record.world_size == 1 else f"{record.world_size} workers"
        exchange = "" if record.exchange else " without exchange"
        kind = "certificate" if record.task.checkpoint_steps else record.scaling
        configuration = f"{record.name} with {workers}{exchange}, {record.task.preset} {kind}"
        statuses.setdefault(configuration, []).append(record.status)
    failing = [name for name, ended in statuses.items() if "failed" in ended and "ok" not in ended]
    deviating = certificate.deviating(comparisons)
    causes = [f"no launch ended ok of {', '.join(failing)}"] if failing else []
    causes += [f"the oracle isn't followed by {', '.join(deviating)}"] if deviating else []
    text = "; ".join(causes)
    return f"{text[0].upper()}{text[1:]}." if text else None


def _forget_what_did_not_end_well(folder: Path) -> None:
    """Delete the records of an interrupted comparison whose launches are to be made again.

    Those that weren't noted are among them: the comparison ended before it could.
    """
    noted = manifest.read(folder)
    records = {folder / f"{launch}.json": record for launch, record in read_records(folder, Record).items()}
    again = [path for path, record in records.items() if record.status != "ok" or path.name not in noted]
    for path in again:
        path.unlink()
    if again:
        manifest.note(folder, again)


def _run_all(
    console: Console,
    scope: Scope,
    folder: Path,
    seed: int,
    make: Callable[[PlannedLaunch, Path], Record],
    other: Path | None,
) -> None:
    """Make every launch that the schedule asks for and that has no record yet.

    Launches that were made before an interruption count with the time that they took, so the schedule goes on as it
    was begun. Those of rounds are made with the `other` checkout as well, where there is one.
    """
    order, seeds = random.Random(seed), kink_free_seeds(scope)
    durations, known = Durations(), _read_durations(folder, for_pairs=other is not None)
    left_out: dict[str, float] = {}
    done: list[Stage] = []

    def probe() -> None:
        started = time.monotonic()
        # The report needs them, and the first time they take long: the schedule has to know it.
        compute_oracles(_with_certificates(scope, seeds, durations.launches.values()))
        durations.probes = time.monotonic() - started
        durations.probes += _probed(console, scope, durations, folder)

    # Drawn between launches alone, which have the machine for themselves.
    with Progress(*_COLUMNS, console=console, transient=True, auto_refresh=False) as progress:
        shown = progress.add_task("", total=scope.limit_seconds)
        for stage in stages(scope, order, seeds, durations, left_out, probe):
            if not done or stage.title != done[-1].title:
                console.print(f"{stage.title}:")
            done.append(stage)
            write_atomically(folder / "plan.csv", _as_csv(plan_table(done, seed, scope.margin)))
            for launch in stage.launches:
                now = f"{stage.title}, {launch.name}"
                progress.update(shown, completed=durations.spent(), description=now, refresh=True)
                checkout = other if regression.is_paired(stage, launch) else None
                try:
                    durations.add(launch, *_made(console, launch, known, folder, make, checkout))
                    write_atomically(folder / "durations.csv", _table(durations.seconds, "launch", "seconds"))
                finally:
                    # One that had left its record when it was interrupted counts.
                    if launch.name not in known:
                        with signals_held():
                            _note(folder, launch)
            if scope.limit_seconds is None and len(done) == 1 < scope.rounds:
                again = durations.expected([launch for launch in stage.launches if launch.purpose == "throughput"])
                hours = (scope.rounds - 1) * again / 3600
                console.print(f"The other {scope.rounds - 1} rounds will take about {hours:.1f} hours.")
    write_atomically(folder / "left_out.csv", _table(left_out, "strategy", "minutes"))
    tables = [folder / name for name in (*_TABLES, "left_out.csv", calibration_verdict.FILE)]
    manifest.note(folder, tables)
    for strategy, minutes in left_out.items():
        console.print(f"Time didn't suffice for {strategy}: --minutes {math.ceil(minutes)} would do.")


def _note(folder: Path, launch: PlannedLaunch) -> None:
    """Note the digests of what a launch has left, of this checkout's and of the other's."""
    left = manifest.files_of(folder, launch.name) + manifest.files_of(folder / RECORDS, launch.name)
    manifest.note(folder, [*left, *(folder / name for name in _TABLES)])


def _with_certificates(scope: Scope, seeds: dict[str, int], launches: Iterable[PlannedLaunch]) -> list[PlannedLaunch]:
    """These launches, and the certificates of every world of their strategies."""
    names = {launch.strategy.name for launch in launches}
    of_names = [(strategy, size) for strategy, size in worlds(scope) if strategy.name in names]
    return [*launches, *(each for world in of_names for each in certificates(scope, *world, seeds))]


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
    return ceilings.run_all(console, probes, folder)


def _made(
    console: Console,
    launch: PlannedLaunch,
    known: Mapping[str, float],
    folder: Path,
    make: Callable[[PlannedLaunch, Path], Record],
    other: Path | None,
) -> tuple[float, bool]:
    """Make the launch, unless its seconds are known; returns them, and whether it ended well.

    With an `other` checkout it is made there as well, and they are the seconds of both.
    """
    if launch.name in known:
        return known[launch.name], read_record(folder / f"{launch.name}.json", Record).status == "ok"
    started = time.monotonic()
    if other:
        record, record_there = regression.run_both(launch, folder, other)
    else:
        record, record_there = make(launch, folder), None
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


def _identity(scope: Scope, selection: Selection, against: Against | None) -> str:
    """What an interrupted comparison has in common with the one that goes on with it."""
    over = "" if selection.is_here else f"\n{selection}"
    return repr(scope) + over + (f"\nagainst {against.commit}" if against else "")


def _print_plan(console: Console, scope: Scope, rev: str | None) -> None:
    """What would be launched if no launch took any time, up to where rounds repeat themselves.

    With another commit, `rev`, its launches are among them.
    """
    order, seeds, durations = random.Random(0), dict.fromkeys(certified_presets(scope), 0), Durations()
    counts: dict[tuple, int] = {}
    names: dict[tuple, str] = {}
    for stage in itertools.takewhile(lambda each: each.title != MORE, stages(scope, order, seeds, durations, {})):
        for launch in stage.launches:
            durations.add(launch, 0.0, ok=True)
            exchange = "" if has_exchange(launch.options) else "off"
            task, name = launch.task, name_of(launch.strategy.name, label(launch.options))
            placement = f"{launch.workers}" if launch.hosts is None else f"{launch.workers} on {launch.hosts}"
            key = (stage.name, name, task.preset, task.scaling, placement, exchange, launch.purpose)
            made = 2 if rev is not None and regression.is_paired(stage, launch) else 1
            counts[key], names[key] = counts.get(key, 0) + made, launch.strategy.name
    table = Table("stage", "strategy", "preset", "scaling", "workers", "exchange", "purpose", "launches")
    stages_in_order, strategies_in_order = list(dict.fromkeys(key[0] for key in counts)), [*catalogue.strategies()]
    place = {key: (stages_in_order.index(key[0]), strategies_in_order.index(names[key])) for key in counts}
    for key in sorted(counts, key=lambda key: (place[key], key)):
        table.add_row(*map(str, key), str(counts[key]))
    console.print(table)
    if rev is not None:
        said = f"The rounds' launches that tell the speed count twice, since they are made with {rev} as well."
        console.print(said, markup=False)
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
            key = (record.task.preset, record.scaling, record.name, record.world_size)
            rates.setdefault(key, []).append(metrics.throughput(record).samples_per_second)
    table = Table("preset", "scaling", "strategy", "workers", "launches", "samples/s (median)")
    for key in sorted(rates):
        interval = median_interval(rates[key])
        table.add_row(*map(str, key), str(interval.n), f"{interval.median:,.0f}")
    console.print(table)
    statuses = [record.status for record in records]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("ok", "unsupported", "failed"))
    console.print(f"{len(records)} launches: {counts}.")
    for record in records:
        if record.status == "failed":
            console.print(f"  failed: {record.name} with {record.world_size}: {record.reason}", markup=False)


if __name__ == "__main__":
    exit_with_one_line(main)


def compute_oracles(launches: Iterable[PlannedLaunch]) -> None:
    """Compute, and keep for later, every oracle that the report on these launches will need and can have here."""
    for launch in launches:
        strategy, task = launch.strategy, launch.task
        is_synchronous = strategy.is_synchronous(launch.options) or launch.workers == 1
        # Without data, or with a batch that doesn't divide, there is no launch to compare either.
        with contextlib.suppress(UserError):
            share = share_of(task, strategy.work, strategy.is_synchronous(launch.options), 0, launch.workers)
            known = maths_of(task), share.global_batch, task.steps
            if has_exchange(launch.options) and (is_synchronous or task.checkpoint):
                oracles.of_batch(*known, with_state=bool(task.checkpoint))
            elif not has_exchange(launch.options) and strategy.alone:
                oracles.of_workers_alone(*known, launch.workers, strategy.alone, bool(task.checkpoint))
