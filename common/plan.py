"""Which launches a comparison makes, in which order, and how long they will take."""

import dataclasses
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas

from common import oracle
from common.config import PRESETS, Config, local_batch
from common.errors import UserError
from common.launch import UNDISTRIBUTED, framework_of, strategies

QUICK_CORE = (
    *("torch_single", "tf_one_device", "torch_ddp", "tf_mirrored"),
    *("tf_multi_worker_mirrored", "tf_parameter_server", "horovod_torch"),
)
"""The strategies of the quick profile, those that exist."""

FULL_REPETITIONS = 10
"""Launches per cell of the full profile: the fewest that a speed claim may rest on."""

# Rough figures seen on two cores: what starting takes, and the single-worker time of a step by preset.
_START_SECONDS = {"torch": 4.0, "tensorflow": 4.0, "horovod": 7.0}
_START_SECONDS_PER_WORKER = {"torch": 1.0, "tensorflow": 0.7, "horovod": 2.0}
_STEP_SECONDS = {"digits": 0.0005, "mnist": 0.001, "pathway": 0.003, "wide": 0.25}


@dataclass(frozen=True)
class Options:
    """What a comparison covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: minutes; the core strategies, weak scaling on pathway, the certificate and the accuracy on digits.
    full: hours; every strategy, weak and strong, three regimes, 10 launches a cell."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start."""
    preset: tuple[str, ...] = ()
    """Measure throughput on these presets; none named: the profile's."""
    repetitions: int | None = None
    """Launches per throughput cell; none: 10 (full), or as many as fit into the time (quick)."""

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
        exchange = "" if self.config.exchange else "-no_exchange"
        last = "certificate" if self.purpose == "certificate" else f"{self.repetition:02d}"
        return f"{self.strategy}-{self.config.preset}-{self.config.scaling}-{self.workers}w{exchange}-{last}"

    @property
    def estimated_seconds(self) -> float:
        """About how long the launch takes on two cores, from its start to its record."""
        framework = framework_of(self.strategy)
        start = _START_SECONDS[framework] + _START_SECONDS_PER_WORKER[framework] * self.workers
        work = local_batch(self.config, self.workers) / PRESETS[self.config.preset].batch * self.workers
        step = (
            _STEP_SECONDS[self.config.preset] * max(work / min(self.workers, 2), 0.5) * (1 if self.workers == 1 else 2)
        )
        return start + step * self.config.steps


def plan_round(options: Options, repetition: int, order: random.Random, seeds: dict[str, int]) -> list[Cell]:
    """The launches of one repetition, shuffled across frameworks; the first one holds the certificate as well.

    Rounds make blocks: each has every cell once, so a machine that slows down slows all of them. `seeds` are the seeds
    without a kink, by preset, that the certificate trains with.
    """
    cells = []
    for strategy, workers in _worlds(options):
        if repetition == 1:
            cells += [_certificate(strategy, workers, preset, seeds[preset]) for preset in certified_presets(options)]
        for config in _throughput_configs(options, workers):
            if config.scaling == "weak" or config.batch % workers == 0:
                cells.append(Cell(strategy, workers, "throughput", repetition, config))
    order.shuffle(cells)
    return cells


def certified_presets(options: Options) -> tuple[str, ...]:
    """Presets on which every strategy is held against the oracle."""
    return ("digits",) if options.profile == "quick" else ("digits", "pathway")


def kink_free_seeds(options: Options) -> dict[str, int]:
    """The certificate's seed for each of its presets; takes a second or two of NumPy."""
    configs = {preset: _certificate("", 1, preset, 0).config for preset in certified_presets(options)}
    return {preset: oracle.certificate_config(config, [config.batch]).seed for preset, config in configs.items()}


def plan_table(cells: list[Cell], order_seed: int) -> pandas.DataFrame:
    """The plan as the report reads it: one row per planned launch, in the order of the launches."""
    rows = [
        {
            "position": position,
            "cell": cell.name,
            "strategy": cell.strategy,
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


def _worlds(options: Options) -> list[tuple[str, int]]:
    """Every strategy with every number of workers that it can have."""
    existing = strategies()
    of_profile = [name for name in QUICK_CORE if name in existing] if options.profile == "quick" else list(existing)
    worlds = []
    for strategy in options.strategies or of_profile:
        counts = {1} if strategy in UNDISTRIBUTED else set(options.workers)
        worlds += [(strategy, workers) for workers in sorted(counts)]
    return worlds


def _throughput_configs(options: Options, workers: int) -> list[Config]:
    full = options.profile == "full"
    configs = []
    for preset in options.preset or (("digits", "pathway", "wide") if full else ("pathway",)):
        for scaling in ("weak", "strong") if full else ("weak",):
            config = dataclasses.replace(PRESETS[preset], scaling=scaling, workers=workers, deadline_seconds=180.0)
            configs.append(config)
            # T_comp, the same program without gradient exchange, wherever there is somebody to exchange with.
            if workers == 2 or (full and workers > 1):
                configs.append(dataclasses.replace(config, exchange=False))
    return configs


def _certificate(strategy: str, workers: int, preset: str, seed: int) -> Cell:
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
    return Cell(strategy, workers, "certificate", 1, config)
