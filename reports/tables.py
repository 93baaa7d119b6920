"""Records to pandas tables: launches, cells with their speed-ups, where the time goes, accuracy, how the cells ended.

A launch is one record. A cell is what may be pooled: the same strategy, workers and exchange in the same regime. A
regime is everything else that decides what was computed, how it was measured and on what, so that no curve ever joins
weak and strong scaling, two presets, or two settings. Options that only some strategies have are no part of a regime:
they belong to the name that a strategy is shown under, such as `tf_mirrored, jit_compile`, a curve of its own.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from common import metrics, mlp
from common.config import MODEL_PARALLEL, OPTIONS_OF_SOME, PRESETS, Config, from_record, same_maths, to_arguments
from common.metrics import median_interval
from common.names import shown_name, variant
from common.plan import with_long_windows
from common.record import Record

BASES = {"torch": "torch_single", "tensorflow": "tf_one_device"}
"""The strategy of each framework that doesn't distribute at all, which speed-ups are measured against."""

PARAMETER_SERVER = "tf_parameter_server"
"""The strategy whose weights lie on servers, which exchanges by no all-reduce."""

CONVENIENT = (
    ("tf_mirrored", "tf_keras_mirrored"),
    ("torch_ddp", "torch_lightning_ddp"),
    ("horovod_tensorflow", "horovod_keras"),
)
"""Pairs of strategies that distribute by the same means: with a loop of one's own, and with a library's."""

IN_ONE_PROCESS = (("torch_ddp", "torch_data_parallel"),)
"""Pairs of strategies with the same replicas: in a process each, and in the threads of one."""

ACCURACY_TARGETS = {"digits": 0.90, "mnist": 0.95}
"""The test accuracy whose time is reported, for the presets with real data."""


