"""One launch, and one record of it, whatever happens to it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from common.errors import PREFIX, LaunchFailedError, UserError
from common.files import write_atomically
from common.launching import exit_cause
from common.launching.exit_cause import Ended
from common.launching.launch import python_for
from common.launching.places.here import start
from common.launching.planned import Job, Planned
from common.paths import ROOT
from common.records.site import Site

Kept = TypeVar("Kept")
AnySite = TypeVar("AnySite", bound=Site | None)


class Executor(ABC, Generic[AnySite]):
    """Where launches are made: this machine, or hosts. It starts a job, and ends all of it, always."""

    @property
    def folder(self) -> Path | None:
        """Where the files of a job lie before they come to the folder of its log; None: they are made there."""
        return None

    @abstractmethod
    def site(self, job: Job) -> AnySite:
        """The job's hosts, by what is known before."""

    def measured(self, job: Job, site: AnySite) -> AnySite:
        """The same with what is measured just before the launch. Raises UserError where the job can't be had there."""
        return site

    @abstractmethod
    def run(self, job: Job, site: AnySite, log_path: Path) -> Ended:
        """Start the job and return how it ended; its output is in the log, and its files lie beside that.

        Raises UserError where nothing was started, and LaunchFailedError where something of it is left.
        """


@dataclass(frozen=True)
class ThisMachine(Executor[None]):
    """A launch on this machine, without any ssh, by the code of this checkout or of another."""

    root: Path = ROOT

    def site(self, job: Job) -> None:
        """No hosts."""

    def run(self, job: Job, site: None, log_path: Path) -> Ended:
        """As `Executor` has it."""
        deadline_seconds = job.deadline_seconds
        status = start(
            ["-m", "common.launching.launch", *job.words], self.root, log_path, deadline_seconds, job.variables
        )
        log = log_path.read_text(encoding="utf-8", errors="replace")
        launcher = job.program.launcher
        return exit_cause.read(status, deadline_seconds, log, launcher)


HERE = ThisMachine()


def run_planned(planned: Planned[Kept], folder: Path, executor: Executor[Any] = HERE) -> Kept:
    """Make one planned launch and return its record, left in `folder` beside its log.

    A launch that leaves none gets one here: `unsupported` when it refused, else `failed`.
    """
    folder, started_at, site = folder.resolve(), datetime.now(UTC).isoformat(timespec="milliseconds"), None
    log_path = folder / f"{planned.name}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    try:
        job = planned.job(executor.folder or log_path.parent)
        for name in job.files:
            # What an earlier launch left isn't this one's.
            log_path.with_name(name).unlink(missing_ok=True)
        site = executor.site(job)
        python_for(job.program)
        site = executor.measured(job, site)
        ended = executor.run(job, site, log_path)
        if ended.status == "ok" and not log_path.with_name(job.files[0]).exists():
            ended = Ended("failed", "It ended without leaving a record.")
    except UserError as error:
        write_atomically(log_path, f"{PREFIX}{error}\n".encode())
        ended = Ended("unsupported", str(error))
    except LaunchFailedError as error:
        ended = Ended("failed", str(error))
    return planned.record(folder, ended, started_at, site)
