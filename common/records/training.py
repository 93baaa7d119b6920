"""The record of one launch that trained: raw measurements, and what its declaration says.

A few fields are derived, as their documentation says; of each window core_seconds is a product, and spin_seconds and
clock_megahertz are means.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import numpy as np

from common.contract.reading import Reading
from common.contract.rows import Piece
from common.contract.task import Task
from common.declarations.strategy import name_of
from common.records.header import (
    Amount,
    Count,
    Duration,
    Finite,
    Header,
    Moment,
    Part,
    Positive,
    Seconds,
    Share,
    Value,
)
from common.records.quotation import Quotation
from common.records.site import hosts_in_words

_ROUNDING = 1e-6  # By which share a mean may differ from the one that is worked out again.

TICK_SECONDS = 0.01
"""In what steps Linux tells the times of its cores (USER_HZ is 100 on every machine that the frameworks run on)."""


class Window(Part, frozen=True, kw_only=True):
    """A clocked window of one rank, and what else happened meanwhile, None where the kernel doesn't tell."""

    rank: Count
    step: Count
    """Its first."""
    steps: Positive
    """How many it has."""
    seconds: Duration
    started_seconds: Seconds | None = None
    """When its clock started, since the start of the rank's process."""
    input_seconds: Seconds | None = None
    """Those of its seconds that the rank waited for its rows, where the strategy measures it."""
    own_seconds: Seconds | None = None
    """Processor time of all threads of the rank's process."""
    core_seconds: Seconds | None = None
    """The time in between, times the cores that the rank may run on."""
    steal_seconds: Moment | None = None
    """Those of them that the hypervisor gave to other machines."""
    throttled_seconds: Seconds | None = None
    """How long a quota of control groups kept the launch's processes off all cores together; None without a quota."""
    busy_seconds: Moment | None = None
    """Those of them that processes ran, this rank's own among them, only where these cores are its own. Interrupts
    aren't in it; some kernels count them in own_seconds, so others took at least the difference."""
    involuntary_switches: Count | None = None
    """How often the kernel took a core from one of the rank's threads for another thread."""
    spin_seconds: Seconds | None = None
    """What a fixed piece of work took, the mean of before and after."""
    clock_megahertz: Amount | None = None
    """The mean rate of its cores at the end."""


class Startup(Part, frozen=True, kw_only=True):
    """Seconds from the start of a process to the end of its first step, in parts."""

    imports: Seconds
    """Of the script, the framework among them."""
    world: Seconds
    """Joining the other workers."""
    first_step: Seconds
    """The rest: the rows, the model, compiling or tracing it."""

    @property
    def total(self) -> float:
        """Their sum."""
        return self.imports + self.world + self.first_step


class Memory(Part, frozen=True, kw_only=True):
    """Bytes that one process holds, each None where nothing tells."""

    parameters: Count | None = None
    gradients: Count | None = None
    optimizer_state: Count | None = None
    above_import: Count | None = None
    """How far its resident memory rose above what it had before the data came, the framework imported."""
    device_peak: Count | None = None
    """On a GPU."""


class Accuracy(Part, frozen=True, kw_only=True):
    """The share of the test rows that were classified rightly after so many steps."""

    step: Count
    accuracy: Share
    training_seconds: Seconds
    """In clocked windows, until then."""


class Phase(Part, frozen=True, kw_only=True):
    """A phase of a framework's exchange."""

    name: str
    seconds: Seconds
    """How long at least one gradient was in it, over all steps of the launch."""
    meaning: str


