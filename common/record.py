"""The run record: one immutable JSON file per launch, raw measurements only, never derived numbers."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.errors import UserError
from common.files import write_atomically

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one launch measured, or why it measured nothing. Every field is one key of the JSON file."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older records get."""
    strategy: str
    """Name of the strategy: its folder's framework and its file, as in `torch_ddp`."""
    framework: str
    """torch or tensorflow."""
    world_size: int
    """Workers: processes, or replicas inside one process."""
    synchronous: bool
    """Whether every step sees every worker's gradients, so that the oracle is followed step by step."""
    scaling: Literal["strong", "weak"]
    """What the batch in `config` counts: rows of all workers (strong) or of each (weak)."""
    status: Literal["ok", "unsupported", "failed"]
    """How the launch ended."""
    reason: str | None = None
    """Why a launch isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the record's folder."""
    config: dict[str, object]
    """Every option of the launch, as `common/config.py` documents them."""
    backend: str = ""
    """What carried the tensors, such as gloo."""
    device: str = "cpu"
    """What computed: cpu, or a GPU's name."""
    threads_per_worker: int
    """Threads that each worker computed with."""
    oversubscribed: bool = False
    """Whether the workers of rank 0's machine had more threads than it has cores; then nothing was pinned."""
    pinned_cores: list[int] = field(default_factory=list)
    """Cores that rank 0's process was kept on."""
    private_network: bool = False
    """Whether the launch had a network namespace to itself."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, the framework and the libraries."""
    host: dict[str, object] = field(default_factory=dict)
    """Rank 0's machine: processor, cores, memory, GPUs, system."""
    git_commit: str | None = None
    """Commit of this project, `+changes` when the files differ from it."""
    started_at: str
    """When rank 0's process started: ISO 8601, UTC."""
    data_sha256: str | None = None
    """SHA-256 of all rows of the dataset."""
    first_step: int = 0
    """The step that the run began with; above 0 when it went on from a checkpoint."""
    time_to_first_step_s: float | None = None
    """Seconds from the start of the process to the end of its first step, of the slowest rank."""
    windows: list[dict[str, float]] = field(default_factory=list)
    """{rank, step, steps, seconds}: each clocked window of each rank, with its first step and how many it has; and
    input_seconds, those of them that the rank waited for its rows, where the strategy measures it."""
    examples_per_step: int = 0
    """Rows that the global batch has."""
    examples_by_rank: list[int] = field(default_factory=list)
    """Rows that each process was handed over all steps of this run."""
    losses: list[float | None] = field(default_factory=list)
    """Loss of every step, the mean over the global batch; null where it isn't finite."""
    wire_bytes_per_step: float | None = None
    """Bytes sent over the launch's own loopback per step, packet headers included; null without a private network."""
    peak_memory_bytes: list[int] = field(default_factory=list)
    """Largest resident memory of each process."""
    memory_bytes: list[dict[str, int]] = field(default_factory=list)
    """{parameters, gradients, optimizer_state, above_import}: what each process holds of the model, and how far its
    resident memory rose above what it had before the data came, the framework imported; and device_peak on a GPU."""
    accuracies: list[dict[str, float]] = field(default_factory=list)
    """{step, accuracy, training_seconds}: test accuracy after so many steps and so much clocked training."""
    final_accuracy: float | None = None
    """Share of the test rows that the final weights classify rightly, 0 to 1."""
    staleness: list[int] = field(default_factory=list)
    """Of every asynchronous update, in the order of the steps: how many others were applied between its reading of the
    weights and its own being applied, by the count of the server that has the first layer; empty for synchronous
    strategies."""
    restarted_workers: int = 0
    """How often a worker was lost and came back while the run went on."""
    horovod_timeline: dict[str, float] = field(default_factory=dict)
    """Horovod's own account where its timeline was asked for: {steps, negotiation_seconds, queueing_seconds,
    copying_seconds, all_reduce_seconds}, the time that at least one gradient spent in each phase over so many steps."""
    checkpoint: str | None = None
    """Name of the file with the final weights, in the record's folder or as a path."""


def write_record(path: Path, record: Record) -> None:
    """Write the record's JSON whole or not at all. Raises UserError when its folder can't be written to."""
    values = dataclasses.asdict(record)
    values["losses"] = [loss if loss is not None and math.isfinite(loss) else None for loss in record.losses]
    write_atomically(path, (json.dumps(values, indent=1, default=str, allow_nan=False) + "\n").encode())


def read_record(path: Path) -> Record:
    """The record in `path`. Raises UserError when it is damaged or of another schema version."""
    remedy = "delete it and run its cell again"
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} isn't a record that can be read ({error}): {remedy}.") from error
    if not isinstance(values, dict) or values.get("schema_version") != SCHEMA_VERSION:
        found = values.get("schema_version") if isinstance(values, dict) else None
        raise UserError(f"{path} is of schema version {found}, this program reads {SCHEMA_VERSION}: {remedy}.")
    try:
        return Record(**values)
    except TypeError as error:
        raise UserError(f"{path} is damaged ({error}): {remedy}.") from error


def read_records(folder: Path) -> dict[Path, Record]:
    """Every record in `folder`, by path, in the order of their names. Raises UserError for the first damaged one."""
    return {path: read_record(path) for path in sorted(folder.glob("*.json"))}
