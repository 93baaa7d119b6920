"""Records to numbers, as pandas tables: launches, cells with their speed-ups, where the time goes, accuracy, endings.

A launch is one record. A cell is what may be pooled: the same strategy, workers and exchange in the same regime. A
regime is everything else that decides what was computed, how it was measured and on what, so that no curve ever joins
weak and strong scaling, two presets, two tasks, or virtual hosts and real ones. A strategy's own options are no part of
a regime, and nor is over how many hosts, and which link, its workers are spread: its label names those options that
aren't at their default, then its hosts where there are several, and a strategy with a label is a curve of its own.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping
from functools import cache

import pandas as pd
from msgspec import structs

from common.contract.task import PRESETS, Task
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Options, name_of
from common.records import metrics
from common.records.header import Virtual
from common.records.training import Record
from reports.tables import columns, pairs

ACCURACY_TARGETS = {"digits": 0.90, "mnist": 0.95, "mnist_5k": 0.90}
"""The test accuracy whose time is reported, for the presets with real data."""

_LENGTHS = ("steps", "warmup_steps", "window_steps")
"""The fields of a task that are chosen by how long a step takes."""

_Cells = dict[tuple[object, object], list[dict[str, object]]]
"""The cells of one worker with exchange, by their work and strategy."""


def launches(records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each measured launch, by the stem of its file: what it is, and what its windows say.

    Measured is each `ok` record with windows that didn't stop on the way to save checkpoints (`--checkpoint-steps`):
    such stops cool caches between windows. Times are seconds. `wire_bytes` are per step of the whole launch, or from
    host to host where it had several. Raises UserError for a damaged task.
    """
    regimes = _regimes(records)
    rows = [_launch(name, record) | regimes[name] for name, record in records.items() if _is_measured(record)]
    return columns.table("launches", rows)


