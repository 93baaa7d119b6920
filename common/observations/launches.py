"""Training launches as rows and as observations: which may be pooled, and what each of them measured.

A launch is one record. A regime is what decides what was computed, how it was measured and on what, so that no curve
ever joins weak and strong scaling, two presets, two tasks, or virtual hosts and real ones. A strategy's own options are
no part of a regime, and nor is over how many hosts, and which link, its workers are spread: its label names those
options that aren't at their default, then its hosts where there are several, and a strategy with a label is a curve of
its own.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pandas as pd

from common.contract.task import PRESETS, Task
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Options
from common.records import metrics
from common.records.header import Virtual
from common.records.training import Record

NAMES = {"subject": "regime", "world": "placement", "x": "workers", "series": "strategy"}
"""By the columns of an observation those of launches."""

CONFIGURATION = [*NAMES.values()]
"""What is never pooled with another."""

WITHOUT_EXCHANGE = "without exchange"
"""The part of a step that launches without gradient exchange measure, T_comp."""

_MEASURES = ["seconds", "seconds_per_row", "input_seconds", "rank_spread"]

_LENGTHS = ("steps", "warmup_steps", "window_steps")
"""The fields of a task that are chosen by how long a step takes."""


def rows(records: Mapping[str, Record]) -> Iterator[dict[str, object]]:
    """One row for each measured launch, by the stem of its file: what it is, and what its windows say.

    Measured is each `ok` record with windows that didn't stop on the way to save checkpoints (`--checkpoint-steps`):
    such stops cool caches between windows. Times are seconds. `wire_bytes` are per step of the whole launch, or from
    host to host where it had several. Raises UserError for a damaged task.
    """
    regime_of = regimes(records)
    yield from (_row(name, record) | regime_of[name] for name, record in records.items() if _is_measured(record))


def observed(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """The launches of a table with the columns of `rows` as observations, with the rounds of a comparison's plan.

    Measures are `seconds` and `input_seconds` per step, `seconds_per_row` of all workers, and `rank_spread`. Those
    without gradient exchange are of the part `WITHOUT_EXCHANGE`.
    """
    table = launch_table.assign(
        round=rounds(launch_table, plan),
        part=np.where(launch_table["exchange"], "", WITHOUT_EXCHANGE),
        seconds_per_row=1 / launch_table["samples_per_second"],
    )
    about = [*NAMES.values(), "round", "launch", "part", "oversubscribed"]
    values = table.melt(about, _MEASURES, "measure", "value").dropna(subset=["value"])
    return values.rename(columns={name: each for each, name in NAMES.items()}).assign(low=math.nan, high=math.nan)


def rounds(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.Series:
    """The round of each launch: the plan's, else its place, from 1, among its equals in their names' order.

    A launch that the plan doesn't name has a round of its own, below zero.
    """
    if plan is None:
        return launch_table.groupby([*CONFIGURATION, "exchange"]).cumcount() + 1
    planned = launch_table["launch"].map(dict(zip(plan["launch"].astype(str), plan["repetition"], strict=True)))
    return planned.fillna(pd.Series(-1 - np.arange(len(planned)), planned.index)).astype(int)


def in_rounds(observed: pd.DataFrame) -> pd.DataFrame:
    """The observations of launches that the plan names."""
    return observed[observed["round"] >= 0]


@cache
def in_options(task: Task) -> str:
    """The task as options of the command line: what differs from its preset."""
    return " ".join(to_arguments(task, Options()))


def regimes(records: Mapping[str, Record]) -> dict[str, dict[str, str]]:
    """The regime of each record, the same at any batch, its work at any scaling, its task as options, and its machine.

    With one worker weak and strong scaling are the same work, so a base may come from either.
    """
    kinds = {name: _machine_kind(record) for name, record in records.items()}
    machines: dict[str, set[str]] = {}
    for name, kind in kinds.items():
        machines.setdefault(kind, set()).add(records[name].host.name)
    regimes = {}
    for name, task in _pooled_tasks(records).items():
        record, kind = records[name], kinds[name]
        if len(machines[kind]) > 1:
            # Two machines that are alike but for their names are two all the same.
            kind += f" of {record.host.name or 'an unknown machine'}"
        unscaled = _at_default(task, ("scaling",))
        work = f"{in_options(unscaled)}; {kind}"
        any_batch = f"{record.scaling}: {in_options(_at_default(unscaled, ('batch', *_LENGTHS)))}; {kind}"
        regimes[name] = {
            "regime": f"{record.scaling}: {work}",
            "regime_of_any_batch": any_batch,
            "work": work,
            "task": in_options(task),
            "machine": kind,
        }
    return regimes


def _is_measured(record: Record) -> bool:
    return record.status == "ok" and bool(record.windows) and not record.task.checkpoint_steps


def _machine_kind(record: Record) -> str:
    """The kind of device and machine that a record was measured on."""
    # A process that holds several replicas calls its cores so many logical devices, which a curve has to join.
    device, host = "cpu" if "cpu" in record.device.lower() else record.device, record.host
    kind = f"{device} on {host.cores or '?'} cores of {host.processor or 'an unknown processor'}"
    if not record.virtual:
        return kind
    cores = record.virtual.cores_per_host
    return f"{kind}, virtual hosts of {cores:g} cores each" if cores else f"{kind}, virtual hosts"


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


def _row(name: str, record: Record) -> dict[str, object]:
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
