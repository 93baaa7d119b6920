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
from common.records.files import to_json
from common.records.header import Virtual
from common.records.training import Record
from common.statistics.intervals import median_interval
from reports.tables import columns

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
    return columns.table(
        "windows",
        (
            {"launch": launch, "strategy": record.name, "workers": record.world_size, "exchange": record.exchange}
            | to_json(window)
            for launch, record in records.items()
            for window in record.windows
        ),
    )


@cache
def in_options(task: Task) -> str:
    """The task as options of the command line: what differs from its preset."""
    return " ".join(to_arguments(task, Options()))


def cells(launch_table: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: n, median seconds per step with its interval (NaN below six launches), and both speed-ups.

    `speed_up` and `efficiency` are over the undistributed base that the strategy names (`named_base`; `base` where it
    was measured), `own_speed_up` over one worker of the strategy; each comes with the base's samples per second and n,
    and is NaN where that base wasn't measured.
    """
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
        is_own = first["batch"] == batch_of(first["preset"])
        order[name] = (first["scaling"] != "weak", not is_own, -group["workers"].nunique(), -len(group), name)
    return sorted(order, key=order.__getitem__)


def with_exchange(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    """The rows of one regime, of `cells` or `launches`, with exchange."""
    return table[(table["regime"] == regime) & table["exchange"]]


def batch_of(preset: str) -> int | None:
    """The batch of a preset; None of one that this version doesn't know."""
    return PRESETS[preset].batch if preset in PRESETS else None


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
    rows = []
    for record in records.values():
        if record.status == "ok" and record.startup_seconds:
            processor = record.startup_processor_seconds
            parts = structs.asdict(processor) if processor else {}
            rows.append(
                {"strategy": record.name, "workers": record.world_size, "whole": record.time_to_first_step_s}
                | structs.asdict(record.startup_seconds)
                | {f"{part}_processor": seconds for part, seconds in parts.items()}
            )
    keys, merged = ["strategy", "workers"], []
    for key, group in pd.DataFrame(rows).groupby(keys) if rows else ():
        medians = group.drop(columns=keys).median().to_dict()
        merged.append(dict(zip(keys, key, strict=True)) | {"n": len(group)} | medians)
    return columns.table("startups", merged)


def accuracies(records: Mapping[str, Record]) -> pd.DataFrame:
    """Test accuracy reached on real data, and seconds of clocked training until the preset's target.

    `target_seconds` is the median over the launches that looked at the accuracy on the way (`looked`) and reached the
    target (`reached`), NaN where none did.
    """
    rows = []
    for record in records.values():
        if record.status == "ok" and record.accuracies and record.task.preset in ACCURACY_TARGETS:
            rows.append(_accuracy(record))
    keys, merged = ["preset", "strategy", "workers", "global_batch", "seed", "steps"], []
    for key, group in pd.DataFrame(rows).groupby(keys) if rows else ():
        numbers = {
            "n": len(group),
            "accuracy": group["accuracy"].median(),
            "lowest": group["accuracy"].min(),
            "looked": int(group["looked"].sum()),
            "reached": int(group["target_seconds"].notna().sum()),
            "target_seconds": group["target_seconds"].median(),
        }
        merged.append(dict(zip(keys, key, strict=True)) | numbers)
    return columns.table("accuracies", merged)


def endings(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """How every planned or recorded launch ended: its name, strategy, workers, `ending`, reason and log.

    `for_speed` says whether its measurement belongs, or would have belonged, to the throughput tables; `task` is that
    of its regime, empty for a launch that hasn't run.
    """
    rows, regimes = [], _regimes(records)
    planned = {} if plan is None else {str(row["launch"]): row for row in plan.to_dict("records")}
    for name in sorted(planned | records):
        record, row = records.get(name), planned.get(name)
        about = _planned(row) if record is None else _ended(record) | {"task": regimes[name]["task"]}
        rows.append({"launch": name, **about, "planned": name in planned})
    return columns.table("endings", rows)


def _planned(row: Mapping[str, object]) -> dict[str, object]:
    name = name_of(str(row["strategy"]), ", ".join(filter(None, [str(row["label"]), _planned_placement(row)])))
    for_speed = bool(row["exchange"]) and row["purpose"] != "certificate"
    return {
        **{"strategy": name, "bare_strategy": row["strategy"], "preset": row["preset"], "scaling": row["scaling"]},
        **{"workers": row["workers"], "ending": "not run", "reason": "", "log": "", "for_speed": for_speed, "task": ""},
    }


def _planned_placement(row: Mapping[str, object]) -> str:
    """As the records of a planned launch will have it, as far as the plan tells: older ones name no hosts."""
    hosts, bandwidth = int(row.get("hosts", 1)), row.get("bandwidth_bits_per_second") or math.nan
    link = "" if math.isnan(float(bandwidth)) else f", {float(bandwidth) / 1e6:g} Mbit/s"
    return f"{hosts} hosts{link}" if hosts > 1 else ""


def _ended(record: Record) -> dict[str, object]:
    task = record.task
    return {
        **{"strategy": record.name, "bare_strategy": record.strategy, "preset": task.preset},
        **{"scaling": record.scaling, "workers": record.world_size, "ending": record.status},
        **{"reason": record.reason or "", "log": record.log or ""},
        "for_speed": record.exchange and not task.checkpoint_steps,
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
    cores, processor = host.cores or "?", host.processor or "an unknown processor"
    return f"{device} on {cores} cores of {processor}{_virtual(record)}"


def _virtual(record: Record) -> str:
    """What a machine is called beyond its processor where hosts on it are virtual."""
    if not record.virtual:
        return ""
    cores = record.virtual.cores_per_host
    return f", virtual hosts of {cores:g} cores each" if cores else ", virtual hosts"


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
    result = metrics.throughput(record)
    windows = metrics.window_seconds_per_step(record)
    return {
        **{"launch": name, **_declared(record)},
        "preset": record.task.preset,
        "scaling": record.scaling,
        "batch": record.task.batch,
        "workers": record.world_size,
        **_placed(record),
        "cores": record.host.cores,
        "exchange": record.exchange,
        "global_batch": record.examples_per_step,
        "seconds": result.seconds_per_step,
        "input_seconds": _input_seconds_per_step(record),
        "samples_per_second": result.samples_per_second,
        "window_steps": record.task.window_steps,
        "first_window_ratio": windows[0] / statistics.median(windows[1:]) if len(windows) > 2 else float("nan"),
        "measured_seconds": _measured_seconds(record),
        "first_step_seconds": record.time_to_first_step_s,
        "oversubscribed": record.oversubscribed,
        "processes_beside": record.processes_beside,
        "wire_bytes": float("nan") if record.wire_bytes_per_step is None else record.wire_bytes_per_step,
        "rank_spread": float("nan") if record.exchange else _rank_spread(record),
        "peak_bytes": max(record.peak_memory_bytes, default=0),
    }


def _declared(record: Record) -> dict[str, object]:
    """What a record has from the declaration of its strategy, not from the launch."""
    formula_bytes = record.formula_bytes_per_step
    return {
        **{"strategy": record.name, "bare_strategy": record.strategy, "label": record.full_label},
        "options": record.label,
        **{"family": record.family, "framework": record.framework, "named_base": record.base or record.strategy},
        **{"compared_with": record.compared_with, "synchronous": record.synchronous},
        **{"same_maths": not record.other_maths, "formula": record.formula, "formula_source": record.formula_source},
        "formula_bytes": float("nan") if formula_bytes is None else formula_bytes,
    }


def _placed(record: Record) -> dict[str, object]:
    """Where the workers are, and what is between them."""
    virtual = record.virtual or Virtual()
    bandwidth = virtual.bandwidth_bits_per_second
    return {
        **{"placement": record.placement, "hosts": max(1, len(record.hosts)), "virtual": record.virtual is not None},
        "bandwidth_bits_per_second": math.nan if bandwidth is None else bandwidth,
        "delay_seconds": virtual.delay_seconds or 0.0,
        "link_bytes_per_second": record.link.bytes_per_second if record.link else math.nan,
    }


def _input_seconds_per_step(record: Record) -> float:
    """Seconds per step that the rows were waited for, of the median window; of each the rank that waited longest.

    NaN where the strategy doesn't measure it.
    """
    longest: dict[int, float] = {}
    for window in record.windows:
        if window.input_seconds is not None:
            waited = window.input_seconds / window.steps
            longest[window.step] = max(waited, longest.get(window.step, 0.0))
    return statistics.median(longest.values()) if longest else float("nan")


def _measured_seconds(record: Record) -> float:
    return sum(window.seconds for window in record.windows if window.rank == 0)


def _rank_spread(record: Record) -> float:
    """Slowest over median rank of the median window; NaN with one process."""
    by_window: dict[int, list[float]] = {}
    for window in record.windows:
        by_window.setdefault(window.step, []).append(window.seconds)
    if max(map(len, by_window.values())) == 1:
        return float("nan")
    return statistics.median(max(seconds) / statistics.median(seconds) for seconds in by_window.values())


def _cell(group: pd.DataFrame) -> dict[str, object]:
    interval = median_interval(group["seconds"].tolist())
    first = group.iloc[0].to_dict()
    return {
        **first,
        "n": interval.n,
        "seconds": interval.median,
        "low_seconds": float("nan") if interval.low is None else interval.low,
        "high_seconds": float("nan") if interval.high is None else interval.high,
        "samples_per_second": first["global_batch"] / interval.median,
        "first_step_seconds": group["first_step_seconds"].median(),
        "oversubscribed": bool(group["oversubscribed"].any()),
        "processes_beside": int(group["processes_beside"].max()),
        "wire_bytes": group["wire_bytes"].median(),
        "link_bytes_per_second": group["link_bytes_per_second"].median(),
        "window_steps": " or ".join(str(steps) for steps in sorted(group["window_steps"].unique())),
    }


def _base_columns(alone: _Cells, row: Mapping[str, object]) -> dict[str, object]:
    workers, speed = row["workers"], row["samples_per_second"]
    base = _one_worker(alone, row, row["named_base"])
    # Of one worker there is one placement: it is on one host.
    own = _one_worker(alone, row, name_of(row["bare_strategy"], row["options"]))
    found: dict[str, object] = {"base": base["strategy"] if base else None}
    for prefix, one in (("base_", base), ("own_", own)):
        found[f"{prefix}samples_per_second"] = one["samples_per_second"] if one else float("nan")
        found[f"{prefix}n"] = one["n"] if one else 0
    found["speed_up"] = metrics.speed_up(speed, found["base_samples_per_second"])
    found["efficiency"] = metrics.efficiency(speed, found["base_samples_per_second"], workers)
    found["own_speed_up"] = metrics.speed_up(speed, found["own_samples_per_second"])
    return found


def _one_worker(alone: _Cells, row: Mapping[str, object], strategy: str) -> Mapping[str, object] | None:
    """The cell of one worker of `strategy` at the same work: from the same regime, else from the other scaling."""
    found = sorted(alone.get((row["work"], strategy), []), key=lambda cell: cell["regime"] != row["regime"])
    return found[0] if found else None


def _accuracy(record: Record) -> dict[str, object]:
    target = ACCURACY_TARGETS[record.task.preset]
    reached = [each.training_seconds for each in record.accuracies if each.accuracy >= target]
    looked = len(record.accuracies) > 1
    return {
        "preset": record.task.preset,
        "strategy": record.name,
        "workers": record.world_size,
        "global_batch": record.examples_per_step,
        "seed": record.task.seed,
        "steps": record.task.steps,
        "accuracy": record.final_accuracy,
        "looked": looked,
        "target_seconds": reached[0] if reached and looked else float("nan"),
    }
