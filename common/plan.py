"""Which launches a comparison makes, in which order, and how long they will take."""

import dataclasses
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas

from common import oracle
from common.config import MODEL_PARALLEL, PRESETS, Config, global_batch, is_synchronous
from common.errors import UserError
from common.launch import CLUSTERS, UNDISTRIBUTED, framework_of, strategies
from common.metrics import FEWEST_LAUNCHES
from common.names import variant

QUICK_CORE = (
    *("torch_single", "tf_one_device", "torch_ddp", "tf_mirrored"),
    *("tf_multi_worker_mirrored", "tf_parameter_server", "horovod_torch"),
)
"""The strategies of the quick profile, those that exist."""

FULL_REPETITIONS = 10
"""Launches per cell of the full profile: the fewest that a speed claim may rest on."""

_HOROVOD = (
    {"backend": "mpi"},
    # The cycle time that served horovod_torch best on pathway of those that tests/benchmarks/horovod_settings.py tries.
    {"cycle_milliseconds": 0.1},
    {"backend": "mpi", "cycle_milliseconds": 0.1},
    {"trace": True},
    {"backend": "mpi", "trace": True},
)

VARIANTS: dict[str, tuple[dict[str, object], ...]] = {
    "torch_ddp": ({"loader_workers": 1},),
    "torch_sync_sgd": ({"backend": "mpi"},),
    "horovod_torch": _HOROVOD,
    "horovod_tensorflow": _HOROVOD,
    "horovod_keras": ({"backend": "mpi"},),
}
"""Options with which the full profile launches a strategy as well: other ways to feed it, to carry its tensors and to
set it up, and with Horovod's own account of its time. One that can't be had here is counted as unsupported."""

ASYNCHRONOUS_STEPS = 1000
"""Steps of an asynchronous certificate of several workers: enough for a loss that tells how well it trained."""

# Rough figures seen on two cores: start and end of a launch, one worker's step by preset, and what exchange adds to it.
_START_SECONDS = {"torch": 2.6, "tensorflow": 2.7, "horovod": 4.0}
_START_SECONDS_PER_WORKER = {"torch": 1.1, "tensorflow": 0.1, "horovod": 0.8}
_START_SECONDS_ALONE = 2.9
_CLUSTER_SECONDS, _CLUSTER_SECONDS_PER_PROCESS = 2.0, 1.6
_STEP_SECONDS = {"digits": 0.0004, "mnist": 0.001, "pathway": 0.0015, "wide": 0.25}
_EXCHANGE_SECONDS = {"digits": 0.0015, "mnist": 0.0015, "pathway": 0.003, "wide": 0.05}
_IN_ONE_PROCESS = {"torch_data_parallel", "tf_mirrored", "tf_central_storage", "tf_keras_mirrored"}


@dataclass(frozen=True)
class Options:
    """What a comparison covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: minutes; the core strategies, weak scaling on pathway, the certificate and the accuracy on digits; six
    launches of the largest worlds that have a core for each worker, fewer of the others. full: hours; every strategy,
    weak and strong, three regimes, 10 launches a cell."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start."""
    preset: tuple[str, ...] = ()
    """Measure throughput on these presets; none named: the profile's."""
    repetitions: int | None = None
    """Launches of every throughput cell; none: 10 (full), or as many as fit into the time (quick)."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that doesn't exist."""
        for name in self.strategies:
            if name not in strategies():
                raise UserError(f"There is no strategy named '{name}': choose from {', '.join(strategies())}.")
        for name in self.preset:
            if name not in PRESETS:
                raise UserError(f"There is no preset named '{name}': choose from {', '.join(PRESETS)}.")
        counts = [*self.workers, 1 if self.repetitions is None else self.repetitions]
        if not self.workers or min(counts) < 1:
            raise UserError("--workers and --repetitions take whole numbers above 0.")


@dataclass(frozen=True)
class Cell:
    """One planned launch. Its name is that of its record, its log and its weights."""

    strategy: str
    workers: int
    purpose: Literal["certificate", "throughput"]
    repetition: int
    config: Config

    @property
    def name(self) -> str:
        """Unique in a comparison, and readable in a list of files."""
        details = [words.replace(" ", "_") for words in variant(self.config)]
        details += [] if self.config.exchange else ["no_exchange"]
        last = "certificate" if self.purpose == "certificate" else f"{self.repetition:02d}"
        world = [self.strategy, self.config.preset, self.config.scaling, f"{self.workers}w"]
        return "-".join([*world, *details, last])

    @property
    def estimated_seconds(self) -> float:
        """About how long the launch takes on two cores, from its start to its record."""
        return _start_seconds(self.strategy, self.workers) + self.config.steps * _step_seconds(self)


