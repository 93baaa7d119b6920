"""One launch of a session before it is made: what is started for it, and which record is kept of it."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from common.command_line import options_of
from common.contract import dataset
from common.contract.evidence import evidence_path
from common.contract.rows import share_of
from common.contract.task import PRESETS, Task
from common.declarations import arguments
from common.declarations.catalogue import Program
from common.declarations.library import Library
from common.declarations.strategy import Options, Strategy, has_exchange, label
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.launching.exit_cause import Ended
from common.launching.launch import RUNNER
from common.launching.programs import Workload
from common.measurement import machine
from common.measurement.record import declared
from common.records import collective_times
from common.records.collective_times import CollectivesRecord, Replayed, cells_path
from common.records.evidence import note_reading
from common.records.files import from_json, read_record, write_record
from common.records.recovery import recovery_path
from common.records.site import Site
from common.records.trace import trace_path
from common.records.training import Record

Kept = TypeVar("Kept", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is started for one launch: a program with its options, by how many workers on how many hosts."""

    program: Program
    workload: Workload
    options: Options
    """Those of its launcher; `arguments` are those of its script."""
    arguments: Sequence[str]
    files: Sequence[str]
    """Names of the files that it leaves beside its log; without the first it hasn't ended well."""
    runner: str = ""
    """The module that runs its script; none: Python itself."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that are tried on one machine."""
    hosts: int = 1
    bandwidth_bits_per_second: float | None = None
    """Of the links of virtual hosts, where it was chosen."""
    delay_seconds: float | None = None
    """Of these links; None: as they were made."""
    processes_beside: int = 0
    """Those beside its workers."""
    check: Callable[[int], None] = lambda gpus: None
    """Raises UserError where several hosts with so many GPUs each can't have it."""

    @property
    def workers(self) -> int:
        """How many there are on all hosts together."""
        assert self.workload.workers, "A session names them."
        return self.workload.workers

    @property
    def deadline_seconds(self) -> float:
        """After which time all of it has to have ended."""
        return self.workload.deadline_seconds * (1 + getattr(self.workload, "restarts", 0))

    @property
    def words(self) -> list[str]:
        """The arguments by which `common.launching.launch` starts it on one machine."""
        return [*([RUNNER, self.runner] if self.runner else []), self.program.name, *self.arguments]


class Planned(Protocol[Kept]):
    """A launch before it is made."""

    @property
    def name(self) -> str:
        """That of its record, its log and its other files: unique in a session, and readable in a list of files."""
        ...

    def job(self, folder: Path) -> Job:
        """What is started, such that its files come to this folder. Raises UserError where it can't be had."""
        ...

    def record(self, folder: Path, ended: Ended, started_at: str, site: Site | None) -> Kept:
        """The record of the launch, whose files are in the folder, where the record is kept too, whatever happened.

        The `site` are its hosts, if any. Raises UserError where what it left is damaged.
        """
        ...


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch of a strategy."""

    strategy: Strategy
    workers: int
    purpose: Literal["certificate", "throughput"]
    repetition: int
    task: Task
    options: Options
    hosts: int | None = None
    """How many hosts its workers are on in a comparison over several; None: on this machine, without any ssh."""
    bandwidth_bits_per_second: float | None = None
    """Of the links of virtual hosts, where it was chosen."""
    delay_seconds: float | None = None
    runner: Literal["busy", "tracer"] | None = None
    """What runs its script: busy work in its loop, or the tracer of its framework, which leaves a step's messages."""

    @property
    def name(self) -> str:
        # An option's value may be an address, and a file's name may have no slash, nor everywhere a colon.
        details = [re.sub(r"[ /:]+", "_", words) for words in label(self.options).split(", ") if words]
        details += [] if has_exchange(self.options) else ["no_exchange"]
        details += [self.task.fault.in_words.replace(" ", "_")] if self.task.fault else []
        details += [f"{self.task.restarts}restarts"] if self.task.restarts else []
        last = "certificate" if self.purpose == "certificate" else f"{self.repetition:02d}"
        world = [self.strategy.name, self.task.preset, self.task.scaling, f"{self.workers}w"]
        world += [] if self.task.batch == PRESETS[self.task.preset].batch else [f"{self.task.batch}rows"]
        world += [] if self.hosts is None else [f"{self.hosts}h"]
        world += [f"{self.bandwidth_bits_per_second / 1e6:g}Mbit"] if self.bandwidth_bits_per_second else []
        world += [f"{self.delay_seconds * 1e3:g}ms"] if self.delay_seconds else []
        return "-".join([*world, *details, last])

    def job(self, folder: Path) -> Job:
        """What is started. Raises UserError where the framework has no tracer and one is asked for."""
        strategy, name = self.strategy, self.name
        runners = {None: "", "busy": "common.measurement.busy", "tracer": strategy.family.tracer}
        if (runner := runners[self.runner]) is None:
            raise UserError(f"{strategy.family.title} declares no tracer, so what {strategy.name} sends isn't known.")
        # Not by with_suffix, which would end the name at the point of an option's value.
        record = folder / f"{name}.json"
        task, files = dataclasses.replace(self.task, record=record), [record.name, evidence_path(record).name]
        if task.checkpoint:
            checkpoint = folder / f"{name}.safetensors"
            task = dataclasses.replace(task, checkpoint=checkpoint)
            files.append(checkpoint.name)
        if getattr(self.options, "trace", False):
            files.append(f"{name}.trace")
        if task.is_accounted:
            files.append(recovery_path(folder / f"{name}.json").name)
        if self.runner == "tracer":
            files.append(trace_path(folder / f"{name}.json").name)

        def check(gpus: int) -> None:
            strategy.refuse(task, self.options, self.workers, gpus)
            share_of(task, strategy.work, strategy.is_synchronous(self.options), 0, self.workers)
            if not task.data_dir:
                # For hosts that share this user's cache. What fills it isn't in every framework's environment.
                dataset.load(task)

        return Job(
            program=strategy,
            workload=task,
            options=self.options,
            arguments=arguments.to_arguments(task, self.options),
            files=files,
            runner=runner,
            hosts=self.hosts or 1,
            bandwidth_bits_per_second=self.bandwidth_bits_per_second,
            delay_seconds=self.delay_seconds,
            processes_beside=strategy.processes_beside(self.options),
            check=check,
        )

    def record(self, folder: Path, ended: Ended, started_at: str, site: Site | None = None) -> Record:
        """The record that it left, or else one that is made here of what is declared."""
        path = folder / f"{self.name}.json"
        if ended.status != "ok":
            facts = declared(self.strategy, self.task, self.options, self.workers, site)
            about = {"status": ended.status, "reason": ended.reason, "log": f"{self.name}.log"}
            write_record(path, from_json(facts | about | {"started_at": started_at}, Record))
        is_certificate = self.purpose == "certificate"
        return note_reading(path, keep=is_certificate, late_alone=not is_certificate)