def windows(records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each clocked window of each rank of any launch."""
    rows = []
    for launch, record in records.items():
        about = {"launch": launch, "strategy": record.name, "workers": record.world_size, "exchange": record.exchange}
        rows += [about | structs.asdict(window) for window in record.windows]
    return columns.table("windows", rows)


@cache
def in_options(task: Task) -> str:
    """The task as options of the command line: what differs from its preset."""
    return " ".join(to_arguments(task, Options()))


def cells(launch_table: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: its median with an interval, and both speed-ups, NaN where their base wasn't measured."""
    keys = ["regime", "strategy", "workers", "exchange"]
    rows = [_cell(group) for _, group in launch_table.groupby(keys, sort=True)]
    alone: _Cells = {}
    for row in rows:
        if row["workers"] == 1 and row["exchange"]:
            alone.setdefault((row["work"], row["strategy"]), []).append(row)
    return columns.table("cells", (row | _base_columns(alone, row) for row in rows))


def regimes(launch_table: pd.DataFrame) -> list[str]:
    """Every regime, the one to show first at its head: weak before strong, the preset's own batch before others, most
    worker counts, most launches.
    """
    order = {}
    for name, group in launch_table[launch_table["exchange"]].groupby("regime"):
        first = group.iloc[0]
        is_own = first["batch"] == PRESETS[first["preset"]].batch
        order[name] = (first["scaling"] != "weak", not is_own, -group["workers"].nunique(), -len(group), name)
    return sorted(order, key=order.__getitem__)


def with_exchange(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    """The rows of one regime, of `cells` or `launches`, with exchange."""
    return table[(table["regime"] == regime) & table["exchange"]]


def without_hosts(table: pd.DataFrame) -> pd.Series:
    """The strategy of each row with its own options alone, whatever hosts it was spread over."""
    names = [
        name.removesuffix(f", {placement}") if placement else name
        for name, placement in zip(table["strategy"], table["placement"], strict=True)
    ]
    return pd.Series(names, index=table.index, dtype=object)


def over_fastest_links(table: pd.DataFrame) -> pd.DataFrame:
    """Of rows that differ only in link speed, keep the fastest.

    `table` has the columns of `cells`; a link whose bandwidth nobody chose is as fast as it goes.
    """
    told = table.assign(own=without_hosts(table), speed=table["bandwidth_bits_per_second"].fillna(math.inf))
    fastest = told.groupby(["regime", "own", "workers", "hosts"])["speed"].transform("max")
    return table[told["speed"] == fastest]


def oversubscribed_worlds(table: pd.DataFrame) -> list[int]:
    """The numbers of workers at which every strategy had more threads than the machine has cores."""
    every = table.groupby("workers")["oversubscribed"].all()
    return sorted(int(workers) for workers in every[every].index)


def startups(records: Mapping[str, Record]) -> pd.DataFrame:
    """The time to the first step in its parts, seconds: medians over the n launches of each strategy and world size."""
    rows = [
        {"strategy": record.name, "workers": record.world_size, "whole": record.time_to_first_step_s}
        | structs.asdict(record.startup_seconds)
        for record in records.values()
        if record.status == "ok" and record.startup_seconds
    ]
    if not rows:
        return columns.table("startups", ())
    groups = pd.DataFrame(rows).groupby(["strategy", "workers"])
    return columns.table("startups", groups.median().assign(n=groups.size()).reset_index().to_dict("records"))


def accuracies(records: Mapping[str, Record]) -> pd.DataFrame:
    """Test accuracy reached on real data, and seconds of clocked training until the preset's target."""
    rows = []
    for record in records.values():
        if record.status == "ok" and record.accuracies and record.task.preset in ACCURACY_TARGETS:
            target, looked = ACCURACY_TARGETS[record.task.preset], len(record.accuracies) > 1
            reached = [each.training_seconds for each in record.accuracies if looked and each.accuracy >= target]
            known = (record.task.preset, record.name, record.world_size, record.examples_per_step)
            known += (record.task.seed, record.task.steps, target)
            rows.append((*known, record.final_accuracy, looked, reached[0] if reached else math.nan))
    if not rows:
        return columns.table("accuracies", ())
    keys = ["preset", "strategy", "workers", "global_batch", "seed", "steps", "target"]
    found = pd.DataFrame(rows, columns=[*keys, "accuracy", "looked", "target_seconds"]).groupby(keys)
    merged = found.agg(
        n=("accuracy", "size"),
        accuracy=("accuracy", "median"),
        lowest=("accuracy", "min"),
        looked=("looked", "sum"),
        reached=("target_seconds", "count"),
        target_seconds=("target_seconds", "median"),
    )
    return columns.table("accuracies", merged.reset_index().to_dict("records"))


def strategies(launch_table: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """What each strategy of these launches is, by its newest record that quotes its script."""
    rows = []
    for strategy, launches in launch_table.groupby("bare_strategy"):
        own = [records[name] for name in launches["launch"]]
        # Another commit may have moved the lines.
        newest = max(own, key=lambda record: (bool(record.distributed_by), record.started_at))
        about = {"framework": newest.framework, "named_base": newest.base or strategy, "script": newest.script}
        about |= {"synchronous": all(record.synchronous for record in own)}
        rows.append(about | {"strategy": strategy, "lines": [each.line for each in newest.distributed_by]})
    return columns.table("strategies", rows)


def endings(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """How every planned or recorded launch ended; the task is empty for one that hasn't run."""
    rows, regimes = [], _regimes(records)
    planned = {} if plan is None else {str(row["launch"]): row for row in plan.to_dict("records")}
    for name in sorted(planned | records):
        record, row = records.get(name), planned.get(name)
        about = _planned(row) if record is None else _ended(record) | {"task": regimes[name]["task"]}
        rows.append({"launch": name, **about, "planned": name in planned})
    return columns.table("endings", rows)


def _planned(row: Mapping[str, object]) -> dict[str, object]:
    hosts, bandwidth = int(row.get("hosts", 1)), float(row.get("bandwidth_bits_per_second") or math.nan)
    # As the records of a planned launch will have it, as far as the plan tells: older ones name no hosts.
    link = "" if math.isnan(bandwidth) else f", {bandwidth / 1e6:g} Mbit/s"
    placement = f"{hosts} hosts{link}" if hosts > 1 else ""
    return {
        "strategy": name_of(str(row["strategy"]), ", ".join(filter(None, [str(row["label"]), placement]))),
        "bare_strategy": row["strategy"],
        "preset": row["preset"],
        "scaling": row["scaling"],
        "workers": row["workers"],
        "ending": "not run",
        "for_speed": bool(row["exchange"]) and row["purpose"] != "certificate",
        **dict.fromkeys(("reason", "log", "task"), ""),
    }


def _ended(record: Record) -> dict[str, object]:
    return {
        "strategy": record.name,
        "bare_strategy": record.strategy,
        "preset": record.task.preset,
        "scaling": record.scaling,
        "workers": record.world_size,
        "ending": record.status,
        "for_speed": record.exchange and not record.task.checkpoint_steps,
        "reason": record.reason or "",
        "log": record.log or "",
    }


def _is_measured(record: Record) -> bool:
    return record.status == "ok" and bool(record.windows) and not record.task.checkpoint_steps


def _regimes(records: Mapping[str, Record]) -> dict[str, dict[str, str]]:
    """The regime of each record, the same at any batch, its work at any scaling, its task as options, and its machine.

    With one worker weak and strong scaling are the same work, so a base may come from either.
    """
    places = {name: _place(record) for name, record in records.items()}
    machines: dict[str, set[str]] = {}
    for name, place in places.items():
        machines.setdefault(place, set()).add(records[name].host.name)
    regimes = {}
    for name, task in _pooled_tasks(records).items():
        record, place = records[name], places[name]
        if len(machines[place]) > 1:
            # Two machines that are alike but for their names are two all the same.
            place += f" of {record.host.name or 'an unknown machine'}"
        unscaled = _at_default(task, ("scaling",))
        work = f"{in_options(unscaled)}; {place}"
        any_batch = f"{record.scaling}: {in_options(_at_default(unscaled, ('batch', *_LENGTHS)))}; {place}"
        regimes[name] = {
            "regime": f"{record.scaling}: {work}",
            "regime_of_any_batch": any_batch,
            "work": work,
            "task": in_options(task),
            "machine": place,
        }
    return regimes


def _place(record: Record) -> str:
    """The kind of device and machine that a record was measured on."""
    # A process that holds several replicas calls its cores so many logical devices, which a curve has to join.
    device, host = "cpu" if "cpu" in record.device.lower() else record.device, record.host
    place = f"{device} on {host.cores or '?'} cores of {host.processor or 'an unknown processor'}"
    if not record.virtual:
        return place
    cores = record.virtual.cores_per_host
    return f"{place}, virtual hosts of {cores:g} cores each" if cores else f"{place}, virtual hosts"


def _pooled_tasks(records: Mapping[str, Record]) -> dict[str, Task]:
    """Of each record the task with everything at its default that may differ between launches on one plot.

    Asynchronous launches, and those over a link of a chosen bandwidth, are clocked in windows of another length, for
    reasons of their own. They stand on the plot of other ones of the same length, else of any, where there is one.
    """
    # The device that was used is in the record; the one that was asked for says less.
    ignored = ("checkpoint", "record", "data_dir", "workers", "seed", "deadline_seconds", "checkpoint_steps", "device")
    tasks = {name: _at_default(record.task, ignored) for name, record in records.items()}
    measured = [name for name, record in records.items() if record.synchronous and _is_measured(record)]
    usual = [tasks[name] for name in measured if _has_usual_link(records[name])]
    linked = [tasks[name] for name in measured if not _has_usual_link(records[name])]
    shared = [*usual, *sorted(linked, key=lambda task: task.steps, reverse=True)]
    plots = {_at_default(task, _LENGTHS): task for task in reversed(shared)} | {task: task for task in usual}
    for name, task in tasks.items():
        if not (records[name].synchronous and _has_usual_link(records[name])):
            tasks[name] = plots.get(task, plots.get(_at_default(task, _LENGTHS), task))
    return tasks


def _has_usual_link(record: Record) -> bool:
    """Whether nobody chose the bandwidth between its hosts, so that its windows are as long as everybody's."""
    return not (record.virtual and record.virtual.bandwidth_bits_per_second)


@cache
def _at_default(task: Task, names: tuple[str, ...]) -> Task:
    """`task` with these fields as its preset has them."""
    return dataclasses.replace(task, **{name: getattr(PRESETS[task.preset], name) for name in names})


def _launch(name: str, record: Record) -> dict[str, object]:
    task, result, virtual = record.task, metrics.throughput(record), record.virtual or Virtual()
    windows, link = metrics.window_seconds_per_step(record), record.link
    return {
        "launch": name,
        "strategy": record.name,
        "bare_strategy": record.strategy,
        "label": record.full_label,
        "options": record.label,
        "family": record.family,
        "framework": record.framework,
        "named_base": record.base or record.strategy,
        "compared_with": record.compared_with,
        "synchronous": record.synchronous,
        "same_maths": not record.other_maths,
        "formula": record.formula,
        "formula_source": record.formula_source,
        "formula_bytes": _number(record.formula_bytes_per_step),
        "preset": task.preset,
        "scaling": record.scaling,
        "batch": task.batch,
        "workers": record.world_size,
        "placement": record.placement,
        "hosts": max(1, len(record.hosts)),
        "virtual": record.virtual is not None,
        "bandwidth_bits_per_second": _number(virtual.bandwidth_bits_per_second),
        "delay_seconds": virtual.delay_seconds or 0.0,
        "link_bytes_per_second": link.bytes_per_second if link else math.nan,
        "round_trip_seconds": link.round_trip_seconds if link else math.nan,
        "cores": record.host.cores,
        "exchange": record.exchange,
        "global_batch": record.examples_per_step,
        "seconds": result.seconds_per_step,
        "input_seconds": _input_seconds_per_step(record),
        "samples_per_second": result.samples_per_second,
        "first_window_ratio": windows[0] / statistics.median(windows[1:]) if len(windows) > 2 else math.nan,
        "measured_seconds": sum(window.seconds for window in record.windows if window.rank == 0),
        "first_step_seconds": record.time_to_first_step_s,
        "oversubscribed": record.oversubscribed,
        "wire_bytes": _number(record.wire_bytes_per_step),
        "rank_spread": math.nan if record.exchange else _rank_spread(record),
        "peak_bytes": max(record.peak_memory_bytes, default=0),
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _input_seconds_per_step(record: Record) -> float:
    """Seconds per step that the rows were waited for, of the median window; of each the rank that waited longest.

    NaN where the strategy doesn't measure it.
    """
    longest: dict[int, float] = {}
    for window in record.windows:
        if window.input_seconds is not None:
            waited = window.input_seconds / window.steps
            longest[window.step] = max(waited, longest.get(window.step, 0.0))
    return statistics.median(longest.values()) if longest else math.nan


def _rank_spread(record: Record) -> float:
    """Slowest over median rank of the median window; NaN with one process."""
    by_window: dict[int, list[float]] = {}
    for window in record.windows:
        by_window.setdefault(window.step, []).append(window.seconds)
    if max(map(len, by_window.values())) == 1:
        return math.nan
    return statistics.median(max(seconds) / statistics.median(seconds) for seconds in by_window.values())


def _cell(group: pd.DataFrame) -> dict[str, object]:
    seconds, low, high, n = pairs.median(group["seconds"])
    first = group.iloc[0].to_dict()
    return {
        **first,
        "n": n,
        "seconds": seconds,
        "low_seconds": low,
        "high_seconds": high,
        "samples_per_second": first["global_batch"] / seconds,
        "first_step_seconds": group["first_step_seconds"].median(),
        "oversubscribed": bool(group["oversubscribed"].any()),
        "wire_bytes": group["wire_bytes"].median(),
        "link_bytes_per_second": group["link_bytes_per_second"].median(),
    }


def _base_columns(alone: _Cells, row: Mapping[str, object]) -> dict[str, object]:
    workers, speed = row["workers"], row["samples_per_second"]
    base = _one_worker(alone, row, row["named_base"])
    # Of one worker there is one placement: it is on one host.
    own = _one_worker(alone, row, name_of(row["bare_strategy"], row["options"]))
    found: dict[str, object] = {"base": base["strategy"] if base else None}
    for prefix, one in (("base_", base), ("own_", own)):
        found[f"{prefix}samples_per_second"] = one["samples_per_second"] if one else math.nan
        found[f"{prefix}n"] = one["n"] if one else 0
    found["speed_up"] = metrics.speed_up(speed, found["base_samples_per_second"])
    found["efficiency"] = metrics.efficiency(speed, found["base_samples_per_second"], workers)
    found["own_speed_up"] = metrics.speed_up(speed, found["own_samples_per_second"])
    return found


def _one_worker(alone: _Cells, row: Mapping[str, object], strategy: str) -> Mapping[str, object] | None:
    """The cell of one worker of `strategy` at the same work: from the same regime, else from the other scaling."""
    found = sorted(alone.get((row["work"], strategy), []), key=lambda cell: cell["regime"] != row["regime"])
    return found[0] if found else None