class Record(Header, frozen=True, kw_only=True, tag="training"):
    """What one launch measured, or why it measured nothing."""

    strategy: str
    """Name of the strategy, as its declaration has it."""
    label: str = ""
    """Options that aren't at their default, in words. Launches with different labels are never pooled."""
    framework: str = ""
    """What computes, as the declaration names it."""
    base: str | None = None
    """Name of the strategy that distributes nothing, which speed-up is over; null: this one is."""
    script: str = ""
    """The strategy's program, from the project's root."""
    distributed_by: list[Quotation] = []
    """The lines that its comments say make it distributed. Presentation."""
    compared_with: dict[str, str] = {}
    """By relation, such as `convenience of`, the name of another strategy."""
    synchronous: bool
    """Whether every step sees every worker's gradients, so that the oracle is followed step by step."""
    recipe: str = ""
    """The name of the `Recipe` that its updates are to have; empty where none is declared."""
    other_maths: list[str] = []
    """Names of the options by which it computes something else than the oracle on purpose."""
    formula_bytes_per_step: Amount | None = None
    """Bytes sent in a step by the algorithm's formula: by all processes together, or, with several hosts, from host to
    host. Null: no formula rests on the size of the model and the number of workers alone."""
    formula: str = ""
    """That formula in words, with N for the number of workers and H for that of hosts. Presentation."""
    formula_source: str = ""
    """The paper or the document that has the formula. Presentation."""
    scaling: Literal["strong", "weak"]
    """What the batch in `task` counts: rows of all workers (strong) or of each (weak)."""
    task: Task
    """What was to be computed."""
    options: dict[str, Value] = {}
    """The strategy's own options, as its folder's `strategies.py` documents them."""
    processes_beside: Count = 0
    """Processes beside the workers, such as servers, of which each takes a core as a worker does."""
    host_bytes_per_step: list[Amount] = []
    """Bytes that each of several hosts sent to the others per step, derived, packet headers included."""
    process_start_seconds: list[Moment] = []
    """By rank, when its process started, by its host's clock that counts from boot."""
    data_sha256: str | None = None
    """SHA-256 of all rows of the dataset."""
    data: str = ""
    """Of which data set the preset `mnist` had its rows, by the digests of the files, such as Fashion-MNIST; empty for
    other presets, and in older records."""
    first_step: Count = 0
    """The step that the run began with; above 0 when it went on from a checkpoint."""
    earlier_pieces: list[Piece] = []
    """The steps before, from the first on, that had global batches of other sizes: those of an elastic launch with weak
    scaling until a worker went or came."""
    time_to_first_step_s: Seconds | None = None
    """Of the slowest rank, the sum of `startup_seconds`."""
    startup_seconds: Startup | None = None
    """Seconds of the slowest rank from the start of its process to the end of its first step, in parts."""
    startup_processor_seconds: Startup | None = None
    """The processor time of all threads of that rank's process in each of these parts."""
    windows: list[Window] = []
    """Each clocked window of each rank."""
    examples_per_step: Count = 0
    """Rows that the global batch has."""
    examples_by_rank: list[Count] = []
    """Rows that the losses of each process were taken of, over all steps of this run. Parts of one model see the same
    rows, which count once, for rank 0."""
    losses: list[Finite | None] = []
    """Loss of every step, the mean over the shards', derived; null where it isn't finite."""
    shards: Count = 1
    """Equal parts into which the workers divide every global batch; 1 where each of them gets all its rows."""
    shard_losses: list[list[Finite | None]] = []
    """Loss of every step of each shard, the mean over its rows, by rank; where nothing is divided, of each process that
    has a loss. Null where it isn't finite."""
    wire_bytes_per_step: Amount | None = None
    """Bytes sent per step, packet headers included, derived: over the launch's own loopback, or, with several hosts,
    the sum of `host_bytes_per_step`. Null where nothing counted them."""
    peak_memory_bytes: list[Count] = []
    """Largest resident memory of each process."""
    memory_bytes: list[Memory] = []
    """What each process holds of the model."""
    accuracies: list[Accuracy] = []
    """On the test rows, in the order of the steps."""
    final_accuracy: Share | None = None
    """Share of the test rows that the final weights classify rightly, 0 to 1."""
    staleness: list[Count] = []
    """Of every asynchronous update how many others were applied between its reading of the weights and its being
    applied, as the server of the first layer counts them; empty for synchronous strategies."""
    restarted_workers: Count = 0
    """How often a worker was lost and came back while the run went on."""
    phases: list[Phase] = []
    """The framework's own account of its exchange, where it was asked for one."""
    evidence_sha256: str = ""
    """SHA-256 of the file beside the record with the states before and after some steps; empty where there is none, or
    none any more."""
    reading: Reading | None = None
    """What whoever started the launch read from that file, which may be gone since."""
    checkpoint: str | None = None
    """Name of the file with the final weights, in the record's folder or as a path."""

    @property
    def name(self) -> str:
        """The strategy with `full_label`: launches with different names are never pooled, nor drawn as one curve."""
        return name_of(self.strategy, self.full_label)

    @property
    def full_label(self) -> str:
        """Its label, what it suffered, if anything, and its hosts where there are several."""
        fault = self.task.fault.in_words if self.task.fault else ""
        return ", ".join(filter(None, [self.label, fault, self.placement]))

    @property
    def placement(self) -> str:
        """On how many hosts its workers are, and over what link where that was chosen; empty where one has them all."""
        return hosts_in_words(self.hosts, self.virtual)

    @property
    def exchange(self) -> bool:
        """Whether gradients were exchanged."""
        return bool(self.options.get("exchange", True))

    def flaws(self) -> Iterator[str]:
        try:
            has_zone = datetime.fromisoformat(self.started_at).tzinfo is not None
        except ValueError:
            has_zone = False
        if not has_zone:
            yield "started_at isn't a time with its zone"
        if self.status == "ok" and min(self.world_size, self.examples_per_step, self.shards) < 1:
            yield "it is ok without workers, rows or shards"
        if self.status == "ok" and self.examples_per_step % self.shards:
            yield "its shards don't divide its rows"
        if self.hosts and sum(host.workers for host in self.hosts) < self.world_size:
            yield "its hosts have fewer workers than it has"
        if len(self.host_bytes_per_step) not in (0, len(self.hosts)):
            yield "its host_bytes_per_step aren't those of its hosts"
        if self.accuracies and self.final_accuracy is None:
            yield "it has accuracies and no final_accuracy"
        if len(self.examples_by_rank) > self.world_size:
            yield "it counts rows of more ranks than it has workers"
        if not self._has_means_of_shards():
            yield "its losses aren't the means of its shards' losses"
        if (self.losses or self.windows) and self.first_step >= self.task.steps:
            yield "it begins with a step that its task doesn't have"
        if sum(piece.steps for piece in self.earlier_pieces) > self.first_step:
            yield "its earlier pieces have more steps than came before it"
        if any(piece.global_batch % self.task.batch for piece in self.earlier_pieces):
            yield "its earlier pieces have rows that no number of workers has"

    def _has_means_of_shards(self) -> bool:
        """Whether each loss is the mean over the shards', where these have as many steps."""
        if {len(losses) for losses in self.shard_losses} != {len(self.losses)}:
            return True
        # What isn't finite is null, and becomes NaN.
        losses, shards = np.array(self.losses, np.float64), np.array(self.shard_losses, np.float64)
        return np.allclose(losses, shards.mean(axis=0), rtol=_ROUNDING, atol=0.0, equal_nan=True)
