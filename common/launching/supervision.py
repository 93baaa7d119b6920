"""One launch in a process group of its own, and one record of it, whatever happens to it."""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from common.contract.task import Task
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Options, Strategy
from common.errors import UserError
from common.launching.launch import ENDS_WITH, python_for
from common.launching.planned import PlannedLaunch
from common.launching.processes import TIMED_OUT_STATUS, signals_held
from common.measurement.record import declared
from common.paths import ROOT
from common.records.files import read_record, write_record
from common.records.training import Record

_STOP_SECONDS = 30.0


def run_planned(
    planned: PlannedLaunch, folder: Path, launcher: str = "common.launching.launch", root: Path = ROOT
) -> Record:
    """Make one planned launch and return its record, left in `folder` beside its log.

    `launcher` is the module that starts it, and `root` the checkout whose code runs. A launch that leaves no record
    gets one here: `unsupported` when it refused, else `failed`.
    """
    folder = folder.resolve()
    # Not by with_suffix, which would end the name at the point of an option's value.
    checkpoint = folder / f"{planned.name}.safetensors" if planned.task.checkpoint else None
    path, log_path = folder / f"{planned.name}.json", folder / f"{planned.name}.log"
    task = dataclasses.replace(planned.task, record=path, checkpoint=checkpoint)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    if ended := attempt(launcher, planned.strategy, task, planned.options, log_path, root):
        status, reason = ended
        known = declared(planned.strategy, task, planned.options, planned.workers)
        write_record(path, Record(**known, status=status, reason=reason, log=log_path.name, started_at=started_at))
    return read_record(path, Record)


def attempt(
    launcher: str,
    strategy: Strategy,
    task: Task,
    options: Options,
    log_path: Path,
    root: Path = ROOT,
    variables: Mapping[str, str] | None = None,
) -> tuple[str, str] | None:
    """Make one launch; None where it ended well and left `task.record`, else what came of it and why, as `outcome` has.

    `launcher` is the module in the checkout `root` that starts it, with these environment `variables` beside this
    process's own. Its output is in the log, and what earlier launches left in its files is gone.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    for path in filter(None, (task.record, task.checkpoint)):
        path.unlink(missing_ok=True)
    try:
        python_for(strategy)
        arguments = ["-m", launcher, strategy.name, *to_arguments(task, options)]
        status = start(arguments, root, log_path, task.deadline_seconds, variables or {})
    except UserError as error:
        log_path.write_text(f"lockstep: {error}\n")
        status = None
    if status == 0 and task.record.exists():
        return None
    log = log_path.read_text(errors="replace")
    return outcome(status, task.deadline_seconds, log, strategy.launcher.signal_reports)


def start(
    arguments: list[str], root: Path, log_path: Path, deadline_seconds: float, variables: Mapping[str, str]
) -> int:
    """Exit status of Python with these arguments in `root`; its output goes to the log. What it started ends, always.

    `variables` are set beside this process's own. Where this process is killed, the launch ends as well.
    """
    with log_path.open("wb") as log:
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        launcher = psutil.Popen(
            [sys.executable, *arguments],
            cwd=root,
            env=os.environ | {ENDS_WITH: str(os.getpid())} | dict(variables),
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


def outcome(
    status: int | None, deadline_seconds: float, log: str, signal_reports: Sequence[str] = ()
) -> tuple[str, str]:
    """`unsupported` or `failed`, and one sentence, of a launch that left no record.

    From its exit status (None: it never started), its log, and how its launcher reports signals there.
    """
    if status == TIMED_OUT_STATUS:
        return "failed", f"It was ended by its deadline of {deadline_seconds:g} s."
    if failures := re.findall(r"lockstep: failed: (.+)", log):
        return "failed", failures[0]
    for report in signal_reports:
        if match := re.search(report, log):
            return "failed", f"rank {match['rank']} ended with signal {match['signal']}, so all processes were ended."
    if refusals := re.findall(r"lockstep: (?!note)(.+)", log):
        return "unsupported", refusals[0]
    if status == 0:
        return "failed", "It ended without leaving a record."
    return "failed", f"It ended with status {status}."
