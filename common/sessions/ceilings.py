"""The probes of a comparison: which there are, and how one is started, supervised as a strategy's launch is.

To start one: `python -m common.sessions.ceilings STRATEGY --workers 2 --preset pathway`, with the strategy that its
family's probe is started like.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import Family, Strategy
from common.errors import UserError, exit_with_one_line
from common.launching import launch, supervision
from common.launching.planned import Size
from common.launching.processes import end_with_parent
from common.measurement.ceiling import declared, rows_per_worker
from common.records import manifest
from common.records.ceiling import FOLDER, Ceiling, in_words
from common.records.files import read_record, write_record
from common.sessions.plan import Scope, main_worlds, throughput, worlds

DEADLINE_SECONDS = 60.0
"""A probe takes a few seconds; one that hangs may not take the comparison's time."""


@dataclass(frozen=True, kw_only=True)
class PlannedProbe:
    """One probe of a comparison. Its name is that of its record and its log."""

    strategy: Strategy
    """What it is started like."""
    task: Task
    variables: Mapping[str, str]
    """Environment variables that are tried: none where the framework is left as it is."""

    @property
    def name(self) -> str:
        """Unique in a comparison, and readable in a list of files."""
        task, tried = self.task, [f"{name}_{value}" for name, value in self.variables.items()]
        about = [self.strategy.family.environment, task.preset, f"{task.batch}r", f"{task.workers}w"]
        return "-".join([*about, *tried])


def planned(scope: Scope) -> list[PlannedProbe]:
    """The probes of every family with a strategy in the scope, for each preset and number of rows of its rounds.

    Each is made with the framework left as it is, in the family's largest world of the rounds; and in one process
    again with each set of variables that its declaration tries.
    """
    families = {strategy.family.environment: strategy.family for strategy, _ in worlds(scope)}
    return [probe for family in families.values() if family.probe for probe in _of_family(scope, family)]


def _of_family(scope: Scope, family: Family) -> list[PlannedProbe]:
    main, like = main_worlds(scope), catalogue.find(family.probe.like)
    main_sizes = [main.get(strategy.name, Size(1)) for strategy, _ in worlds(scope) if strategy.family is family]
    workers = max(size.workers for size in main_sizes)
    if workers == 1 and not family.probe.products:
        return []
    tasks = [each.task for each in throughput(scope, like, Size(workers), repetition=1, alone=False)]
    found = []
    for preset, rows in dict.fromkeys((task.preset, rows_per_worker(task, workers)) for task in tasks):
        [task, *_] = [task for task in tasks if task.preset == preset]
        task = dataclasses.replace(task, scaling="weak", batch=rows, deadline_seconds=DEADLINE_SECONDS)
        found.append(PlannedProbe(strategy=like, task=task, variables={}))
        alone = dataclasses.replace(task, workers=1)
        found += [PlannedProbe(strategy=like, task=alone, variables=tried) for tried in family.probe.tried]
    return found


def run_all(console: Console, probes: list[PlannedProbe], folder: Path) -> float:
    """Make the probes that the folder has no measurement of yet; returns the seconds that all of them took.

    No probe that fails ends the comparison.
    """
    seconds = 0.0
    for probe in probes:
        path = folder / FOLDER / f"{probe.name}.json"
        if path.exists() and (known := read_record(path, Ceiling)).status == "ok":
            # About as long as it took, before an interruption.
            seconds += known.elapsed_seconds
            continue
        started = time.monotonic()
        try:
            ceiling = run(probe, path)
        finally:
            manifest.note(folder, [path])
        taken = time.monotonic() - started
        measured, *_ = in_words(ceiling) or ["nothing to clock"]
        said = measured if ceiling.status == "ok" else f"{ceiling.reason} (log: {ceiling.log})"
        console.print(f"{ceiling.status:>11}  {probe.name}: {said} {taken:>6.1f} s")
        seconds += taken
    return seconds


def run(probe: PlannedProbe, path: Path) -> Ceiling:
    """Make one probe and return what it measured, left in `path` beside its log.

    A probe that leaves nothing gets a file here: `unsupported` when it refused, else `failed`.
    """
    # Not by with_suffix, which would end the name at a point in a variable's value.
    path, log_path = path.resolve(), path.with_name(f"{probe.name}.log").resolve()
    strategy, task = probe.strategy, dataclasses.replace(probe.task, record=path)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    options, variables = strategy.options(), probe.variables
    if ended := supervision.attempt("common.sessions.ceilings", strategy, task, options, log_path, variables=variables):
        status, reason = ended
        known = declared(strategy, task) | {"variables": dict(variables), "started_at": started_at}
        write_record(path, Ceiling(**known, status=status, reason=reason, log=log_path.name))
    return read_record(path, Ceiling)


def main() -> None:
    """Run the probe that is started like the strategy of the command line; exits with its status.

    Raises UserError for a strategy that no probe is started like.
    """
    if parent := os.environ.get(launch.ENDS_WITH):
        end_with_parent(int(parent))
    strategy, task, command = launch.prepare(sys.argv[1:])
    probe = strategy.family.probe
    if probe is None or probe.like != strategy.name:
        known = [family.probe.like for family in catalogue.families().values() if family.probe]
        raise UserError(f"No probe is started like {strategy.name}: name one of {', '.join(known)}.")
    command[command.index(strategy.script)] = probe.script
    launch.supervise(strategy, task, command)


if __name__ == "__main__":
    exit_with_one_line(main)
