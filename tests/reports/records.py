"""Records for the report's tests: times made up by hand, losses from a real run of the contract in float32."""

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from common import dataset, mlp
from common.config import PRESETS, Config, global_batch
from common.dataset import RowOrder
from common.record import Record, write_record

HOST = {"name": "here", "processor": "Some CPU", "cores": 2, "memory_bytes": 2**33, "gpus": [], "system": "Linux 6"}


@cache
def trained(seed: int, batch: int, steps: int, preset: str = "digits") -> mlp.Trajectory:
    """The contract in float32 on `steps` batches of `batch` rows, as a strategy without a mistake would train."""
    config = dataclasses.replace(PRESETS[preset], seed=seed)
    rows = dataset.load(config)
    order = RowOrder(len(rows.train_labels), seed)
    batches = [dataset.Batch(step, order.cut(step * batch, (step + 1) * batch), rows) for step in range(steps)]
    return mlp.train(config, ((part.features, part.labels) for part in batches), np.float32)


def make_record(
    strategy: str = "torch_ddp",
    workers: int = 1,
    milliseconds: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0),
    config: Config | None = None,
    rank_factors: tuple[float, ...] | None = None,
    **fields: object,
) -> Record:
    """An `ok` record whose windows of ten steps took `milliseconds` a step; rank r's clock shows factor r of it."""
    base = {"steps": 60, "warmup_steps": 20, "window_steps": 10, "seed": 3, "workers": workers}
    config = config or dataclasses.replace(PRESETS["digits"], scaling="weak", **base)
    batch = global_batch(config, workers)
    windows = [
        {"rank": rank, "step": 20 + 10 * index, "steps": 10, "seconds": value * factor / 100}
        for rank, factor in enumerate(rank_factors or (1.0,) * workers)
        for index, value in enumerate(milliseconds)
    ]
    values = {
        "strategy": strategy,
        "framework": "tensorflow" if strategy.startswith("tf_") or strategy.endswith("tensorflow") else "torch",
        "world_size": workers,
        "synchronous": True,
        "scaling": config.scaling,
        "status": "ok",
        "config": dataclasses.asdict(config),
        "backend": "gloo",
        "threads_per_worker": 1,
        "oversubscribed": workers > 2,
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "host": HOST,
        "git_commit": "0123456789abcdef",
        "started_at": "2026-01-02T03:04:05.678+00:00",
        "time_to_first_step_s": 1.5,
        "windows": windows,
        "examples_per_step": batch,
        "examples_by_rank": [config.steps * batch // workers] * workers,
        "losses": trained(config.seed, batch, config.steps, config.preset).losses,
        "peak_memory_bytes": [300_000_000] * workers,
        "accuracies": [{"step": config.steps, "accuracy": 0.5, "training_seconds": 0.12}],
        "final_accuracy": 0.5,
    }
    return Record(**values | fields)


def varied(
    strategy: str,
    workers: int = 1,
    milliseconds: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0),
    synchronous: bool = True,
    **options: object,
) -> Record:
    """A record as `make_record` makes it, of a launch with these options of its strategy."""
    record = make_record(strategy, workers, milliseconds, synchronous=synchronous)
    return dataclasses.replace(record, config=record.config | options)


def unfinished(status: str, reason: str, strategy: str = "torch_ddp", workers: int = 2) -> Record:
    """A record of a launch that measured nothing, as the comparison writes it."""
    return make_record(
        *(strategy, workers),
        **{"status": status, "reason": reason, "log": "some.log", "windows": [], "losses": [], "host": {}},
        **{"accuracies": [], "final_accuracy": None, "time_to_first_step_s": None, "versions": {}, "git_commit": None},
    )


def named(*records: Record) -> dict[str, Record]:
    """The records by stems such as `torch_ddp-2w-00`."""
    return {f"{record.strategy}-{record.world_size}w-{index:02d}": record for index, record in enumerate(records)}


def write_all(folder: Path, records: dict[str, Record]) -> Path:
    """Write every record into `folder`, which is returned."""
    for cell, record in records.items():
        write_record(folder / f"{cell}.json", record)
    return folder


def write_weights(path: Path, seed: int, batch: int, steps: int, factor: float = 1.0) -> None:
    """The final weights of a run without a mistake, times `factor`."""
    state = {name: np.float32(factor) * value for name, value in trained(seed, batch, steps).state.items()}
    save_file(state, path)
