"""Every number of the report as pandas tables, and as CSV files beside it."""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import structs

from common.files import write_atomically
from common.records import manifest
from common.records.files import to_json
from common.records.training import Record
from reports.tables import summaries
from reports.tables.material import Material, gather
from reports.tables.results import Results, read_results

_LAUNCH = {
    "regime": "all that decides what was computed, how it was measured and on what",
    "regime_of_any_batch": "the regime at the preset's own batch and lengths",
    "work": "the regime without the kind of scaling",
    "task": "the task of the regime, as options of the command line",
    "machine": "the kind of device and machine",
    "strategy": "name, with the label after a comma",
    "bare_strategy": "name without the label",
    "label": "the strategy's own options that aren't at their default, then its hosts and link where there are several",
    "options": "the strategy's own options that aren't at their default",
    "placement": "its hosts and the link that was chosen; empty on one host",
    "hosts": "how many hosts its workers are on",
    "virtual": "whether hosts are virtual ones of one machine",
    "bandwidth_bits_per_second": "of the links of virtual hosts, where it was chosen",
    "delay_seconds": "from a virtual host to another, as it was chosen",
    "link_bytes_per_second": "payload from one host to another, measured before the launch",
    "framework": "what computes",
    "named_base": "the undistributed base that the strategy names, or itself",
    "preset": "name of the preset",
    "scaling": "weak or strong",
    "batch": "rows per step of each worker (weak) or of all of them (strong)",
    "workers": "processes, or replicas in one process",
    "exchange": "whether gradients were exchanged",
    "synchronous": "whether every step sees every worker's gradients",
    "same_maths": "whether no option changes the maths on purpose",
    "global_batch": "rows per step, of all workers",
    "formula_bytes": "bytes that all processes send in a step by formula, or those from host to host over several",
    "formula": "that formula in words, for N workers and H hosts",
    "formula_source": "the paper or document that has it",
    "samples_per_second": "rows of all workers per second",
    "first_step_seconds": "from the start of the process to the end of its first step",
    "oversubscribed": "whether there were more threads than cores",
    "processes_beside": "processes beside the workers, such as servers, of which each takes a core as a worker does",
    "wire_bytes": "bytes that all processes sent in a step, measured, or those from host to host over several",
    "window_steps": "steps per clocked window",
}

