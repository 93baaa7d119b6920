"""Ceilings: how fast a framework's own operations are on this machine, whatever a strategy makes of them.

A probe clocks the matrix products of one training step, and one exchange of its gradients with nothing else going on.
It leaves one JSON file, immutable as a launch's record is: raw windows, never derived numbers.
"""

import dataclasses
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.contract import mlp
from common.contract.task import Task
from common.declarations.strategy import Strategy
from common.measurement import startup
from common.measurement.world import World, facts_of
from common.records.json_files import read_dataclass, write_dataclass

SCHEMA_VERSION = 1

FOLDER = "ceilings"
"""Where a comparison's folder has them, apart from the records of its launches."""

AS_TRAINED = "as trained"
"""The way to compute a product that the framework's strategies take."""

WINDOWS, WINDOW_SECONDS = 7, 0.01
"""How many windows each operation is clocked in, and about how long each of them lasts."""

_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
"""Those on which libraries decide which of their kernels they use, by their names in /proc/cpuinfo."""

Window = dict[str, float]
"""{repetitions, seconds}: how often an operation was repeated, and how long that took, on the slowest rank."""


@dataclass(frozen=True)
class Product:
    """One matrix product of a training step, of a layer from `inputs` to `outputs` and so many rows."""

    layer: int
    kind: Literal["forward", "weight gradient", "input gradient"]
    """(rows, inputs) by (inputs, outputs); (inputs, rows) by (rows, outputs); (rows, outputs) by (outputs, inputs)."""
    rows: int
    inputs: int
    outputs: int

    @property
    def operations(self) -> int:
        """Floating point operations: a multiplication and an addition for each row, input and output."""
        return 2 * self.rows * self.inputs * self.outputs


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """What one probe measured, or why it measured nothing. Every field is one key of the JSON file."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older files get."""
    family: str
    """What the probe's folder calls itself in prose."""
    framework: str
    """What computes, as the declarations of strategies name it."""
    status: Literal["ok", "unsupported", "failed"]
    """How the probe ended."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the same folder."""
    preset: str
    dimensions: list[int]
    """Width of the input, of every hidden layer and of the output."""
    rows: int
    """Rows per step of one worker."""
    workers: int
    """Processes among which the exchange was clocked; the products were clocked in the first of them, alone."""
    threads: int
    """Threads that each of them computed with."""
    variables: dict[str, str] = field(default_factory=dict)
    """Those environment variables that were set, of all that the probe's declaration tries."""
    products: list[dict[str, object]] = field(default_factory=list)
    """The fields of each `Product`, the `way` in which it was computed, and its `windows`; empty where the probe clocks
    none."""
    exchange: list[Window] = field(default_factory=list)
    """Windows of one exchange of `exchanged_bytes`; empty with one worker."""
    exchanged_bytes: int = 0
    """As many as one worker's gradients have."""
    operation: str = ""
    """What exchanged them, in words."""
    backend: str = ""
    """What carried them, such as gloo."""
    device: str = "cpu"
    """What computed: cpu, or a GPU's name."""
    facts: dict[str, str] = field(default_factory=dict)
    """What the framework tells of the libraries and the instruction sets that it computes with."""
    instruction_sets: list[str] = field(default_factory=list)
    """Those of the processor on which libraries decide which of their kernels they use."""
    pinned_cores: list[int] = field(default_factory=list)
    """Cores that the first process was kept on."""
    private_network: bool = False
    """Whether the probe had a network namespace to itself."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, the framework and the libraries."""
    host: dict[str, object] = field(default_factory=dict)
    """The first process's machine: processor, cores, memory, GPUs, system."""
    started_at: str
    """When the first process started: ISO 8601, UTC."""
    elapsed_seconds: float = 0.0
    """From then until it had measured everything."""


def products_of_step(task: Task, rows: int) -> list[Product]:
    """The matrix products of one training step on so many rows, layer by layer.

    Nobody needs the gradient by the features, so the first layer has two of them and every other one three.
    """
    found = []
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(task.dimensions)):
        kinds = ("forward", "weight gradient", "input gradient") if layer else ("forward", "weight gradient")
        found += [Product(layer, kind, rows, inputs, outputs) for kind in kinds]
    return found


def rows_per_worker(task: Task, workers: int) -> int:
    """Rows that each of so many workers has in a step."""
    return task.batch if task.scaling == "weak" else task.batch // workers


def clock(compute: Callable[[], object], world: World, at_once: int = 1) -> list[Window]:
    """Windows of `compute`, which does `at_once` repetitions of what is clocked; every rank of the world has to call.

    How many calls a window has is found first, which is the warm-up too.
    """
    calls = 1
    # The shorter of two, so that one interruption doesn't cut all windows short.
    while (seconds := min(_seconds(compute, world, calls) for _ in range(2))) < WINDOW_SECONDS / 2:
        calls *= 2
    calls = math.ceil(calls * WINDOW_SECONDS / seconds)
    return [{"repetitions": calls * at_once, "seconds": _seconds(compute, world, calls)} for _ in range(WINDOWS)]