def plan_round(options: Options, repetition: int, order: random.Random, seeds: dict[str, int]) -> list[Cell]:
    """The launches of one repetition, shuffled across frameworks; the first one holds the certificate as well.

    Rounds make blocks: whatever a round has of a number of workers, it has of every strategy, once, so a machine that
    slows down slows all of them. `seeds` are the seeds without a kink, by preset, that the certificate trains with.

    In the full profile, and with `repetitions`, every round has every cell. In the quick one, starting processes takes
    most of the time, and six rounds of everything don't fit into ten minutes. What one chooses by is repeated most:

    - every round: the undistributed bases, and the largest worlds in which each worker has a core of its own;
    - rounds 1 and 4: smaller worlds, which serve as a base of the larger ones;
    - round 1: the certificate of every world (of asynchronous ones with several workers, that of those largest worlds);
      those without exchange; and worlds with more workers than cores, whose numbers show that it works, not how it
      scales;
    - rounds after the sixth, where strategies are few or the machine is fast: every cell.
    """
    cells = []
    for strategy, workers in _worlds(options):
        if repetition == 1:
            for preset in certified_presets(options):
                certificates = _certificates(options, strategy, workers, preset, seeds[preset])
                cells += [cell for cell in certificates if _is_certified(options, cell)]
        for config in _throughput_configs(options, strategy, workers):
            divides = config.scaling == "weak" or config.batch % workers == 0 or strategy in MODEL_PARALLEL
            if divides and _is_due(options, repetition, strategy, config):
                cells.append(Cell(strategy, workers, "throughput", repetition, config))
    order.shuffle(cells)
    return cells


def certified_presets(options: Options) -> tuple[str, ...]:
    """Presets on which every strategy is held against the oracle."""
    return ("digits",) if options.profile == "quick" else ("digits", "pathway")


def kink_free_seeds(options: Options) -> dict[str, int]:
    """The certificate's seed for each of its presets; takes a second or two of NumPy."""
    configs = {preset: _certificates(options, "", 1, preset, 0)[0].config for preset in certified_presets(options)}
    return {preset: oracle.certificate_config(config, [config.batch]).seed for preset, config in configs.items()}


def plan_table(cells: list[Cell], order_seed: int) -> pandas.DataFrame:
    """The plan as the report reads it: one row per planned launch, in the order of the launches."""
    rows = [
        {
            "position": position,
            "cell": cell.name,
            "strategy": cell.strategy,
            "variant": ", ".join(variant(cell.config)),
            "preset": cell.config.preset,
            "scaling": cell.config.scaling,
            "workers": cell.workers,
            "exchange": cell.config.exchange,
            "repetition": cell.repetition,
            "purpose": cell.purpose,
            "order_seed": order_seed,
        }
        for position, cell in enumerate(cells, start=1)
    ]
    return pandas.DataFrame(rows)


def with_long_windows(config: Config) -> Config:
    """`config` with three windows, four times as long as its own: what asynchronous throughput is measured with.

    A window ends when all of its updates are applied, so the workers run dry there; in short windows that would be a
    large part of the time.
    """
    window_steps = 4 * config.window_steps
    return dataclasses.replace(config, window_steps=window_steps, steps=config.warmup_steps + 3 * window_steps)


def _start_seconds(strategy: str, workers: int) -> float:
    """Seconds of a launch beside its steps: processes, frameworks, data, first step and end."""
    if strategy in CLUSTERS:
        processes = workers + (2 if strategy == "tf_parameter_server" else 0)
        return _CLUSTER_SECONDS + _CLUSTER_SECONDS_PER_PROCESS * processes
    if strategy in UNDISTRIBUTED:
        return _START_SECONDS_ALONE
    framework = framework_of(strategy)
    return _START_SECONDS[framework] + _START_SECONDS_PER_WORKER[framework] * workers


