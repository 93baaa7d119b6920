"""The run record: one immutable JSON file per launch. It holds raw measurements, and what its declaration says.

A few fields are derived: `losses` (means over the shards), `time_to_first_step_s` (the sum of its parts),
`wire_bytes_per_step` and `host_bytes_per_step` (bytes over steps), `formula_bytes_per_step`, and of each window
core_seconds (a product) and the means in spin_seconds and clock_megahertz.
"""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.contract.task import Task
from common.declarations.strategy import name_of
from common.errors import UserError
from common.files import write_atomically
from common.records.json_types import misfits
from common.records.site import placement

SCHEMA_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one launch measured, or why it measured nothing. Every field is one key of the JSON file."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older records get."""
    strategy: str
    """Name of the strategy, as its declaration has it."""
    label: str = ""
    """Those of the strategy's own options that aren't at their default, in words. Launches of a strategy with different
    labels are never pooled."""
    family: str = ""
    """What the strategy's folder calls itself in prose."""
    colors: list[str] = field(default_factory=list)
    """What the family is drawn in, from dark to light."""
    framework: str = ""
    """What computes, as the declaration names it."""
    base: str | None = None
    """Name of the strategy that distributes nothing, which speed-up is over; null: this is one."""
    script: str = ""
    """The strategy's program, from the project's root."""
    distributed_by: list[dict[str, object]] = field(default_factory=list)
    """{line, code}: what that program's own comments say makes it distributed, each a comment with the statement below
    it, and the number of its first line there."""
    compared_with: dict[str, str] = field(default_factory=dict)
    """By relation, such as `convenience of`, the name of another strategy."""
    world_size: int
    """Workers: processes, or replicas that one process holds or feeds."""
    synchronous: bool
    """Whether every step sees every worker's gradients, so that the oracle is followed step by step."""
    alone: str = ""
    """What its workers compute where they exchange nothing, as the name of an `Alone`; empty: no oracle computes it."""
    other_maths: list[str] = field(default_factory=list)
    """Names of the options by which the launch computes something else than the oracle on purpose."""
    formula_bytes_per_step: float | None = None
    """Bytes sent in a step by the formula of the strategy's algorithm, derived: by all processes together, or, with
    several hosts, from host to host. Null: there is none that rests on the size of the model and the number of workers
    alone."""
    formula: str = ""
    """That formula in words, with N for the number of workers and H for that of hosts."""
    formula_source: str = ""
    """The paper or the document that has the formula."""
    scaling: Literal["strong", "weak"]
    """What the batch in `task` counts: rows of all workers (strong) or of each (weak)."""
    status: Literal["ok", "unsupported", "failed"]
    """How the launch ended."""
    reason: str | None = None
    """Why a launch isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the record's folder."""
    task: dict[str, object]
    """What was to be computed, as `common/contract/task.py` documents it."""
    options: dict[str, object] = field(default_factory=dict)
    """The strategy's own options, as its folder's `strategies.py` documents them."""
    backend: str = ""
    """What carried the tensors, such as gloo."""
    device: str = "cpu"
    """What computed: cpu, or a GPU's name."""
    threads_per_worker: int
    """Threads that each worker computed with."""
    processes_beside: int = 0
    """Processes beside the workers, such as servers, of which each takes a core as a worker does."""
    oversubscribed: bool = False
    """Whether the workers of rank 0's machine, and the processes beside them, had more threads than it has cores; then
    nothing was pinned."""
    pinned_cores: list[int] = field(default_factory=list)
    """Cores that rank 0's process was kept on."""
    private_network: bool = False
    """Whether the launch had a network namespace to itself."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, the framework and the libraries."""
    packages_digest: str | None = None
    """SHA-256 of the names and versions of all that is installed where rank 0 ran; null in older records."""
    host: dict[str, object] = field(default_factory=dict)
    """Rank 0's machine: processor, cores, memory, GPUs, system."""
    hosts: list[dict[str, object]] = field(default_factory=list)
    """{name, hostname, workers, cores, processor, address, interface, clock_offset_seconds, clock_uncertainty_seconds}:
    each host of a comparison over several that had workers of this launch, in the order of the ranks; how many it had;
    and by how much its clock that counts from boot was ahead of that of the machine that started the launch, to within
    the uncertainty either way. Empty where a machine was compared on its own."""
    virtual: dict[str, float | None] = field(default_factory=dict)
    """{bandwidth_bits_per_second, delay_seconds, cores_per_host}: what was asked for of virtual hosts on one machine,
    each null where it wasn't; empty where hosts are real."""
    link: dict[str, float] = field(default_factory=dict)
    """{bytes_per_second, round_trip_seconds}: what went from one of the hosts to another before the launch: payload of
    TCP, and the shortest of many small messages there and back."""
    host_bytes_per_step: list[float] = field(default_factory=list)
    """Bytes that each of several hosts sent to the others per step, derived, packet headers included, in their
    order."""
    process_start_seconds: list[float] = field(default_factory=list)
    """By rank, when its process started, by its host's clock that counts from boot."""
    git_commit: str | None = None
    """Commit of this project, `+changes` when the files differ from it."""
    started_at: str
    """When rank 0's process started: ISO 8601, UTC."""
    data_sha256: str | None = None
    """SHA-256 of all rows of the dataset."""
    first_step: int = 0
    """The step that the run began with; above 0 when it went on from a checkpoint."""
    time_to_first_step_s: float | None = None
    """Seconds from the start of the process to the end of its first step, of the slowest rank: the sum of their parts
    in `startup_seconds`."""
    startup_seconds: dict[str, float] = field(default_factory=dict)
    """Those seconds in parts: `imports` of the script, the framework among them; joining the `world`; and the rest up
    to the end of the `first_step`: the rows, the model, compiling or tracing it."""
    startup_processor_seconds: dict[str, float] = field(default_factory=dict)
    """The processor time of all threads of that rank's process in each of these parts."""
    windows: list[dict[str, float]] = field(default_factory=list)
    """{rank, step, steps, seconds}: each clocked window of each rank, with its first step and how many it has;
    started_seconds, when its clock started, since the start of the rank's process; and input_seconds, those of its
    seconds that the rank waited for its rows, where the strategy measures it.

    And what else happened, read by the rank just before the clock started and after it had stopped, each where the
    kernel tells it: own_seconds, the processor time of all threads of the rank's process; core_seconds, the time in
    between, times the cores that the rank may run on; steal_seconds, those of them that the hypervisor gave to other
    machines; busy_seconds, those that processes ran, this rank's own among them, only where these cores are its own
    (interrupts aren't in busy_seconds, but some kernels count them in own_seconds, so others took at least the
    difference); involuntary_switches, how often the kernel took a core from one of the rank's threads for another
    thread; spin_seconds, what a fixed piece of work took, the mean of before and after; and clock_megahertz, the mean
    rate of its cores at the end."""
    examples_per_step: int = 0
    """Rows that the global batch has."""
    examples_by_rank: list[int] = field(default_factory=list)
    """Rows that the losses of each process were taken of, over all steps of this run. Parts of one model see the same
    rows, which count once, for rank 0."""
    losses: list[float | None] = field(default_factory=list)
    """Loss of every step, the mean over the global batch, derived from the shards'; null where it isn't finite."""
    shards: int = 1
    """Into how many equal parts the workers divide every global batch; 1 where each of them gets all its rows."""
    shard_losses: list[list[float | None]] = field(default_factory=list)
    """Loss of every step of each shard, the mean over its rows, as the worker or replica that had it computed it, by
    rank; where nothing is divided, of each process that has a loss. Null where it isn't finite."""
    wire_bytes_per_step: float | None = None
    """Bytes sent per step, packet headers included, derived: over the launch's own loopback, or, with several hosts,
    from host to host, the sum of `host_bytes_per_step`. Null where nothing counted them: on one host without a private
    network, and on several where not every worker is a process that reads its host's counters."""
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
    phases: list[dict[str, object]] = field(default_factory=list)
    """{name, seconds, meaning}: the framework's own account of its exchange, where it was asked for one: how long at
    least one gradient was in each phase, over all steps of the launch."""
    checkpoint: str | None = None
    """Name of the file with the final weights, in the record's folder or as a path."""
    replica_checkpoints: list[str] = field(default_factory=list)
    """Names of the files beside it that have those of all replicas but the first, where the workers exchanged nothing
    and so have weights of their own."""

    @property
    def name(self) -> str:
        """The strategy with its label, and its hosts where there are several.

        Launches with different names are never pooled, nor drawn as one curve.
        """
        return name_of(self.strategy, self.full_label)

    @property
    def full_label(self) -> str:
        """Its label, and its hosts where there are several."""
        return ", ".join(filter(None, [self.label, self.placement]))

    @property
    def placement(self) -> str:
        """On how many hosts its workers are, and over what link where that was chosen; empty where one has them all."""
        return placement(self.hosts, self.virtual)

    @property
    def exchange(self) -> bool:
        """Whether gradients were exchanged."""
        return bool(self.options.get("exchange", True))


