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


_COMMON = _LAUNCH | {
    "launch": "stem of the record's file",
    "family": "what the strategy's folder calls itself",
    "seed": "of the initial weights and of the order of the rows",
    "n": "launches",
    "maths": "what of the task decides the maths, as options of the command line",
    "backend": "what carries its messages",
    "rows": "of one worker's step",
}

_RECIPE = {
    "updates": "updates that were read from states before and after them",
    "least_share": "the smallest share that a worker's gradient had in any tensor's update",
    "largest_share": "the largest of them",
    "velocity": "how often the update before counted, where an update tells it best; the median over launches",
    "decay": "how often the weights counted, likewise",
    "residual": "the largest part of an update that its declared recipe leaves unexplained",
    "rounding": "the largest of these over what rounding in float32 explains there: above 1 it deviates",
    "loss": "largest relative deviation of a loss from the float64 oracle's, of a shard or of the whole batch",
    "other_maths": "names of the options that change the maths on purpose",
}


def _launch(*names: str) -> dict[str, str]:
    return {name: _COMMON[name] for name in names}


def _interval(low: str, high: str, of: str) -> dict[str, str]:
    return {low: f"lower end of its 95 % order-statistic interval; empty below six {of}", high: "its upper end"}


def _median(name: str, meaning: str, of: str = "rounds") -> dict[str, str]:
    """The columns that `answers.in_columns` fills."""
    return {name: f"{meaning}: median over {of}", **_interval(f"{name}_low", f"{name}_high", of), f"{name}_n": of}


