"""What each column of each table of numbers is: `load()` gives them, and each is a CSV file beside the report."""

from collections.abc import Iterable, Mapping

import pandas as pd

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
    "wire_bytes": "bytes that all processes sent in a step, measured, or those from host to host over several",
}


def _launch(*names: str) -> dict[str, str]:
    return {name: _LAUNCH[name] for name in names}


def _interval(low: str, high: str, of: str) -> dict[str, str]:
    return {low: f"lower end of its 95 % order-statistic interval; empty below six {of}", high: "its upper end"}


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
        "rank_spread": "slowest over median rank, of the median window, without exchange",
        "peak_bytes": "largest resident memory of a process",
    },
    "windows": {
        "launch": "stem of the record's file",
        **_launch("strategy", "workers", "exchange"),
        "rank": "of the process that clocked it",
        "step": "its first step",
        "steps": "how many steps it has",
        "started_seconds": "when its clock started, since the start of the rank's process",
        "seconds": "of the whole window",
        "input_seconds": "those of them that the rank waited for its rows",
        "core_seconds": "the time around the window, times the cores that the rank may run on",
        "steal_seconds": "those core seconds that the hypervisor gave to other machines",
        "throttled_seconds": "how long a quota of control groups kept the launch's processes off their cores",
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
        **_interval("low_seconds", "high_seconds", "launches"),
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
        **_launch("regime", "workers", "hosts", "placement"),
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
        **_launch("regime", "strategy", "bare_strategy", "placement", "workers"),
        **_launch("wire_bytes", "formula_bytes", "formula", "formula_source"),
        "step_seconds": "per step with exchange (T_step), the median over launches",
        "step_n": "launches of that",
        "compute_seconds": "per step without exchange (T_comp), the median over launches",
        "compute_n": "launches of that",
        "exposed_seconds": "exposed communication per step: median difference within rounds",
        "exposed_n": "pairs of launches of the same round",
        **_interval("exposed_low", "exposed_high", "pairs"),
    },
    "parts": {
        **_launch("regime", "strategy", "placement", "hosts", "bandwidth_bits_per_second"),
        **_launch("link_bytes_per_second", "workers", "oversubscribed"),
        "ideal_seconds": "of a step if N workers were N times as fast as the base",
        "measured_seconds": "of a step, the median over launches",
        **_interval("measured_low", "measured_high", "launches"),
        "measured_n": "launches of that",
        "part": "what of the step it is, beyond the ideal",
        "seconds": "per step, the median over rounds; all parts and the ideal add up to the measured step",
        **_interval("low", "high", "rounds"),
        "n": "rounds",
        "is_paired": "whether the base has launches in these rounds",
    },
    "deviations": {
        "launch": "stem of the record's file",
        **_launch("strategy"),
        "without_hosts": "the strategy with its own options, whatever its hosts",
        **_launch("hosts", "workers", "exchange", "preset", "scaling"),
        "maths": "what of the task decides the maths, as options of the command line",
        **_launch("global_batch"),
        "seed": "of the initial weights and of the order of the rows",
        "first_step": "the step that the run began with",
        "other_maths": "names of the options that change the maths on purpose",
        "verdict": "follows, deviates, other maths, asynchronous, or not compared",
        "note": "why it wasn't compared, what is wrong of it, or what its verdict rests on",
        "updates": "updates that were read from states before and after them",
        "least_share": "the smallest share that a worker's gradient had in any tensor's update",
        "largest_share": "the largest of them",
        "velocity": "how often the update before counted, where an update tells it best",
        "decay": "how often the weights counted, likewise",
        "residual": "the largest part of an update that its declared recipe leaves unexplained",
        "rounding": "the largest of these over what rounding in float32 explains there: above 1 it deviates",
        "loss": "largest relative deviation of a loss from the float64 oracle's, of a shard or of the whole batch",
        "examples": "rows that were counted",
        "expected_examples": "rows that the steps have",
    },
    "accuracies": {
        **_launch("preset", "strategy", "workers", "global_batch"),
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
        **_launch("strategy", "workers"),
        "n": "launches",
        "whole": "seconds from the start of the process to the end of its first step, median",
        "imports": "those seconds up to the end of the script's imports, median",
        "world": "those that joining the world took, median",
        "first_step": "the rest: rows, model, compiling or tracing it, and the step, median",
    },
    "memory": {
        **_launch("regime", "workers", "strategy"),
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
        **_launch("strategy", "bare_strategy", "preset", "scaling", "workers"),
        "ending": "ok, unsupported, failed, or not run",
        "reason": "why it isn't ok",
        "log": "name of its log file",
        "for_speed": "whether its measurement belongs, or would have belonged, to the throughput",
        **_launch("task"),
        "planned": "whether the plan has it",
    },
}
"""By table what each of its columns is. Times are seconds, rates per second, memory and traffic bytes."""

ROWS = {
    "launches": "One row for each launch that counts for the throughput.",
    "windows": "One row for each clocked window of each rank of any launch, with what else happened around it.",
    "cells": "One row for each regime, strategy and number of workers, with and without gradient exchange.",
    "comparisons": "One row for each two strategies of a regime and number of workers: the test of their rounds.",
    "exposed": "One row for each configuration that was measured without exchange too, or whose bytes were counted.",
    "parts": "One row for each part of the step of each configuration, from the ideal step to the measured one.",
    "deviations": "One row for each launch that ended ok: how far it is from the float64 oracle.",
    "accuracies": "One row for each strategy, number of workers and task on real data. Only launches with "
    "--checkpoint-steps look at the accuracy on the way.",
    "startups": "One row for each strategy and number of workers: how long the slowest rank took to its first step.",
    "memory": "One row for each configuration whose records tell what its processes hold: bytes in the process that "
    "holds most, beside a strategy with whole copies. Sharding is often said to save over 60 %: a factor below 0.40.",
    "endings": "One row for each launch that was planned or recorded: how it ended.",
}
"""By table what one of its rows is."""

_FLAGS = {name for columns in COLUMNS.values() for name, meaning in columns.items() if meaning.startswith("whether")}


def table(name: str, rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """The table of this name: of these rows all that its columns are, in their order, and nothing else."""
    found = pd.DataFrame(list(rows), columns=[*COLUMNS[name]])
    # Without rows nothing tells the type of a column that others select by.
    return found.astype({each: bool for each in found.columns if each in _FLAGS}) if found.empty else found
