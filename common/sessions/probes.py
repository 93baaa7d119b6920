"""The probes of a comparison: which there are, and what is kept of each.

To start one: `python -m common.launching.launch ENVIRONMENT_ceiling --workers 2 --preset pathway`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Strategy
from common.launching.exit_cause import Ended
from common.launching.planned import Job, Size
from common.measurement.probing import declared, rows_per_worker
from common.records.ceiling import FOLDER, Ceiling
from common.records.files import from_json, read_record, write_record
from common.records.site import Site
from common.records.training import Record
from common.sessions.comparison_scope import Scope, main_worlds, speed_launches, worlds

_DEADLINE_SECONDS = 60.0
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
        """Unique in a comparison, readable in a list of files, and in a folder of its own."""
        task, variables = self.task, [f"{name}_{value}" for name, value in self.variables.items()]
        about = [self.strategy.family.environment, task.preset, f"{task.batch}r", f"{task.workers}w", *variables]
        return f"{FOLDER}/{'-'.join(about)}"

    def job(self, folder: Path) -> Job:
        """What is started."""
        # The folder of its kind is in the name, and the record's place is in that folder.
        path, options = folder / f"{Path(self.name).name}.json", self.strategy.options()
        task = dataclasses.replace(self.task, record=path)
        return Job(
            program=catalogue.probe_of(self.strategy.family),
            workload=task,
            options=options,
            arguments=to_arguments(task, options),
            files=[path.name],
            variables=self.variables,
        )

    def record(self, folder: Path, ended: Ended, started_at: str, site: Site | None = None) -> Ceiling:
        """What it measured, or else a ceiling that is made here of what is declared."""
        path = folder / f"{self.name}.json"
        if ended.status != "ok":
            # Not by with_suffix, which would end the name at a point in a variable's value.
            log = f"{Path(self.name).name}.log"
            about = {"variables": dict(self.variables), "log": log, "started_at": started_at}
            facts = declared(self.strategy, self.task) | about | {"status": ended.status, "reason": ended.reason}
            write_record(path, from_json(facts, Ceiling))
        return read_record(path, Ceiling)


def read(path: Path) -> Record | Ceiling:
    """Read what a launch of a comparison left, or a probe of it. Raises UserError for a damaged file."""
    return read_record(path, Ceiling if path.parent.name == FOLDER else Record)


def planned(scope: Scope) -> list[PlannedProbe]:
    """The probes of every family with a strategy in the scope, for each preset and number of rows of its rounds.

    Each is made with the framework left as it is, in the family's largest world of the rounds; and in one process
    again with each set of variables that its declaration tries. Nothing is probed at a cluster's address.
    """
    if scope.address is not None:
        return []
    main, probes = main_worlds(scope), list[PlannedProbe]()
    for family in {strategy.family.environment: strategy.family for strategy, _ in worlds(scope)}.values():
        sizes = [main.get(strategy.name, Size(1)) for strategy, _ in worlds(scope) if strategy.family is family]
        workers = max(size.workers for size in sizes)
        if family.probe is None or (workers == 1 and not family.probe.products):
            continue
        like = catalogue.find(family.probe.like)
        # By preset and rows the first of the tasks, which differ in their scaling alone.
        tasks = dict[tuple[str, int], Task]()
        for launch in speed_launches(scope, like, Size(workers), repetition=1, with_t_comp=False):
            tasks.setdefault((launch.task.preset, rows_per_worker(launch.task, workers)), launch.task)
        for (_, rows), of_rounds in tasks.items():
            task = dataclasses.replace(of_rounds, scaling="weak", batch=rows, deadline_seconds=_DEADLINE_SECONDS)
            probes.append(PlannedProbe(strategy=like, task=task, variables={}))
            single = dataclasses.replace(task, workers=1)
            probes += [PlannedProbe(strategy=like, task=single, variables=each) for each in family.probe.tried]
    return probes
