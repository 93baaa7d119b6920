"""The probes' loop: the products and convolutions of a step and one exchange of its gradients, clocked alone."""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from common.contract import model
from common.contract.layers import Convolution, Dense
from common.contract.task import Task
from common.declarations.strategy import Strategy
from common.measurement import startup
from common.measurement.world import World, facts_of
from common.records.ceiling import Ceiling, ClockedProduct, Product, Window, in_words
from common.records.files import from_json, write_record

WINDOWS, WINDOW_SECONDS = 7, 0.01
"""How many windows each operation is clocked in, and about how long each of them lasts."""

_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
"""Those on which libraries decide which of their kernels they use, by their names in /proc/cpuinfo."""


def products_of_step(task: Task, rows: int) -> list[Product]:
    """The products of one training step on so many rows with weights and kernels; those of attention are left out.

    The first layer needs no gradient by its inputs.
    """
    kinds: tuple[Literal["forward", "weight gradient", "input gradient"], ...]
    kinds = ("forward", "weight gradient", "input gradient")
    products = list[Product]()
    for number, (layer, shape) in enumerate(model.leaves(task)):
        image: tuple[int, ...] = ()
        if isinstance(layer, Convolution):
            image = (shape[0], shape[1], layer.size, layer.padding)
        elif not isinstance(layer, Dense):
            continue
        positions = 1 if image else math.prod(shape[:-1])
        for kind in kinds if number else kinds[:2]:
            products.append(Product(number, kind, rows * positions, layer.inputs, layer.outputs, *image))
    return products


def rows_per_worker(task: Task, workers: int) -> int:
    """Rows that each of so many workers has in a step."""
    return task.batch if task.scaling == "weak" else task.batch // workers


def clock_products(
    task: Task, world: World, ways: Callable[[Product], Mapping[str, tuple[Callable[[], object], int]]]
) -> list[ClockedProduct]:
    """Clock the products of a step on rank 0 alone; the other ranks wait for that, and have none.

    `ways` gives each way to compute a product by its name: a function, and how many times that computes the product.
    """
    clocked: list[ClockedProduct] = []
    alone = World(pinning=world.pinning, synchronize=world.synchronize)
    for product in products_of_step(task, rows_per_worker(task, world.size)) if world.rank == 0 else ():
        for way, (compute, at_once) in ways(product).items():
            clocked.append(ClockedProduct(**asdict(product), way=way, windows=clock(compute, alone, at_once)))
    world.all_gather(None)
    return clocked


def clock(compute: Callable[[], object], world: World, at_once: int = 1) -> list[Window]:
    """Windows of `compute`, which does `at_once` repetitions of what is clocked; every rank has to call."""
    # How many calls a window has is found first, which is the warm-up too.
    calls = 1
    # The shorter of two, so that one interruption doesn't cut all windows short.
    while (seconds := min(_seconds(compute, world, calls) for _ in range(2))) < WINDOW_SECONDS / 2:
        calls *= 2
    calls = math.ceil(calls * WINDOW_SECONDS / seconds)
    return [Window(repetitions=calls * at_once, seconds=_seconds(compute, world, calls)) for _ in range(WINDOWS)]


def _seconds(compute: Callable[[], object], world: World, calls: int) -> float:
    """What so many calls take, on the slowest rank; the ranks begin together, since each waits for the last answer."""
    world.synchronize()
    started = time.perf_counter()
    for _ in range(calls):
        compute()
    world.synchronize()
    return max(world.all_gather(time.perf_counter() - started))


def declared(strategy: Strategy, task: Task) -> dict[str, object]:
    """The fields of a ceiling that are known before the probe runs, which is started as `strategy` is."""
    workers = task.workers or 1
    assert strategy.family.probe
    return {
        "family": strategy.family.title,
        "framework": strategy.framework,
        "preset": task.preset,
        "dimensions": list(task.dimensions),
        "rows": rows_per_worker(task, workers),
        "world_size": workers,
        "threads_per_worker": task.threads,
        "operation": strategy.family.probe.operation,
        "exchanged_bytes": model.parameter_bytes(task) if workers > 1 else 0,
    }


def finish(
    strategy: Strategy,
    task: Task,
    world: World,
    products: list[ClockedProduct],
    exchange: list[Window],
    facts: Mapping[str, str],
) -> None:
    """Print what a probe has measured, and write it to `--record` where that is given; for rank 0 alone."""
    assert strategy.family.probe
    tried = {name for variables in strategy.family.probe.tried for name in variables}
    measured = {
        "status": "ok",
        "variables": {name: os.environ[name] for name in sorted(tried) if name in os.environ},
        "products": products,
        "exchange": exchange,
        "facts": dict(facts),
        "instruction_sets": instruction_sets(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        "elapsed_seconds": startup.seconds_since_start(),
    }
    about = declared(strategy, dataclasses.replace(task, workers=world.size))
    ceiling = from_json(about | facts_of(world, strategy.family.packages) | measured, Ceiling)
    if task.record:
        write_record(task.record, ceiling)
    print("\n".join(in_words(ceiling)), flush=True)


def instruction_sets(cpuinfo: str) -> list[str]:
    """Those of the first processor in the text of /proc/cpuinfo on which libraries choose their kernels."""
    flags = next((line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags")), [])
    return [name for name in _INSTRUCTION_SETS if name in flags]