COLUMNS: dict[str, dict[str, str]] = {
    "launches": {
        **_launch("launch"),
        **_LAUNCH,
        **_launch("family"),
        "compared_with": "by relation, the name of another strategy (JSON)",
        "round_trip_seconds": "of the shortest of many small messages to another host and back, before the launch",
        "seconds": "per step, of the median window; the slowest rank of each counts",
        "input_seconds": "per step, that the rank which waited longest waited for its rows",
        "first_window_ratio": "the first window's time per step over the median of the others",
        "measured_seconds": "clocked by rank 0, all windows together",
        "rank_spread": "slowest over median rank, of the median window, without exchange",
        "peak_bytes": "largest resident memory of a process",
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
        **_launch("regime", "strategy", "bare_strategy", "placement", "hosts", "bandwidth_bits_per_second"),
        **_launch("workers", "oversubscribed", "batch", "wire_bytes", "formula_bytes", "formula", "formula_source"),
        "step_seconds": "per step with exchange (T_step), the median over launches",
        "step_n": "launches of that",
        "compute_seconds": "per step without exchange (T_comp(R)), the median over launches",
        "compute_n": "launches of that",
        **_median("exposed_seconds", "T_sync, exposed communication: the step less the one without exchange"),
        **_median("ratio", "how many times as long an epoch takes with one worker of the base"),
        **_median("contention", "T_comp(R) / T_comp(1): the step without exchange over the base's"),
        "verdict": "surely pays where the whole interval of the ratio is above 1, surely doesn't where it is below",
        "sync_share": "T_sync / T_comp(R)",
        "by_formula": "pays where that is below R - 1, which takes contention to be 1",
        "with_contention": "pays where it is below R / contention - 1",
        "fewest_batch": "rows per worker from which on it would: batch T_sync / (T_comp(1) (R - contention))",
    },
    "parts": {
        **_launch("regime", "strategy", "placement", "hosts", "bandwidth_bits_per_second"),
        **_launch("link_bytes_per_second", "workers", "oversubscribed"),
        "ideal_seconds": "of a step if N workers were N times as fast as the base",
        "measured_seconds": "of a step, the median over launches",
        **_interval("measured_low_seconds", "measured_high_seconds", "launches"),
        "measured_n": "launches of that",
        "part": "what of the step it is, beyond the ideal",
        "seconds": "per step, the median over rounds; all parts and the ideal add up to the measured step",
        **_interval("low", "high", "rounds"),
        "n": "rounds",
        "is_paired": "whether the base has launches in these rounds",
    },
    "factors": {
        **_launch("regime", "workers"),
        "change": "options of its own beside all at their default; a library's loop; one process with threads",
        "first": "the strategy that the other one is compared with",
        "second": "the strategy with that change",
        "pairs": "pairs of launches of the same round",
        "first_seconds": "of a step of the first, median over pairs",
        "second_seconds": "of a step of the second, median over pairs",
        "factor": "how many times as long a step of the second takes, median over pairs; below 1 it saves time",
        **_interval("low", "high", "pairs"),
    },
    "networks": {
        **_launch("regime", "strategy", "workers", "oversubscribed"),
        "network": "preset that has it",
        "operations_per_byte": "multiplications and additions of a worker's step for each byte of its gradients (x)",
        "base_samples_per_second": "of one worker of the strategy's base",
        "n": "launches",
        "speed_up": "samples per second over the base's",
        **_interval("low", "high", "launches"),
        "line": "speed-up by the strategy's line, R / (c + k / x); empty for fewer than three networks",
        "pays_from": "x from which on it pays by that line: above 1; empty where it never does",
    },
    "exchanges": {
        **_launch("regime", "strategy", "workers", "oversubscribed"),
        "library": "what carried the messages in their replay",
        "source": "what told these messages",
        "messages": "how many of them a step has, in any replay (JSON)",
        "size_bytes": "of the messages of a step together, median over replays",
        "sent_bytes": "that all ranks sent in a replayed step, packet headers included, median over replays",
        "step_sent_bytes": "the same in a whole step",
        **_median("exposed_seconds", "T_step - T_comp, what the step shows of its exchange"),
        **_median("replay_seconds", "what the messages take alone, one after another", "launches"),
        **_median("leftover_seconds", "the first less the second"),
        "under_way_seconds": "that a traced step had at least one message under way on its first rank, median",
        "under_way_steps": "traced steps",
        "verdict": "overlap where the whole interval of what is left over is below 0, contention where it is above",
        "replays": "stems of their records (JSON)",
        "reason": "why these tell no time",
    },
    "phases": {
        **_launch("regime", "workers", "strategy", "family"),
        "phase": "its name, from the framework's own account",
        "meaning": "what it is",
        "n": "launches",
        "seconds": "per step that at least one gradient was in it, median; a phase may overlap with computing",
    },
    "ceilings": {
        **_launch("regime", "preset", "strategy", "family", "framework", "backend", "workers", "rows"),
        "is_base": "whether it distributes nothing",
        "n": "launches",
        "step_seconds": "of the step without exchange, median",
        "products_seconds": "of the framework's own matrix products of that step, each by itself (n = 1)",
        "exchange_seconds": "of one all-reduce of a buffer as large as the gradients (n = 1)",
    },
    "certificates": {
        **_launch("preset", "global_batch", "seed", "strategy", "workers", "exchange", "maths", "n"),
        **_RECIPE,
        "verdict": "the gravest on its launches",
        "note": "why",
    },
    "deviations": {
        **_launch("launch", "strategy"),
        **_launch("hosts", "workers", "exchange", "preset", "scaling", "maths", "global_batch", "seed"),
        **_RECIPE,
        "verdict": "follows, deviates, other maths, asynchronous, or not compared",
        "note": "why it wasn't compared, what is wrong of it, or what its verdict rests on",
    },
    "asynchronous": {
        **_launch("preset"),
        "batch": "rows of an update",
        **_launch("seed", "strategy", "workers"),
        "updates": "of all workers together",
        "loss": "of its final weights over the whole training set",
        "oracle_loss": "the same of the oracle's weights after as many updates of as many rows",
        "difference": "the first over the second, less 1",
        "staleness": "how many updates of others came between an update's weights and itself, median",
        "largest_staleness": "the largest of them",
        "note": "why nothing could be compared",
    },
    "skews": {
        **_launch("launch", "regime", "strategy", "workers"),
        "windows": "clocked windows of which ranks on several hosts tell when they were",
        "seconds": "how much later a window's last rank started than its first, median over windows",
        "uncertainty_seconds": "by how much that may be wrong: the uncertainties of two hosts' clocks together",
        "started_last": "the host whose ranks surely started last most often",
        "started_last_share": "of how many windows, 0 to 1",
        "started_last_unknown": "of how many windows nobody can tell, 0 to 1",
        "finished_last": "the host whose ranks surely finished last most often",
        "finished_last_share": "of how many windows, 0 to 1",
        "finished_last_unknown": "of how many windows nobody can tell, 0 to 1",
    },
    "accuracies": {
        **_launch("preset", "strategy", "workers", "global_batch", "seed"),
        "steps": "steps of the task",
        "n": "launches",
        "accuracy": "test accuracy after the last step, median over launches, 0 to 1",
        "lowest": "the lowest of them",
        "target": "test accuracy whose time is told",
        "looked": "launches that looked at the accuracy on the way",
        "reached": "those of them that reached it",
        "target_seconds": "clocked training until they did, warm-up included, median",
    },
    "startups": {
        **_launch("strategy", "workers", "n"),
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
        "held_factor": "held over the reference's",
        "peak_factor": "device_peak over the reference's where both have one, else above_import over its",
    },
    "disturbances": {
        **_launch("launch"),
        "round": "of the plan; empty beside the rounds",
        "steal": "share of the cores' time that the hypervisor gave to other machines",
        "quota": "share of the time that a container's quota kept the launch's processes off their cores",
        "others": "share of the cores' time that other processes took",
        "spin": "by what share a fixed piece of work took longer than in the median window of its equals",
        "clock": "by what share the clock was slower than in the median window of its equals",
        "disturbed": "whether one of the first three is above 5 %, beyond the kernel's rounding, or of the others 10 %",
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
    "cells": "One row for each regime, strategy and number of workers, with and without gradient exchange.",
    "comparisons": "One row for each two strategies of a regime and number of workers: the test of their rounds.",
    "exposed": "One row for each configuration of R workers: what is exposed, whether it pays, and what tutorials' "
    "T_epoch = N / (R B) (T_comp + T_sync) says of synchronous ones under weak scaling (Ben-Nun & Hoefler, 2019).",
    "parts": "One row for each part of the step of each configuration, from the ideal step to the measured one.",
    "factors": "One row for each two strategies that differ in one thing: how many times as long a step takes.",
    "networks": "One row for each synchronous configuration of several workers under weak scaling, where there are "
    "three networks or more: whether it pays for that one.",
    "exchanges": "One row for each configuration whose messages were replayed alone, or each reason why they weren't.",
    "phases": "One row for each phase of an exchange of each configuration, by the framework's own account.",
    "ceilings": "One row for each base, and each strategy without exchange, whose framework was probed.",
    "certificates": "One row for each configuration: what its updates were made of, and whether that is the oracle's.",
    "deviations": "One row for each launch that ended ok: how far it is from the float64 oracle.",
    "asynchronous": "One row for each asynchronous launch of several workers that kept its weights: how it trained.",
    "skews": "One row for each launch over several hosts: who waited for whom. Less than the uncertainty is nothing.",
    "accuracies": "One row for each strategy, number of workers and task on real data: what it reached, and when.",
    "startups": "One row for each strategy and number of workers: how long the slowest rank took to its first step.",
    "memory": "One row for each configuration whose records tell what the process that holds most of the model holds.",
    "disturbances": "One row for each launch that tells what else happened on its cores: what the worst rank lost.",
    "endings": "One row for each launch that was planned or recorded: how it ended.",
}
"""By table what one of its rows is."""

_FLAGS = {name for columns in COLUMNS.values() for name, meaning in columns.items() if meaning.startswith("whether")}


def table(name: str, rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """The table of this name: of these rows all that its columns are, in their order, and nothing else."""
    rows = rows.reset_index(drop=True) if isinstance(rows, pd.DataFrame) else list(rows)
    found = pd.DataFrame(rows, columns=[*COLUMNS[name]])
    # Without rows nothing tells the type of a column that others select by.
    return found.astype({each: bool for each in found.columns if each in _FLAGS}) if found.empty else found
