"""What launches tell beside their speed: starts, accuracies, memory, phases of an exchange, and who waited for whom."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from msgspec import structs

from common.declarations.strategy import SHARDING_OF, name_of
from common.records.files import to_json
from common.records.training import Record
from reports.tables import columns

ACCURACY_TARGETS = {"digits": 0.90, "mnist": 0.95, "mnist_5k": 0.90}
"""The test accuracy whose time is reported, for the presets with real data."""

_CELL = ["regime", "workers", "strategy"]
_PARTS = ["parameters", "gradients", "optimizer_state"]
_PEAKS = ["above_import", "device_peak"]


def startups(records: Mapping[str, Record]) -> pd.DataFrame:
    """The time to the first step in its parts, seconds: medians over the n launches of each strategy and world size."""
    keys, parts = ["strategy", "workers"], ["imports", "world", "first_step"]
    rows = [
        (record.name, record.world_size, record.time_to_first_step_s, *structs.astuple(record.startup_seconds))
        for record in records.values()
        if record.status == "ok" and record.startup_seconds
    ]
    groups = pd.DataFrame(rows, columns=[*keys, "whole", *parts]).groupby(keys)
    return columns.table("startups", groups.median().assign(n=groups.size()).reset_index())


def phases(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each phase of each cell of several workers whose launches have an account of their exchange.

    `seconds` are per step, medians over n launches. Phases stand in the order of the record.
    """
    keys, rows = [*_CELL, "family", "phase", "meaning"], []
    for row in launches[launches["exchange"] & (launches["workers"] > 1)].to_dict("records"):
        record = records[row["launch"]]
        steps = record.task.steps - record.first_step
        for phase in record.phases:
            rows.append((*(row[name] for name in keys[:4]), phase.name, phase.meaning, phase.seconds / steps))
    groups = pd.DataFrame(rows, columns=[*keys, "seconds"]).groupby(keys, sort=False)["seconds"]
    return columns.table("phases", groups.agg(n="count", seconds="median").reset_index())