def _step_seconds(cell: Cell) -> float:
    config, workers = cell.config, cell.workers
    busy = min(workers, 2)
    compute, exchange = _STEP_SECONDS[config.preset], _EXCHANGE_SECONDS[config.preset] * config.exchange
    rows = global_batch(config, workers, one_model=cell.strategy in MODEL_PARALLEL)
    work = rows / PRESETS[config.preset].batch
    if cell.strategy in UNDISTRIBUTED | _IN_ONE_PROCESS:
        return compute * max(work / busy, 0.5)
    if cell.strategy == "tf_parameter_server":
        if is_synchronous(config, cell.strategy):
            return compute * max(work / busy, 0.5) + 2 * workers * exchange
        return compute / busy + 1.5 * _EXCHANGE_SECONDS[config.preset]
    # Seen with more workers than cores: they also wait for their turn on a core.
    crowded = workers / busy
    return compute * max(work / busy, 0.5) + (workers - 1) * crowded * exchange


def _worlds(options: Options) -> list[tuple[str, int]]:
    """Every strategy with every number of workers that it can have."""
    existing = strategies()
    of_profile = [name for name in QUICK_CORE if name in existing] if options.profile == "quick" else list(existing)
    worlds = []
    for strategy in options.strategies or of_profile:
        counts = {1} if strategy in UNDISTRIBUTED else set(options.workers)
        worlds += [(strategy, workers) for workers in sorted(counts)]
    return worlds


def _is_certified(options: Options, cell: Cell) -> bool:
    """Whether the profile has this certificate, as `plan_round` says."""
    if options.profile == "full" or is_synchronous(cell.config, cell.strategy):
        return True
    return cell.workers in (1, _largest_without_crowding(options))


def _largest_without_crowding(options: Options) -> int:
    """The largest number of workers asked for that the machine has cores for; the smallest one if it has for none."""
    counts = sorted(options.workers)
    return max((count for count in counts if count <= len(os.sched_getaffinity(0))), default=counts[0])


def _is_due(options: Options, repetition: int, strategy: str, config: Config) -> bool:
    """Whether a round has this throughput cell, as `plan_round` says."""
    if options.profile == "full" or options.repetitions or repetition == 1 or repetition > FEWEST_LAUNCHES:
        return True
    main = _largest_without_crowding(options)
    if not config.exchange or config.workers > main:
        return False
    return strategy in UNDISTRIBUTED or config.workers == main or repetition == 4


def _throughput_configs(options: Options, strategy: str, workers: int) -> list[Config]:
    full = options.profile == "full"
    configs = []
    for preset in options.preset or (("digits", "pathway", "wide") if full else ("pathway",)):
        for scaling in ("weak", "strong") if full else ("weak",):
            config = dataclasses.replace(PRESETS[preset], scaling=scaling, workers=workers, deadline_seconds=180.0)
            if not is_synchronous(config, strategy):
                config = with_long_windows(config)
            variants = [config]
            if full:
                variants += [dataclasses.replace(config, **values) for values in VARIANTS.get(strategy, ())]
            configs += variants
            # T_comp, the same program without gradient exchange, wherever there is somebody to exchange with.
            has_exchange_option = workers > 1 and strategy not in MODEL_PARALLEL
            if has_exchange_option and (full or workers == _largest_without_crowding(options)):
                configs += [dataclasses.replace(variant, exchange=False) for variant in variants]
    return configs


def _certificates(options: Options, strategy: str, workers: int, preset: str, seed: int) -> list[Cell]:
    """A launch of each variant; of a strategy that is asynchronous by default a synchronous one and one as it is."""
    config = dataclasses.replace(
        PRESETS[preset],
        scaling="strong",
        workers=workers,
        seed=seed,
        steps=300 if preset == "digits" else 120,
        checkpoint_steps=25,
        deadline_seconds=180.0,
        checkpoint=Path("weights.safetensors"),
    )
    if is_synchronous(config, strategy):
        variants = VARIANTS.get(strategy, ()) if options.profile == "full" else ()
        configs = [config, *(dataclasses.replace(config, **values) for values in variants)]
        return [Cell(strategy, workers, "certificate", 1, each) for each in configs]
    synchronous = dataclasses.replace(config, updates="synchronous")
    if workers > 1:
        config = dataclasses.replace(config, steps=ASYNCHRONOUS_STEPS, checkpoint_steps=50)
    return [Cell(strategy, workers, "certificate", 1, each) for each in (synchronous, config)]
