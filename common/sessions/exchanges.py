"""Replay the exchange of every strategy alone, in rounds with its whole step, and try from which batch on it pays.

To start it: `nox -s exchanges`, or `nox -s exchanges -- --profile full --workers 4`. An interrupted session goes on
where it stopped when it is started again with the same options.
"""

import dataclasses
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import tyro
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.declarations.strategy import ExchangeOptions
from common.declarations.sweep import Sweep
from common.errors import exit_with_one_line
from common.files import ensure_writable
from common.launching import supervision
from common.launching.planned import PlannedLaunch
from common.records import manifest
from common.records.collectives import CollectivesRecord, Replayed
from common.records.files import read_record, read_records, write_record
from common.records.trace import trace_path
from common.records.training import Record
from common.sessions.exchange_plan import Planned, Scope, stages, steps_table
from common.sessions.session import Options, Output, Rounds, begin, console_for, counted, report

_NO_MESSAGES = "It left no messages."


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/exchanges.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console, scope, output = console_for(width=120), arguments.scope, arguments.output
    if output.plan:
        _print_plan(console, scope)
        return
    ensure_writable(output.out)
    with begin(console, "exchanges", arguments, repr(scope)) as session:
        schedule = Rounds(stages(scope, session.order_seed, session.folder))
        session.run(schedule, make, read, plan_table=partial(steps_table, order_seed=session.order_seed))
    folder = session.folder
    traces, steps = ([*map(read, sorted(place.glob("*.json")))] for place in (folder / "traces", folder))
    replays = read_records(folder / "replays", CollectivesRecord).values()
    # What couldn't be traced stands among the replays for the report, and counts as a trace.
    failed = counted(console, [*traces, *steps, *(each for each in replays if each.replayed.launch)])
    sys.exit(report("reports", folder, output.out) or failed)


def make(planned: Planned, folder: Path) -> Record | CollectivesRecord:
    """Make one launch and return its record, left in its place in the session's folder."""
    launch, place = planned.launch, folder / planned.folder
    if planned.folder == "traces":
        return _trace(launch, folder)
    return supervision.run_planned(launch, place)


def read(path: Path) -> Record | CollectivesRecord:
    """The record of a launch; a trace without messages has failed. Raises UserError for a damaged one."""
    if path.parent.name == "replays":
        return read_record(path, CollectivesRecord)
    record = read_record(path, Record)
    if path.parent.name == "traces" and record.status == "ok" and not trace_path(path).exists():
        return structs.replace(record, status="failed", reason=_NO_MESSAGES)
    return record


def _trace(launch: PlannedLaunch, folder: Path) -> Record:
    """Make one traced launch. Where it leaves no messages a record among the replays says why there is none."""
    place, path = folder / "traces", folder / "replays" / f"{launch.strategy.name}-{launch.workers}w.json"
    messages = trace_path(place.resolve() / f"{launch.name}.json")
    for left in (messages, path):
        left.unlink(missing_ok=True)
    manifest.note(folder, [path])
    record = supervision.run_planned(dataclasses.replace(launch, runner="tracer"), place)
    if messages.exists():
        return record
    if record.status == "ok":
        record = structs.replace(record, status="failed", reason=_NO_MESSAGES)
    log = f"../traces/{record.log}" if record.log else None
    refused = CollectivesRecord(
        library="",
        family=launch.strategy.family.title,
        status=record.status,
        reason=record.reason,
        log=log,
        world_size=launch.workers,
        threads_per_worker=launch.task.threads,
        sweep=Sweep(workers=launch.workers, threads=launch.task.threads),
        replayed=Replayed(strategy=launch.strategy.name, launch="", source=""),
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    write_record(path, refused)
    manifest.note(folder, [path])
    return record


def _print_plan(console: Console, scope: Scope) -> None:
    """Every strategy with its base, and how many launches of each kind there are."""
    table = Table("strategy", "base", "traces", "steps, of them without exchange", "replays")
    for strategy in scope.chosen():
        alone = scope.rounds if issubclass(strategy.options, ExchangeOptions) else 0
        steps = f"{scope.rounds + alone}, {alone}"
        table.add_row(strategy.name, str(strategy.base), "1", steps, f"up to {scope.rounds}")
    console.print(table)
    console.print(
        f"{scope.rounds} rounds, in which each base is launched once. Then, where by the account a larger batch would "
        f"pay, {scope.rounds} rounds of strategy and base at that batch and at twice as many rows."
    )


if __name__ == "__main__":
    exit_with_one_line(main)