def _seconds(compute: Callable[[], object], world: World, calls: int) -> float:
    """What so many calls take, on the slowest rank; the ranks begin together, since each waits for the last answer."""
    world.synchronize()
    started = time.perf_counter()
    for _ in range(calls):
        compute()
    world.synchronize()
    return max(world.all_gather(time.perf_counter() - started))


def seconds_of(windows: Sequence[Window]) -> float:
    """Seconds of one repetition, of the median window."""
    return statistics.median(window["seconds"] / window["repetitions"] for window in windows)


def declared(strategy: Strategy, task: Task) -> dict[str, object]:
    """The fields of a ceiling that are known before the probe runs, which is started as `strategy` is."""
    workers = task.workers or 1
    return {
        **{"family": strategy.family.title, "framework": strategy.framework, "preset": task.preset},
        **{"dimensions": list(task.dimensions), "rows": rows_per_worker(task, workers), "workers": workers},
        **{"threads": task.threads, "operation": strategy.family.probe.operation},
        "exchanged_bytes": mlp.parameter_bytes(task) if workers > 1 else 0,
    }


def finish(
    strategy: Strategy,
    task: Task,
    world: World,
    products: list[dict[str, object]],
    exchange: list[Window],
    facts: Mapping[str, str],
) -> None:
    """Print what a probe has measured, and write it to `--record` where that is given; for rank 0 alone."""
    tried = {name for variables in strategy.family.probe.tried for name in variables}
    ceiling = Ceiling(
        **declared(strategy, dataclasses.replace(task, workers=world.size)),
        status="ok",
        variables={name: os.environ[name] for name in sorted(tried) if name in os.environ},
        products=products,
        exchange=exchange,
        facts=dict(facts),
        instruction_sets=instruction_sets(Path("/proc/cpuinfo").read_text()),
        elapsed_seconds=startup.seconds_since_start(),
        **facts_of(world, strategy.family.packages),
    )
    if task.record:
        write_ceiling(task.record, ceiling)
    print("\n".join(in_words(ceiling)), flush=True)


def in_words(ceiling: Ceiling) -> list[str]:
    """What a probe has measured: a line for each way to compute the step's products, and one for the exchange."""
    lines = []
    for way in dict.fromkeys(str(each["way"]) for each in ceiling.products):
        seconds, rate = step_seconds(ceiling, way), gigaflops(ceiling, way)
        lines.append(f"products, {way}: {1000 * seconds:.3f} ms a step, {rate:.0f} GFLOP/s")
    if ceiling.exchange:
        seconds, megabytes = seconds_of(ceiling.exchange), ceiling.exchanged_bytes / 1e6
        lines.append(f"exchange, {ceiling.operation}: {1000 * seconds:.3f} ms for {megabytes:.3f} MB")
    return lines


def step_seconds(ceiling: Ceiling, way: str = AS_TRAINED) -> float:
    """Seconds of all products of a step, each in its median window; 0 where none was computed in this way."""
    return sum(seconds_of(each["windows"]) for each in ceiling.products if each["way"] == way)


def gigaflops(ceiling: Ceiling, way: str = AS_TRAINED) -> float:
    """Billions of floating point operations per second over all products of a step; NaN where there are none."""
    own = [product_of(each) for each in ceiling.products if each["way"] == way]
    return sum(product.operations for product in own) / step_seconds(ceiling, way) / 1e9 if own else math.nan


def product_of(values: Mapping[str, object]) -> Product:
    """The product that an entry of a ceiling's `products` is about."""
    return Product(**{each.name: values[each.name] for each in dataclasses.fields(Product)})


def instruction_sets(cpuinfo: str) -> list[str]:
    """Those of the first processor in the text of /proc/cpuinfo on which libraries choose their kernels."""
    flags = next((line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags")), [])
    return [name for name in _INSTRUCTION_SETS if name in flags]


def write_ceiling(path: Path, ceiling: Ceiling) -> None:
    """Write the JSON whole or not at all. Raises UserError when its folder can't be written to."""
    write_dataclass(path, ceiling, indent=1)


def read_ceiling(path: Path) -> Ceiling:
    """The ceiling in `path`. Raises UserError when it is damaged or of another schema version."""
    return read_dataclass(path, Ceiling, "a ceiling", "delete it and run the comparison again")


def read_ceilings(folder: Path) -> list[Ceiling]:
    """Every ceiling of the comparison in `folder`, in the order of their files. Raises UserError for a damaged one."""
    return [read_ceiling(path) for path in sorted((folder / FOLDER).glob("*.json"))]
