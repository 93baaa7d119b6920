"""One launch, and one record of it, whatever happens to it."""

import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil

from common.errors import PREFIX, LaunchFailedError, UserError
from common.files import write_atomically
from common.launching import exit_cause
from common.launching.exit_cause import TIMED_OUT_STATUS, Ended
from common.launching.launch import ENDS_WITH, TEMPORARY, python_for
from common.launching.planned import Job, Planned
from common.launching.processes import end_all, signals_held
from common.paths import ROOT
from common.records.site import Site

Kept = TypeVar("Kept")
AnySite = TypeVar("AnySite", bound=Site | None)
"""The hosts that a job is spread over; None: this machine."""

STOP_SECONDS = 30.0
"""What a launch has for ending in order: seconds of patience with each of its processes."""


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
    """The checkout."""

    def site(self, job: Job) -> None:
        """No hosts."""

    def run(self, job: Job, site: None, log_path: Path) -> Ended:
        words, seconds = ["-m", "common.launching.launch", *job.words], job.deadline_seconds
        status = start(words, self.root, log_path, seconds, job.variables)
        log = log_path.read_text(encoding="utf-8", errors="replace")
        return exit_cause.read(status, seconds, log, job.program.launcher)


HERE = ThisMachine()


def start(
    arguments: Sequence[str], root: Path, log_path: Path, deadline_seconds: float, variables: Mapping[str, str]
) -> int:
    """Exit status of Python with these arguments in `root`; its output goes to the log. What it started ends, always.

    `variables` are set beside this process's own. Where this process is killed, the launch ends as well. Raises
    LaunchFailedError where something of it is left.
    """
    with log_path.open("wb") as log:
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        process = psutil.Popen(
            [sys.executable, *arguments],
            cwd=root,
            env={**os.environ, ENDS_WITH: str(os.getpid()), **variables},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            status = process.wait(deadline_seconds + STOP_SECONDS)
            assert status is not None, "It is a child of this process."
            return int(status)
        except psutil.TimeoutExpired:
            return TIMED_OUT_STATUS
        finally:
            end(process)
            # A launch that was killed couldn't remove its own.
            for left in Path(tempfile.gettempdir()).glob(f"{TEMPORARY.format(process.pid)}*"):
                shutil.rmtree(left, ignore_errors=True)


def end(process: psutil.Popen) -> None:
    """End the process in order, or else kill it with all below it.

    Raises LaunchFailedError where some of them are left all the same.
    """
    with signals_held():
        if process.poll() is not None:
            return
        process.terminate()
        if not psutil.wait_procs([process], timeout=STOP_SECONDS)[1]:
            return
        # Whoever is below can be found as long as the process is there.
        tree = [process, *process.children(recursive=True)]
        end_all(lambda: [each for each in tree if _runs(each)], grace_seconds=0.0)


def _runs(process: psutil.Process) -> bool:
    """Whether it is more than an entry that waits for its parent, which may never ask."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run_planned(planned: Planned[Kept], folder: Path, executor: Executor[Any] = HERE) -> Kept:
    """Make one planned launch and return its record, left in `folder` beside its log.

    A launch that leaves none gets one here: `unsupported` when it refused, else `failed`. One that is interrupted
    leaves none: it may have written its record by then, but nobody has read its evidence.
    """
    folder, started_at, site = folder.resolve(), datetime.now(UTC).isoformat(timespec="milliseconds"), None
    log_path, files = folder / f"{planned.name}.log", list[Path]()
    log_path.parent.mkdir(parents=True, exist_ok=True)
    try:
        job = planned.job(executor.folder or log_path.parent)
        files = [log_path.with_name(name) for name in job.files]
        # What an earlier launch left isn't this one's.
        _remove(files)
        site = executor.site(job)
        python_for(job.program)
        site = executor.measured(job, site)
        ended = executor.run(job, site, log_path)
        if ended.status == "ok" and not files[0].exists():
            ended = Ended("failed", "It ended without leaving a record.")
    except UserError as error:
        write_atomically(log_path, f"{PREFIX}{error}\n".encode())
        ended = Ended("unsupported", str(error))
    except LaunchFailedError as error:
        ended = Ended("failed", str(error))
    except KeyboardInterrupt:
        _remove(files)
        raise
    with signals_held():
        return planned.record(folder, ended, started_at, site)


def _remove(files: Iterable[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