COLUMNS: dict[str, dict[str, str]] = {
    "launches": {
        "launch": "stem of the record's file",
        **_LAUNCH,
        "family": "what the strategy's folder calls itself",
        "compared_with": "by relation, the name of another strategy (JSON)",
        "cores": "cores of the machine",
        "seconds": "per step, of the median window; the slowest rank of each counts",
        "input_seconds": "per step, that the rank which waited longest waited for its rows",
        "first_window_ratio": "the first window's time per step over the median of the others",
        "measured_seconds": "clocked by rank 0, all windows together",
        "processes": "processes that clocked windows",
        "rank_spread": "slowest over median rank, of the median window, without exchange",
        "peak_bytes": "largest resident memory of a process",
    },
    "windows": {
        "launch": "stem of the record's file",
        "strategy": "name, with the label after a comma",
        "workers": "processes, or replicas in one process",
        "exchange": "whether gradients were exchanged",
        "rank": "of the process that clocked it",
        "step": "its first step",
        "steps": "how many steps it has",
        "started_seconds": "when its clock started, since the start of the rank's process",
        "seconds": "of the whole window",
        "input_seconds": "those of them that the rank waited for its rows",
        "core_seconds": "the time around the window, times the cores that the rank may run on",
        "steal_seconds": "those core seconds that the hypervisor gave to other machines",
        "busy_seconds": "those core seconds that processes ran",
        "own_seconds": "the processor time of all threads of the rank's process",
        "involuntary_switches": "how often the kernel took a core from one of the rank's threads",
        "spin_seconds": "what a fixed piece of work took, the mean of before and after",
        "clock_megahertz": "mean rate of the rank's cores at the end",
    },
    "cells": {
        **_LAUNCH,
        "n": "launches",
        "seconds": "per step, the median over launches",
        "low_seconds": "lower end of its 95 % order-statistic interval; empty below six launches",
        "high_seconds": "its upper end",
        "base": "the undistributed base where it was measured",
        "base_samples_per_second": "of one worker of that base, at the same work",
        "base_n": "launches of that",
        "own_samples_per_second": "of one worker of the strategy itself, at the same work",
        "own_n": "launches of that",
        "speed_up": "samples per second over the base's",
        "efficiency": "speed-up per worker",
        "own_speed_up": "samples per second over one worker's of the strategy itself",
    },
    "comparisons": {
        "regime": _LAUNCH["regime"],
        **{name: _LAUNCH[name] for name in ("workers", "hosts", "placement")},
        "strategy": "the one with the larger mean log rate, with its label",
        "rate": "samples per second of its median launch",
        "other": "the one that it is compared with",
        "other_rate": "samples per second of the other's median launch",
        "n": "rounds that both share",
        "ratio": "how many times the other's samples per second: geometric mean over rounds",
        "low": "lower end of the simultaneous 95 % interval of the ratio",
        "high": "its upper end",
        "p": "of the paired t test, Holm's correction applied",
        "verdict": "faster, alike, or can't tell",
        "fewest": "rounds that would narrow the interval to the margin, at the least",
        "most": "and at the most; inf: more than are looked at",
        "rounds": "numbers of the shared rounds (JSON)",
        "logs": "log ratio in each of them (JSON)",
    },
    "exposed": {
        **{name: _LAUNCH[name] for name in ("regime", "strategy", "bare_strategy", "placement", "workers")},
        **{name: _LAUNCH[name] for name in ("wire_bytes", "formula_bytes", "formula", "formula_source")},
        "step_seconds": "per step with exchange (T_step), the median over launches",
        "step_n": "launches of that",
        "compute_seconds": "per step without exchange (T_comp), the median over launches",
        "compute_n": "launches of that",
        "exposed_seconds": "exposed communication per step: median difference within rounds",
        "exposed_n": "pairs of launches of the same round",
        "exposed_low": "lower end of its 95 % order-statistic interval; empty below six pairs",
        "exposed_high": "its upper end",
    },
    "parts": {
        **{name: _LAUNCH[name] for name in ("regime", "strategy", "placement", "hosts", "bandwidth_bits_per_second")},
        **{name: _LAUNCH[name] for name in ("link_bytes_per_second", "workers", "oversubscribed")},
        "ideal_seconds": "of a step if N workers were N times as fast as the base",
        "measured_seconds": "of a step, the median over launches",
        "measured_low": "lower end of its 95 % order-statistic interval; empty below six launches",
        "measured_high": "its upper end",
        "measured_n": "launches of that",
        "part": "what of the step it is, beyond the ideal",
        "seconds": "per step, the median over rounds; all parts and the ideal add up to the measured step",
        "low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "high": "its upper end",
        "n": "rounds",
        "is_paired": "whether the base has launches in these rounds",
    },
    "paying": {
        **{name: _LAUNCH[name] for name in ("regime", "regime_of_any_batch", "strategy", "placement", "hosts")},
        **{name: _LAUNCH[name] for name in ("workers", "oversubscribed")},
        "batch": "rows per step of each worker (B)",
        "base": "the undistributed base",
        "rows": "of the training set (N); empty where it isn't to be had",
        "epoch_seconds": "of all those rows by all workers, by the median launch",
        "base_epoch_seconds": "the same by one worker of the base",
        "ratio": "the base's epoch over that of all workers: median over rounds",
        "low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "high": "its upper end",
        "n": "rounds that have launches of both",
        "measured": "surely pays, surely doesn't, can't tell, too few rounds, or no shared round",
        "base_seconds": "of a step of the base (T_comp(1)), the median over launches",
        "compute_seconds": "of a step without exchange (T_comp(R)), the median over launches",
        "contention": "the second over the first: median over rounds",
        "contention_low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "contention_high": "its upper end",
        "contention_n": "rounds that have launches of both",
        "sync_seconds": "exposed communication per step (T_sync): median difference within rounds",
        "sync_low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "sync_high": "its upper end",
        "sync_n": "rounds with a launch with exchange and one without",
        "sync_share": "T_sync over T_comp(R)",
        "formula": "pays where that is below R - 1, else doesn't pay",
        "with_contention": "pays where it is below R over contention, less 1, else doesn't pay",
        "fewest_batch": "rows per worker from which on it would pay, extrapolated; inf: from none",
    },
    "exchanges": {
        **{name: _LAUNCH[name] for name in ("regime", "strategy", "workers", "oversubscribed")},
        "library": "what carried the messages of a step in its replay",
        "source": "what told these messages",
        "fewest_messages": "of a step, in the replay that had fewest",
        "most_messages": "in the one that had most",
        "size_bytes": "of the messages of a step together, the median over replays",
        "sent_bytes": "that all ranks sent in a replayed step, packet headers included, the median over replays",
        "step_sent_bytes": "the same in a whole step",
        "replay_seconds": "that they take alone, the median over launches",
        "replay_low": "lower end of its 95 % order-statistic interval; empty below six launches",
        "replay_high": "its upper end",
        "replay_n": "launches",
        "exposed_seconds": "exposed communication per step: median difference within rounds",
        "exposed_low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "exposed_high": "its upper end",
        "exposed_n": "rounds with a launch with exchange and one without",
        "leftover_seconds": "exposed communication less the replay of the same round: median over rounds",
        "leftover_low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "leftover_high": "its upper end",
        "leftover_n": "rounds that have all three",
        "under_way_seconds": "that at least one message was under way in a traced step; empty where no tracer tells",
        "under_way_steps": "traced steps",
        "verdict": "contention, overlap, can't tell, too few rounds, or no shared round",
        "replays": "stems of the replays' records (JSON)",
    },
    "hosts": {
        "launch": "stem of the record's file",
        **{name: _LAUNCH[name] for name in ("regime", "strategy", "placement", "hosts", "workers", "exchange")},
        **{name: _LAUNCH[name] for name in ("virtual", "bandwidth_bits_per_second", "delay_seconds")},
        "link_bytes_per_second": _LAUNCH["link_bytes_per_second"],
        "round_trip_seconds": "the shortest of many small messages there and back, measured before the launch",
        "host": "name of the host",
        "host_workers": "workers that it had",
        "cores": "cores that they could use",
        "processor": "its processor",
        "address": "by which the others reach it",
        "interface": "its network interface to them",
        "clock_offset_seconds": "by how much its clock that counts from boot was ahead, before the launch",
        "clock_uncertainty_seconds": "at most so far from that, either way",
        "sent_bytes": "that it sent to the others in a step, packet headers included",
        "formula_bytes": "bytes that all hosts together send to others in a step, by formula",
        "windows": "clocked windows of the launch of which ranks on several hosts tell when they were",
        "started_last": "those of them that surely a rank on this host started last",
        "finished_last": "those of them that surely a rank on this host finished last",
        "skew_seconds": "how much later a window's last rank started than its first, median over windows",
        "skew_uncertainty_seconds": "how far that may be wrong: the uncertainty of two clocks",
    },
    "bandwidths": {
        **{name: _LAUNCH[name] for name in ("regime", "strategy", "bare_strategy", "hosts", "workers")},
        "delay_seconds": _LAUNCH["delay_seconds"],
        "n": "launches",
        "seconds": "per step, the median over launches",
        "low_seconds": "lower end of its 95 % order-statistic interval; empty below six launches",
        "high_seconds": "its upper end",
        **{name: _LAUNCH[name] for name in ("samples_per_second", "global_batch", "same_maths", "synchronous")},
        "oversubscribed": _LAUNCH["oversubscribed"],
        "base": "the undistributed base where it was measured",
        "base_samples_per_second": "of one worker of that base, at the same work",
        "base_n": "launches of that",
        "own": "the strategy with its own options, whatever its hosts",
        "bandwidth_bits_per_second": "of the links: as chosen, else as calibration found it on the wire",
        "is_chosen": "whether it was chosen",
        "bound_seconds": "that the link needs at least for a ring all-reduce of the gradients",
        "base_seconds": "of that base's step with the rows of one worker",
        "ratio": "samples per second over the base's: median over rounds",
        "low": "lower end of its 95 % order-statistic interval; empty below six rounds",
        "high": "its upper end",
        "rounds": "that have launches of both",
    },
    "ceilings": {
        **{name: _LAUNCH[name] for name in ("regime", "preset", "strategy", "workers")},
        "family": "what the strategy's folder calls itself",
        "framework": "what computes",
        "backend": "what carried the tensors",
        "rows": "of one worker's step",
        "is_base": "whether the strategy distributes nothing",
        "n": "launches",
        "step_seconds": "per step without exchange, the median over launches",
        "products_seconds": "of one worker's step that the framework's own products take, by its probe",
        "exchange_seconds": "of one all-reduce as large as the gradients, by the probe over the same transport",
        "exposed_seconds": "exposed communication per step: median difference within rounds",
    },
    "deviations": {
        "launch": "stem of the record's file",
        "strategy": _LAUNCH["strategy"],
        "without_hosts": "the strategy with its own options, whatever its hosts",
        **{name: _LAUNCH[name] for name in ("hosts", "workers", "exchange", "preset", "scaling")},
        "maths": "what of the task decides the maths, as options of the command line",
        "global_batch": _LAUNCH["global_batch"],
        "seed": "of the initial weights and of the order of the rows",
        "first_step": "the step that the run began with",
        "other_maths": "names of the options that change the maths on purpose",
        "verdict": "follows, follows up to a kink, deviates, other maths, asynchronous, or not compared",
        "followed_up_to": "the step of the kink after which it left the oracle",
        "note": "why it wasn't compared, or what its deviation starts at",
        "loss": "largest relative deviation of a loss from the float64 oracle's",
        "shard": "the same of any shard's loss",
        "weights": "norm of the final weights' difference over the norm",
        "examples": "rows that were counted",
        "expected_examples": "rows that the steps have",
    },
    "accuracies": {
        **{name: _LAUNCH[name] for name in ("preset", "strategy", "workers", "global_batch")},
        "seed": "of the initial weights and of the order of the rows",
        "steps": "steps of the task",
        "n": "launches",
        "accuracy": "test accuracy after the last step, median over launches, 0 to 1",
        "lowest": "the lowest of them",
        "looked": "launches that looked at the accuracy on the way",
        "reached": "those of them that reached the preset's target",
        "target_seconds": "clocked training until they did, median",
    },
    "startups": {
        **{name: _LAUNCH[name] for name in ("strategy", "workers")},
        "n": "launches",
        "whole": "seconds from the start of the process to the end of its first step, median",
        "imports": "those seconds up to the end of the script's imports, median",
        "world": "those that joining the world took, median",
        "first_step": "the rest: rows, model, compiling or tracing it, and the step, median",
        "imports_processor": "processor time of that rank's process until the end of the imports, median",
        "world_processor": "the same while it joined the world, median",
        "first_step_processor": "the same in the rest, median",
    },
    "memory": {
        **{name: _LAUNCH[name] for name in ("regime", "workers", "strategy")},
        "reference": "the strategy whose every process holds all that this one shards",
        "n": "launches",
        "parameters": "bytes in the process that holds most, median",
        "gradients": "bytes in that process, median",
        "optimizer_state": "bytes in that process, median",
        "held": "those three together, median",
        "above_import": "bytes that the largest process rose above what it had before the data came, median",
        "device_peak": "bytes at most on a GPU, median",
        "reference_n": "launches of the reference",
        "reference_held": "bytes that the reference holds, median",
        "reference_peak": "the reference's peak, bytes",
        "peak": "device_peak where both have one, else above_import",
        "held_factor": "held over the reference's",
        "peak_factor": "peak over the reference's",
    },
    "endings": {
        "launch": "stem of the record's file, or name in the plan",
        **{name: _LAUNCH[name] for name in ("strategy", "bare_strategy", "preset", "scaling", "workers")},
        "ending": "ok, unsupported, failed, or not run",
        "reason": "why it isn't ok",
        "log": "name of its log file",
        "for_speed": "whether its measurement belongs, or would have belonged, to the throughput",
        "task": _LAUNCH["task"],
        "planned": "whether the plan has it",
    },
    "disturbances": {
        "launch": "stem of the record's file",
        "part": "stage of the comparison",
        "round": "its round there",
        "windows": "windows of all ranks",
        "disturbed_windows": "those of them that were disturbed",
        "disturbed": "whether the launch was",
        "steal": "share of its cores' time that the hypervisor took, of the rank that lost most",
        "others": "share that other processes took, at least",
        "slowness": "how much longer its spin took than usual, as a share",
        "slower_clock": "how much slower its clock was than usual, as a share",
        "switches": "involuntary context switches per second and process",
        "spin_seconds": "what a fixed piece of work took, median over windows",
        "megahertz": "clock rate, median over windows",
    },
}
"""By table what each of its columns is. Times are seconds, rates per second, memory and traffic bytes."""