def memory(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """What each process holds of the model and how far its memory rises, beside a strategy with whole copies.

    One row per cell with exchange whose records tell of memory. The reference is on the same hosts, in the same regime,
    with as many workers; factors are NaN where it wasn't measured, or holds nothing, what the processes hold is where
    the strategy doesn't tell.
    """
    keys, measured, rows = [*_CELL, "reference"], [*_PARTS, *_PEAKS], []
    for row in launches[launches["exchange"]].to_dict("records"):
        whole = row["compared_with"].get(SHARDING_OF, "")
        about = {name: row[name] for name in ("launch", *_CELL)}
        about["reference"] = whole and name_of(whole, row["placement"])
        rows += [about | to_json(process) for process in records[row["launch"]].memory_bytes]
    processes = pd.DataFrame(rows, columns=["launch", *keys, *measured]).dropna(how="all", subset=measured)
    processes["held"] = processes[_PARTS].sum(axis=1, skipna=False)
    # Of each launch the process that holds most, with the peaks of any.
    most = processes.sort_values("held", ascending=False, kind="stable").drop_duplicates("launch").set_index("launch")
    most[_PEAKS] = processes.groupby("launch")[_PEAKS].max()
    groups = most.groupby(keys)[[*measured, "held"]]
    cells = groups.median().assign(n=groups.size()).reset_index()
    compared = ["held", *_PEAKS]
    whole = cells.set_index(_CELL)[compared].add_prefix("reference_")
    cells = cells.join(whole, on=["regime", "workers", "reference"])
    held, above, device = (cells[each] / cells[f"reference_{each}"].replace(0, math.nan) for each in compared)
    return columns.table("memory", cells.assign(held_factor=held, peak_factor=device.fillna(above)))


def accuracies(records: Mapping[str, Record]) -> pd.DataFrame:
    """Test accuracy reached on real data, and seconds of clocked training until the preset's target."""
    keys, rows = ["preset", "strategy", "workers", "global_batch", "seed", "steps", "target"], []
    for record in records.values():
        task, target = record.task, ACCURACY_TARGETS.get(record.task.preset)
        if record.status == "ok" and record.accuracies and target:
            looked = len(record.accuracies) > 1
            reached = [each.training_seconds for each in record.accuracies if looked and each.accuracy >= target]
            known = (task.preset, record.name, record.world_size, record.examples_per_step, task.seed, task.steps)
            rows.append((*known, target, record.final_accuracy, looked, reached[0] if reached else math.nan))
    groups = pd.DataFrame(rows, columns=[*keys, "accuracy", "looked", "target_seconds"]).groupby(keys)
    cells = groups.agg(
        n=("accuracy", "size"),
        accuracy=("accuracy", "median"),
        lowest=("accuracy", "min"),
        looked=("looked", "sum"),
        reached=("target_seconds", "count"),
        target_seconds=("target_seconds", "median"),
    )
    return columns.table("accuracies", cells.reset_index())


def skews(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each measured launch with exchange whose ranks on several hosts tell when they had their windows."""
    rows = []
    for launch in launches[launches["exchange"]].to_dict("records"):
        record = records[launch["launch"]]
        windows = _windows(record)
        if windows.empty:
            continue
        uncertainties = np.array([host.clock_uncertainty_seconds for host in record.hosts], np.float64)
        starts = windows.groupby("step")["start"]
        # Whichever two hosts had the first and the last.
        row = launch | {"uncertainty_seconds": np.sort(uncertainties)[-2:].sum()}
        row |= {"windows": starts.ngroups, "seconds": (starts.max() - starts.min()).median()}
        for column, moment in (("started_last", "start"), ("finished_last", "end")):
            latest = windows.pivot_table(index="step", columns="place", values=moment, aggfunc="max")
            names = _last(latest, uncertainties).map(lambda place, hosts=record.hosts: hosts[int(place)].name, "ignore")
            host = next(iter(names.mode()), "")
            row |= {column: host, f"{column}_share": (names == host).mean(), f"{column}_unknown": names.isna().mean()}
        rows.append(row)
    return columns.table("skews", rows)


def _windows(record: Record) -> pd.DataFrame:
    """For each clocked step of a launch over several hosts, and each rank, its host's place and its start and end.

    Seconds are by the boot clock of the machine that started the launch: what the rank's host read, less how far that
    host's clock was ahead. That offset comes from the shortest of many round trips, and is wrong by at most half of it
    (Cristian, "Probabilistic clock synchronization", 1989, section 3). Nothing comes where the record tells no clock.
    """
    rows = []
    if all(host.clock_offset_seconds is not None for host in record.hosts):
        place_of = [place for place, host in enumerate(record.hosts) for _ in range(host.workers)]
        ranks = min(len(place_of), len(record.process_start_seconds))
        for window in record.windows:
            if window.rank < ranks and window.started_seconds is not None:
                place = place_of[window.rank]
                start = record.process_start_seconds[window.rank] + window.started_seconds
                start -= record.hosts[place].clock_offset_seconds
                rows.append((window.step, place, start, start + window.seconds))
    windows = pd.DataFrame(rows, columns=["step", "place", "start", "end"])
    return windows[windows.groupby("step")["place"].transform("nunique") > 1]


def _last(latest: pd.DataFrame, uncertainties: np.ndarray) -> pd.Series:
    """The place whose time is the latest beyond what both clocks may be wrong by; NaN where that isn't sure.

    `latest` has a row for each window and a column for each place.
    """
    last = latest.idxmax(axis=1)
    ahead = latest.rsub(latest.max(axis=1), axis=0)
    doubt = np.add.outer(uncertainties[last], uncertainties[latest.columns])
    is_itself = np.equal.outer(last.to_numpy(), latest.columns.to_numpy())
    return last.where(((ahead > doubt) | is_itself | latest.isna()).all(axis=1))