@dataclass(frozen=True)
class PlannedSweep:
    """One launch of a library of collectives, in a sweep of its own or with a strategy's messages."""

    library: Library
    sweep: Sweep
    repetition: int
    hosts: int | None = None
    bandwidth_bits_per_second: float | None = None
    """Both as `PlannedLaunch` has them."""
    replayed: Replayed | None = None
    """As a record has it: whose step is replayed."""

    @property
    def name(self) -> str:
        bits = self.bandwidth_bits_per_second
        world = [self.replayed.strategy if self.replayed else self.library.name, f"{self.sweep.workers}w"]
        world += [] if self.hosts is None else [f"{self.hosts}h"]
        world += [f"{bits / 1e6:g}Mbit"] if bits else []
        return "-".join([*world, f"{self.repetition:02d}"])

    def job(self, folder: Path) -> Job:
        """What is started."""
        record = folder / f"{self.name}.json"
        swept = dataclasses.replace(self.sweep, record=record)
        return Job(
            program=self.library,
            workload=swept,
            options=self.library.options,
            # A script that its launcher starts on several hosts doesn't know how many ranks there are by default.
            arguments=[*options_of(swept, Sweep()), "--workers", str(swept.workers)],
            files=[cells_path(record).name],
            hosts=self.hosts or 1,
            bandwidth_bits_per_second=self.bandwidth_bits_per_second,
        )

    def record(self, folder: Path, ended: Ended, started_at: str, site: Site | None = None) -> CollectivesRecord:
        """One record of the lines that the launch left, which are kept whatever became of it."""
        path, library = folder / f"{self.name}.json", self.library
        lines = collective_times.read_lines(cells_path(path))
        about = {"started_at": started_at} | (site.facts() if site else {}) | (lines[0] if lines else {})
        last = next((line for line in lines if "elapsed_seconds" in line), {})
        if ended.status == "ok" and not last:
            ended = Ended("failed", "It ended without saying that it had measured everything.")
        facts = {
            "library": library.name,
            "family": library.family.title,
            "one_process": library.one_process,
            "repetition": self.repetition,
            "world_size": self.sweep.workers,
            "threads_per_worker": self.sweep.threads,
            "replayed": self.replayed,
            # Of a file its name alone, since folders are moved.
            "sweep": dataclasses.replace(self.sweep, messages=self.sweep.messages and Path(self.sweep.messages.name)),
            "git_commit": machine.git_commit(),
            "log": f"{self.name}.log",
            "status": ended.status,
            "reason": ended.reason,
            "cells": [line for line in lines if "collective" in line],
        }
        write_record(path, from_json(facts | about | last, CollectivesRecord))
        cells_path(path).unlink(missing_ok=True)
        return read_record(path, CollectivesRecord)


class Size(NamedTuple):
    """How large a world is: its workers, and the hosts that they are spread over evenly."""

    workers: int
    hosts: int = 1
    bandwidth_bits_per_second: float | None = None
    """Of virtual hosts' links, where it was chosen."""


@dataclass(frozen=True)
class Hosts:
    """What the plan must know of the hosts of a comparison over several."""

    count: int
    slots: int
    """Workers that each host can have."""
    cores: int
    """Of each host."""
    cores_together: int | None = None
    """Of the machine that virtual hosts share."""
    bandwidths_bits_per_second: tuple[float | None, ...] = (None,)
    """Of the links of virtual hosts: a placement over several hosts is measured with each. Of several bandwidths, which
    are a sweep, only the placement over most hosts is."""
    srun_starts_mpi: bool = False
    """Whether srun tells what it starts of one another by PMIx, as MPI wants it."""

    def is_first_link(self, size: Size) -> bool:
        """Whether this is the sweep's first bandwidth. Launches that don't depend on bandwidth are made only there."""
        return size.hosts == 1 or size.bandwidth_bits_per_second == self.bandwidths_bits_per_second[0]
