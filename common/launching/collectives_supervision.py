"""One launch of the laboratory, and one record of it, whatever happens to it."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from common.declarations.sweep import to_arguments
from common.errors import UserError
from common.files import write_atomically
from common.launching import supervision
from common.launching.hosts import supervision as hosts_supervision
from common.launching.hosts.supervision import Cluster, Spanning
from common.launching.hosts.work import FOLDER
from common.launching.launch import python_for
from common.launching.planned import PlannedSweep
from common.measurement import machine
from common.paths import ROOT
from common.records.collectives import CollectivesRecord, cells_path, read_lines
from common.records.files import from_json, read_record, write_record
from common.records.site import Site


def run_planned(planned: PlannedSweep, folder: Path) -> CollectivesRecord:
    """Make one planned launch on this machine and return its record, left in `folder` beside its log.

    What a launch had measured before it failed is in its record. One that measured nothing is `unsupported` where it
    refused, else `failed`.
    """
    path, log_path = _fresh(planned, folder.resolve())
    sweep = dataclasses.replace(planned.sweep, record=path)
    started_at = _now()
    try:
        python_for(planned.library)
        arguments = ["-m", "common.launching.collectives_launch", planned.library.name, *to_arguments(sweep)]
        status = supervision.start(arguments, ROOT, log_path, sweep.deadline_seconds, {})
    except UserError as error:
        log_path.write_text(f"lockstep: {error}\n")
        status = None
    log, reports = log_path.read_text(errors="replace"), planned.library.launcher.signal_reports
    told = supervision.outcome(status, sweep.deadline_seconds, log, reports)
    return _kept(planned, path, None if status == 0 else told, started_at)


def run_over_hosts(planned: PlannedSweep, folder: Path, cluster: Cluster) -> CollectivesRecord:
    """Make one planned launch over its hosts and return its record, left in `folder` beside its log.

    What a launch had measured before it failed is in its record, unless the first host was lost.
    """
    path, log_path = _fresh(planned, folder.resolve())
    started_at, spanning = _now(), _spanning(planned)
    site = hosts_supervision.site_of(spanning, cluster)
    try:
        hosts_supervision.refuse_early(planned.library, planned.hosts)
        site = hosts_supervision.measured(site, spanning, cluster)
        ended = hosts_supervision.run(spanning, cluster, site, log_path)
    except UserError as error:
        write_atomically(log_path, f"lockstep: {error}\n".encode())
        return _kept(planned, path, ("unsupported", str(error)), started_at, site)
    for name, content in ended.files.items():
        write_atomically(folder / name, content)
    told = hosts_supervision.outcome(ended, spanning, log_path)
    return _kept(planned, path, None if ended.status == 0 and not ended.reason else told, started_at, site)


def _fresh(planned: PlannedSweep, folder: Path) -> tuple[Path, Path]:
    """The paths of its record and its log, with nothing of an earlier launch there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{planned.name}.json"
    for left in (path, cells_path(path)):
        left.unlink(missing_ok=True)
    return path, folder / f"{planned.name}.log"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _spanning(planned: PlannedSweep) -> Spanning:
    library = planned.library
    sweep = dataclasses.replace(planned.sweep, record=Path(FOLDER, f"{planned.name}.json"))
    return Spanning(
        program=library,
        limits=sweep,
        options=library.options,
        starter="common.launching.collectives_launch",
        arguments=[*to_arguments(sweep), "--workers", str(sweep.workers)],
        files=[cells_path(sweep.record).name],
        workers=sweep.workers,
        hosts=planned.hosts,
        bandwidth_bits_per_second=planned.bandwidth_bits_per_second,
        variables=library.variables,
    )


def _kept(
    planned: PlannedSweep, path: Path, ended: tuple[str, str] | None, started_at: str, site: Site | None = None
) -> CollectivesRecord:
    """Make one record of the lines that the launch left, and of how it `ended` where that wasn't well."""
    library, lines = planned.library, read_lines(cells_path(path))
    about = {"started_at": started_at} | (site.facts() if site else {}) | (lines[0] if lines else {})
    last = next((line for line in lines if "elapsed_seconds" in line), {})
    if ended is None and not last:
        ended = "failed", "It ended without saying that it had measured everything."
    status, reason = ended or ("ok", None)
    sweep = planned.sweep
    known = {
        **{"library": library.name, "title": library.title, "family": library.family.title},
        **{"colors": list(library.family.colors), "repetition": planned.repetition, "one_process": library.one_process},
        **{"world_size": sweep.workers, "threads_per_worker": sweep.threads, "replayed": planned.replayed},
        # Of a file its name alone, since folders are moved.
        "sweep": dataclasses.replace(sweep, messages=sweep.messages and Path(sweep.messages.name)),
        **{"git_commit": machine.git_commit(), "log": f"{planned.name}.log", "status": status, "reason": reason},
        "cells": [line for line in lines if "collective" in line],
    }
    write_record(path, from_json(known | about | last, CollectivesRecord))
    cells_path(path).unlink(missing_ok=True)
    return read_record(path, CollectivesRecord)