@dataclass(frozen=True)
class Tables:
    """The numbers of a results folder; `COLUMNS` says what each column is, NaN that there is no such number."""

    launches: pd.DataFrame
    """One row for each launch that counts for the throughput."""
    windows: pd.DataFrame
    """One row for each clocked window of each rank of any launch, with what else happened around it."""
    cells: pd.DataFrame
    """One row for each regime, strategy, number of workers, with and without exchange: medians over launches."""
    comparisons: pd.DataFrame
    """One row for each two strategies of a regime and number of workers: the test of their pairs within rounds."""
    exposed: pd.DataFrame
    """One row for each cell whose communication was told apart: T_step, T_comp, exposed communication, bytes sent."""
    parts: pd.DataFrame
    """One row for each part of the step of each cell, from the ideal step to the measured one."""
    paying: pd.DataFrame
    """One row for each strategy and number of workers under weak scaling: whether synchronous SGD pays, measured and by
    the tutorials' formula."""
    exchanges: pd.DataFrame
    """One row for each strategy and number of workers whose step's messages were replayed alone."""
    hosts: pd.DataFrame
    """One row for each host of each launch that names any: the link, the clocks, bytes sent, and who was last."""
    bandwidths: pd.DataFrame
    """One row for each cell over virtual hosts whose links had several bandwidths, beside one host and a bound."""
    ceilings: pd.DataFrame
    """One row for each base, and each strategy without exchange, whose framework was probed."""
    deviations: pd.DataFrame
    """One row for each launch that ended ok: how far it is from the float64 oracle."""
    accuracies: pd.DataFrame
    """One row for each strategy, number of workers and task on real data: accuracy and time to the target."""
    startups: pd.DataFrame
    """One row for each strategy and number of workers: the time to the first step and its parts, medians."""
    memory: pd.DataFrame
    """One row for each cell whose records tell of memory: what the processes hold."""
    endings: pd.DataFrame
    """One row for each launch that was planned or recorded: how it ended."""
    disturbances: pd.DataFrame
    """One row for each launch that tells what else happened on its cores."""