def write_record(path: Path, record: Record) -> None:
    """Write the record's JSON whole or not at all. Raises UserError when its folder can't be written to."""
    values = dataclasses.asdict(record)
    values["losses"] = _finite(record.losses)
    values["shard_losses"] = [_finite(losses) for losses in record.shard_losses]
    write_atomically(path, (json.dumps(values, indent=1, default=str, allow_nan=False) + "\n").encode())


def _finite(losses: Sequence[float | None]) -> list[float | None]:
    return [loss if loss is not None and math.isfinite(loss) else None for loss in losses]


def read_record(path: Path) -> Record:
    """The record in `path`. Raises UserError when it is damaged or of another schema version."""
    remedy = "delete it and run its launch again"
    try:
        values = json.loads(path.read_text(), parse_constant=_refuse)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} isn't a record that can be read ({error}): {remedy}.") from error
    if not isinstance(values, dict) or values.get("schema_version") != SCHEMA_VERSION:
        found = values.get("schema_version") if isinstance(values, dict) else None
        raise UserError(f"{path} is of schema version {found}, this program reads {SCHEMA_VERSION}: {remedy}.")
    try:
        record = Record(**values)
    except TypeError as error:
        raise UserError(f"{path} is damaged ({error}): {remedy}.") from error
    wrong = misfits(values, Record) or [f"{name} of the task" for name in misfits(record.task, Task)]
    if wrong:
        raise UserError(f"{path} is damaged (no record has such a value of {', '.join(wrong)}): {remedy}.")
    return record


def read_records(folder: Path) -> dict[Path, Record]:
    """Every record in `folder`, by path, in the order of their names. Raises UserError for the first damaged one."""
    return {path: read_record(path) for path in sorted(folder.glob("*.json"))}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