def launches(records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each measured launch, by the stem of its file: what it is, and what its windows say.

    Measured is each `ok` record with windows that didn't stop on the way to save checkpoints (`--checkpoint-steps`):
    such stops cool caches between windows. Times are seconds, `wire_bytes` are per step of the whole launch. Raises
    UserError for a damaged config.
    """
    rows = [_launch(cell, record) for cell, record in records.items() if _is_measured(record)]
    return pd.DataFrame(rows, columns=None if rows else ["cell", "regime", "strategy", "workers", "exchange"])


def regime(record: Record) -> dict[str, str]:
    """Names of the regime that a record belongs to: `regime` in full, `work` without the kind of scaling.

    With one worker weak and strong scaling are the same work, so a base may come from either.
    """
    config = _pooled(record)
    host = record.host
    # A process that holds several replicas calls its cores so many logical devices, which a curve has to join.
    device = "cpu" if "cpu" in record.device.lower() else record.device
    place = f"{device} on {host.get('cores', '?')} cores of {host.get('processor', 'an unknown processor')}"
    same_work = dataclasses.replace(config, scaling=PRESETS[config.preset].scaling)
    work = f"{' '.join(to_arguments(same_work))}; {place}"
    return {"regime": f"{record.scaling}: {work}", "work": work, "options": " ".join(to_arguments(config))}


def cells(launch_table: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: n, median seconds per step with its interval (NaN below six launches), and both speed-ups.

    `speed_up` and `efficiency` are over the framework's undistributed base, `own_speed_up` over one worker of the
    strategy; each comes with the base's samples per second and n, and is NaN where that base wasn't measured.
    """
    if launch_table.empty:
        return pd.DataFrame(columns=["regime", "strategy", "workers", "exchange"])
    keys = ["regime", "strategy", "workers", "exchange"]
    rows = [_cell(group) for _, group in launch_table.groupby(keys, sort=True)]
    table = pd.DataFrame(rows)
    bases = [_base_columns(table, row) for row in table.to_dict("records")]
    return pd.concat([table, pd.DataFrame(bases)], axis=1)


def regimes(launch_table: pd.DataFrame) -> list[str]:
    """Every regime, the one to show first at its head: weak before strong, most worker counts, most launches."""
    if launch_table.empty:
        return []
    order = {}
    for name, group in launch_table[launch_table["exchange"]].groupby("regime"):
        order[name] = (group["scaling"].iloc[0] != "weak", -group["workers"].nunique(), -len(group), name)
    return sorted(order, key=order.__getitem__)


def time_split(cell_table: pd.DataFrame) -> pd.DataFrame:
    """Cells of more than one worker that were measured without exchange too, or with the bytes on their wire.

    `exposed_seconds` is the median step with exchange less the one without.
    """
    columns = ["regime", "strategy", "workers", "step_seconds", "step_n", "compute_seconds", "compute_n"]
    columns += ["exposed_seconds", "wire_bytes", "formula_bytes"]
    rows = []
    for row in cell_table.to_dict("records"):
        if not row["exchange"] or row["workers"] == 1:
            continue
        without = cell_table[
            (cell_table["regime"] == row["regime"])
            & (cell_table["strategy"] == row["strategy"])
            & (cell_table["workers"] == row["workers"])
            & ~cell_table["exchange"].astype(bool)
        ]
        compute = without["seconds"].iloc[0] if len(without) else float("nan")
        if len(without) or row["wire_bytes"] == row["wire_bytes"]:
            rows.append(
                {
                    **{name: row[name] for name in ("regime", "strategy", "workers", "wire_bytes", "formula_bytes")},
                    "step_seconds": row["seconds"],
                    "step_n": row["n"],
                    "compute_seconds": compute,
                    "compute_n": int(without["n"].iloc[0]) if len(without) else 0,
                    "exposed_seconds": row["seconds"] - compute,
                }
            )
    return pd.DataFrame(rows, columns=columns)


def factors(launch_table: pd.DataFrame, plan: pd.DataFrame | None, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """How many times as long a step takes with the second strategy of each of `pairs` as with its first.

    One row for each regime and number of workers with launches of both, under the same options. `factor` is the median
    over `pairs` of launches of the same round, which met the same machine (without a plan: of the same place in the
    order of their names), with its interval, NaN below six pairs; `first_seconds` and `second_seconds` are the medians
    per step over those pairs.
    """
    columns = ["regime", "first", "second", "workers", "pairs", "first_seconds", "second_seconds"]
    columns += ["factor", "low", "high"]
    if launch_table.empty:
        return pd.DataFrame(columns=columns)
    trained = _with_rounds(launch_table, plan)
    rows = []
    for names in pairs:
        sides = [trained[trained["bare_strategy"] == name] for name in names]
        same = ["regime", "workers", "variant", "round"]
        matched = sides[0].merge(sides[1], on=same, suffixes=("_first", ""))
        for _, group in matched.groupby(["regime", "workers", "variant"]):
            rows.append(_factor(group))
    return pd.DataFrame(rows, columns=columns)


def against_default(launch_table: pd.DataFrame, plan: pd.DataFrame | None, prefix: str) -> pd.DataFrame:
    """How many times as long a step takes with options of a strategy's own as without any.

    As `factors`, for each variant of the strategies whose names begin with `prefix`, where the strategy without options
    was measured too: that is the `first`.
    """
    columns = ["regime", "first", "second", "workers", "pairs", "first_seconds", "second_seconds"]
    columns += ["factor", "low", "high"]
    if launch_table.empty:
        return pd.DataFrame(columns=columns)
    trained = _with_rounds(launch_table, plan)
    own = trained[trained["bare_strategy"].str.startswith(prefix)]
    same = ["regime", "workers", "bare_strategy", "round"]
    matched = own[own["variant"] == ""].merge(own[own["variant"] != ""], on=same, suffixes=("_first", ""))
    rows = [_factor(group) for _, group in matched.groupby(["regime", "workers", "bare_strategy", "variant"])]
    return pd.DataFrame(rows, columns=columns)


def _with_rounds(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """The launches with exchange, each with its round; without a plan, its place in the order of their names."""
    trained = launch_table[launch_table["exchange"]]
    by_order = trained.groupby(["regime", "strategy", "workers"]).cumcount()
    rounds = {} if plan is None else dict(zip(plan["cell"].astype(str), plan["repetition"], strict=True))
    return trained.assign(round=trained["cell"].map(rounds) if rounds else by_order)


def ranks(launch_table: pd.DataFrame) -> pd.DataFrame:
    """Cells of several processes: the slowest rank's time over the median rank's, median and largest over launches."""
    columns = ["regime", "strategy", "workers", "n", "spread", "largest_spread", "peak_bytes"]
    if launch_table.empty:
        return pd.DataFrame(columns=columns)
    spread = launch_table[launch_table["exchange"] & launch_table["rank_spread"].notna()]
    rows = [
        {
            **dict(zip(columns, [*key, len(group)], strict=False)),
            "spread": group["rank_spread"].median(),
            "largest_spread": group["rank_spread"].max(),
            "peak_bytes": group["peak_bytes"].max(),
        }
        for key, group in spread.groupby(["regime", "strategy", "workers"])
    ]
    return pd.DataFrame(rows, columns=columns)


def inputs(launch_table: pd.DataFrame) -> pd.DataFrame:
    """Cells whose launches measured how long they waited for their rows.

    `input_seconds` and `step_seconds` are medians over n launches, per step; `share` is the median launch's share.
    """
    columns = ["regime", "workers", "bare_strategy", "strategy", "n", "input_seconds", "step_seconds", "share"]
    if launch_table.empty:
        return pd.DataFrame(columns=columns)
    known = launch_table[launch_table["exchange"] & launch_table["input_seconds"].notna()]
    rows = [
        {
            **dict(zip(columns, [*key, len(group)], strict=False)),
            "input_seconds": group["input_seconds"].median(),
            "step_seconds": group["seconds"].median(),
            "share": (group["input_seconds"] / group["seconds"]).median(),
        }
        for key, group in known.groupby(["regime", "workers", "bare_strategy", "strategy"])
    ]
    return pd.DataFrame(rows, columns=columns)


def accuracies(records: Mapping[str, Record]) -> pd.DataFrame:
    """Test accuracy reached on real data, and seconds of clocked training until the preset's target.

    `target_seconds` is the median over the launches that looked at the accuracy on the way (`looked`) and reached the
    target (`reached`), NaN where none did.
    """
    rows = []
    for record in records.values():
        if record.status == "ok" and record.accuracies and record.config["preset"] in ACCURACY_TARGETS:
            rows.append(_accuracy(record))
    columns = ["preset", "strategy", "workers", "global_batch", "seed", "steps"]
    results = ["n", "accuracy", "lowest", "looked", "reached", "target_seconds"]
    if not rows:
        return pd.DataFrame(columns=columns + results)
    merged = []
    for key, group in pd.DataFrame(rows).groupby(columns):
        numbers = {
            "n": len(group),
            "accuracy": group["accuracy"].median(),
            "lowest": group["accuracy"].min(),
            "looked": int(group["looked"].sum()),
            "reached": int(group["target_seconds"].notna().sum()),
            "target_seconds": group["target_seconds"].median(),
        }
        merged.append(dict(zip(columns, key, strict=True)) | numbers)
    return pd.DataFrame(merged)


def endings(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """How every planned or recorded launch ended: its cell, strategy, workers, `ending`, reason and log.

    `for_speed` says whether its measurement belongs, or would have belonged, to the throughput tables; `options` are
    those of its regime, empty for a launch that hasn't run.
    """
    rows = []
    planned = {} if plan is None else {str(row["cell"]): row for row in plan.to_dict("records")}
    for cell in sorted(planned | records):
        record, row = records.get(cell), planned.get(cell)
        about = _planned(row) if record is None else _ended(record)
        rows.append({"cell": cell, **about, "planned": cell in planned})
    columns = ["cell", "strategy", "preset", "scaling", "workers", "ending", "reason", "log"]
    return pd.DataFrame(rows, columns=[*columns, "for_speed", "options", "planned"])


def owned_update_bytes(parameter_bytes: int, world_size: int) -> float:
    """Bytes that all N workers together send per step where each parameter is updated by its owner alone.

    A ring all-reduce of the gradients, which are as large as the parameters (Patarasuk & Yuan, "Bandwidth optimal
    all-reduce algorithms for clusters of workstations", 2009, equation 1), then every parameter from its owner to the
    N - 1 others (torch.distributed.optim.ZeroRedundancyOptimizer: "each rank will broadcast its parameters to all other
    peers").
    """
    return world_size * metrics.ring_all_reduce_bytes(parameter_bytes, world_size) + (world_size - 1) * parameter_bytes


def fully_sharded_bytes(parameter_bytes: int, world_size: int) -> float:
    """Bytes that all N workers together send per step where each keeps 1 / N of every parameter and gradient.

    All-gathers of the parameters before the forward pass and again before the backward pass, and a reduce-scatter of
    the gradients, each (N - 1) times the model's bytes (Rajbhandari et al., "ZeRO", 2020, section 7.2.2, P_os+g+p).
    """
    return 3.0 * (world_size - 1) * parameter_bytes


def _planned(row: Mapping[str, object]) -> dict[str, object]:
    known = {name: row[name] for name in ("strategy", "preset", "scaling", "workers")}
    # A plan of an earlier version has no such column.
    known["strategy"] = ", ".join(filter(None, [str(row["strategy"]), str(row.get("variant", ""))]))
    for_speed = bool(row["exchange"]) and row["purpose"] != "certificate"
    return known | {"ending": "not run", "reason": "", "log": "", "for_speed": for_speed, "options": ""}


def _ended(record: Record) -> dict[str, object]:
    config = from_record(record.config)
    return {
        **{"strategy": shown_name(record.strategy, config), "preset": config.preset, "scaling": record.scaling},
        **{"workers": record.world_size, "ending": record.status, "reason": record.reason or ""},
        **{"log": record.log or "", "for_speed": config.exchange and not config.checkpoint_steps},
        "options": " ".join(to_arguments(_pooled(record))),
    }


def _is_measured(record: Record) -> bool:
    return record.status == "ok" and bool(record.windows) and not record.config["checkpoint_steps"]


def _pooled(record: Record) -> Config:
    """The record's config with everything at its default that may differ between launches on one plot."""
    config = from_record(record.config)
    preset = PRESETS[config.preset]
    ignored = ["checkpoint", "record", "data_dir", "workers", "seed", "deadline_seconds", "checkpoint_steps"]
    # The device that was used is in the record; the one that was asked for says less.
    ignored += ["exchange", "device", *OPTIONS_OF_SOME]
    lengths = ("steps", "warmup_steps", "window_steps")
    long = with_long_windows(preset)
    if not record.synchronous and all(getattr(config, name) == getattr(long, name) for name in lengths):
        # Asynchronous launches are clocked in longer windows, for a reason of their own, and share a plot all the same.
        ignored += lengths
    return dataclasses.replace(config, **{name: getattr(preset, name) for name in ignored})


def _launch(cell: str, record: Record) -> dict[str, object]:
    result = metrics.throughput(record)
    windows = metrics.window_seconds_per_step(record)
    config = from_record(record.config)
    return {
        "cell": cell,
        **regime(record),
        "strategy": shown_name(record.strategy, config),
        "bare_strategy": record.strategy,
        "variant": ", ".join(variant(config)),
        "synchronous": record.synchronous,
        "same_maths": same_maths(config),
        "framework": record.framework,
        "preset": config.preset,
        "scaling": record.scaling,
        "batch": config.batch,
        "workers": record.world_size,
        "threads": record.threads_per_worker,
        "cores": record.host.get("cores"),
        "exchange": config.exchange,
        "backend": record.backend,
        "global_batch": record.examples_per_step,
        "seconds": result.seconds_per_step,
        "input_seconds": _input_seconds_per_step(record),
        "samples_per_second": result.samples_per_second,
        "windows": result.windows,
        "window_steps": config.window_steps,
        "first_window_ratio": windows[0] / statistics.median(windows[1:]) if len(windows) > 2 else float("nan"),
        "measured_seconds": _measured_seconds(record),
        "first_step_seconds": record.time_to_first_step_s,
        "oversubscribed": record.oversubscribed,
        "wire_bytes": float("nan") if record.wire_bytes_per_step is None else record.wire_bytes_per_step,
        "formula_bytes": _formula_bytes(record, config),
        "rank_spread": _rank_spread(record),
        "peak_bytes": max(record.peak_memory_bytes, default=0),
    }


def _formula_bytes(record: Record, config: Config) -> float:
    """Bytes that all processes together send in a step, by the formula of the algorithm that the strategy uses.

    NaN where what is sent depends on more than the model's size: on where it is cut, or on the rank of its factors.
    """
    workers, parameters = record.world_size, mlp.parameter_bytes(config)
    if record.strategy in MODEL_PARALLEL or config.gradient_hook == "powersgd" or config.adasum:
        return float("nan")
    if record.strategy == PARAMETER_SERVER:
        return metrics.parameter_server_bytes(parameters, workers if record.synchronous else None)
    if record.strategy == "torch_data_parallel" or "shared memory" in record.backend:
        return 0.0
    if record.strategy == "torch_zero":
        return owned_update_bytes(parameters, workers)
    if record.strategy == "torch_fsdp":
        return fully_sharded_bytes(parameters, workers)
    rounded = config.gradient_hook in ("fp16", "bf16") or config.compression == "fp16"
    return workers * metrics.ring_all_reduce_bytes(parameters, workers) / (2 if rounded else 1)


def _factor(group: pd.DataFrame) -> dict[str, object]:
    """`group` are the pairs of one cell: a launch of the first strategy (`_first`) and one of the second."""
    factor = median_interval((group["seconds"] / group["seconds_first"]).tolist())
    first = group.iloc[0]
    return {
        **{"regime": first["regime"], "workers": first["workers"], "pairs": factor.n, "factor": factor.median},
        **{"first": first["strategy_first"], "second": first["strategy"]},
        "first_seconds": group["seconds_first"].median(),
        "second_seconds": group["seconds"].median(),
        "low": float("nan") if factor.low is None else factor.low,
        "high": float("nan") if factor.high is None else factor.high,
    }


def _input_seconds_per_step(record: Record) -> float:
    """Seconds per step that the rows were waited for, of the median window; of each the rank that waited longest.

    NaN where the strategy doesn't measure it.
    """
    longest: dict[float, float] = {}
    for window in record.windows:
        if "input_seconds" in window:
            waited = window["input_seconds"] / window["steps"]
            longest[window["step"]] = max(waited, longest.get(window["step"], 0.0))
    return statistics.median(longest.values()) if longest else float("nan")


def _measured_seconds(record: Record) -> float:
    return sum(window["seconds"] for window in record.windows if window["rank"] == 0)


def _rank_spread(record: Record) -> float:
    """Slowest over median rank of the median window; NaN with one process."""
    by_window: dict[float, list[float]] = {}
    for window in record.windows:
        by_window.setdefault(window["step"], []).append(window["seconds"])
    if max(map(len, by_window.values())) == 1:
        return float("nan")
    return statistics.median(max(seconds) / statistics.median(seconds) for seconds in by_window.values())


def _cell(group: pd.DataFrame) -> dict[str, object]:
    interval = median_interval(group["seconds"].tolist())
    first = group.iloc[0]
    kept = ("regime", "work", "options", "strategy", "framework", "preset", "scaling", "batch", "workers", "exchange")
    kept += ("synchronous", "same_maths", "variant", "window_steps", "bare_strategy", "global_batch", "formula_bytes")
    return {
        **{name: first[name] for name in kept},
        "n": interval.n,
        "seconds": interval.median,
        "low_seconds": float("nan") if interval.low is None else interval.low,
        "high_seconds": float("nan") if interval.high is None else interval.high,
        "samples_per_second": first["global_batch"] / interval.median,
        "first_step_seconds": group["first_step_seconds"].median(),
        "oversubscribed": bool(group["oversubscribed"].any()),
        "wire_bytes": group["wire_bytes"].median(),
    }


def _base_columns(table: pd.DataFrame, row: Mapping[str, object]) -> dict[str, object]:
    workers, speed = row["workers"], row["samples_per_second"]
    base = _one_worker(table, row, BASES.get(row["framework"], ""))
    own = _one_worker(table, row, row["strategy"])
    columns: dict[str, object] = {"base": base["strategy"] if base else None}
    for prefix, one in (("base_", base), ("own_", own)):
        columns[f"{prefix}samples_per_second"] = one["samples_per_second"] if one else float("nan")
        columns[f"{prefix}n"] = one["n"] if one else 0
    columns["speed_up"] = metrics.speed_up(speed, columns["base_samples_per_second"])
    columns["efficiency"] = metrics.efficiency(speed, columns["base_samples_per_second"], workers)
    columns["own_speed_up"] = metrics.speed_up(speed, columns["own_samples_per_second"])
    return columns


def _one_worker(table: pd.DataFrame, row: Mapping[str, object], strategy: str) -> dict[str, object] | None:
    """The cell of one worker of `strategy` at the same work: from the same regime, else from the other scaling."""
    found = table[
        (table["work"] == row["work"])
        & (table["strategy"] == strategy)
        & (table["workers"] == 1)
        & table["exchange"].astype(bool)
    ].to_dict("records")
    found.sort(key=lambda cell: cell["regime"] != row["regime"])
    return found[0] if found else None


def _accuracy(record: Record) -> dict[str, object]:
    target = ACCURACY_TARGETS[record.config["preset"]]
    reached = [entry["training_seconds"] for entry in record.accuracies if entry["accuracy"] >= target]
    looked = len(record.accuracies) > 1
    return {
        "preset": record.config["preset"],
        "strategy": shown_name(record.strategy, from_record(record.config)),
        "workers": record.world_size,
        "global_batch": record.examples_per_step,
        "seed": record.config["seed"],
        "steps": record.config["steps"],
        "accuracy": record.final_accuracy,
        "looked": looked,
        "target_seconds": reached[0] if reached and looked else float("nan"),
    }