def load(folder: str | Path) -> Tables:
    """The tables of the records in `folder`, as the report on them has them.

    Runs the oracle for the deviations, which takes seconds. Raises UserError where `folder` can't be reported on.
    """
    results = read_results(Path(folder))
    for sentence in manifest.in_words(results.differences):
        warnings.warn(sentence, stacklevel=3)
    return of(results, gather(results))


def of(results: Results, material: Material) -> Tables:
    """The tables of `results`, from what `reports.tables.material.gather` made of them."""
    tables = {
        "launches": material.launches,
        "windows": _windows(results.records),
        "cells": material.cells,
        "comparisons": material.ranking.comparisons,
        "exposed": material.split,
        "parts": material.scaling,
        "paying": material.paying,
        "exchanges": material.exchanges,
        "hosts": material.hosts,
        "bandwidths": material.bandwidths,
        "ceilings": material.ceilings,
        "deviations": _deviations(material),
        "accuracies": summaries.accuracies(results.records),
        "startups": _startups(material.startups, results.records),
        "memory": material.memory,
        "endings": material.endings,
        "disturbances": material.disturbances,
    }
    return Tables(**{name: _with_all_columns(name, table) for name, table in tables.items()})


def folder_beside(document: Path) -> Path:
    """Where the tables of a report lie: `comparison-tables` beside `comparison.pdf`."""
    return document.with_name(f"{document.stem}-tables")


def write(folder: Path, tables: Tables) -> None:
    """Write each table to a CSV file of its name, and what their columns are to `columns.csv`.

    Numbers are written with all their digits, lists as JSON, what doesn't exist as nothing: the same bytes for the same
    records. Raises UserError for a file that can't be written.
    """
    meanings = [(table, column, text) for table, columns in COLUMNS.items() for column, text in columns.items()]
    written = {each.name: getattr(tables, each.name) for each in dataclasses.fields(tables)}
    written["columns"] = pd.DataFrame(meanings, columns=["table", "column", "meaning"])
    for name, table in written.items():
        write_atomically(folder / f"{name}.csv", table.map(_in_a_field).to_csv(index=False).encode())


def _with_all_columns(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """`table` with its columns in the order of `COLUMNS`, even where it has no rows to have them of; others follow."""
    return table.reindex(columns=[*dict.fromkeys([*COLUMNS[name], *table.columns])])


def _windows(records: Mapping[str, Record]) -> pd.DataFrame:
    rows = [
        {"launch": launch, "strategy": record.name, "workers": record.world_size, "exchange": record.exchange}
        | to_json(window)
        for launch, record in records.items()
        for window in record.windows
    ]
    return pd.DataFrame(rows)


def _startups(table: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """`table` with the medians of the processor time in each part of the start-up, where records tell it."""
    told = [
        {"strategy": record.name, "workers": record.world_size}
        | {f"{part}_processor": seconds for part, seconds in structs.asdict(record.startup_processor_seconds).items()}
        for record in records.values()
        if record.status == "ok" and record.startup_processor_seconds
    ]
    if not told:
        return table
    medians = pd.DataFrame(told).groupby(["strategy", "workers"]).median()
    return table.join(medians, on=["strategy", "workers"])


def _deviations(material: Material) -> pd.DataFrame:
    rows = []
    for comparison in [*material.comparisons, *material.without_exchange]:
        values = {each.name: getattr(comparison, each.name) for each in dataclasses.fields(comparison)}
        rows.append({name: value for name, value in values.items() if not isinstance(value, np.ndarray)})
    return pd.DataFrame(rows)


def _in_a_field(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict | tuple) else value
