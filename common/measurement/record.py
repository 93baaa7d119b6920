"""Make the record of a launch of a strategy: from what is declared, and from what its ranks measured."""

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import asdict

from common.contract import model
from common.contract.rows import shards_of
from common.contract.task import Task
from common.contract.work import Work
from common.declarations.strategy import Options, Strategy, label, other_maths
from common.measurement import machine
from common.measurement.world import World, facts_of
from common.records import metrics
from common.records.files import from_json
from common.records.site import Site, site
from common.records.training import Memory, Record, Startup, Window


@dataclass(frozen=True)
class Part:
    """What each rank has measured, gathered by rank 0. The fields are those of `Record`, of one rank."""

    windows: list[Window]
    losses: list[list[float]]
    """Loss of every step, of each shard that this process has; none where it sees no loss."""
    examples: int
    startup_seconds: Startup
    startup_processor_seconds: Startup
    peak_memory_bytes: int
    memory_bytes: Memory
    process_start_seconds: float
    sent_bytes: int
    """In all clocked windows, by this process's host."""
    data_sha256: str


def wire_bytes(parts: Sequence[Part], workers: int, steps: int) -> dict[str, object]:
    """The fields of a record on the bytes sent per step, from what each rank's host sent in so many `steps`."""
    if machine.has_private_network():
        return {"wire_bytes_per_step": parts[0].sent_bytes / steps}
    launch_site = site()
    # Where only a coordinator has a clock, nobody read the counters of the other hosts.
    if launch_site is None or len(launch_site.hosts) < 2 or len(parts) < workers:
        return {"wire_bytes_per_step": None}
    if workers != sum(host.workers for host in launch_site.hosts):
        # Workers were lost, and which hosts the others are on isn't known.
        return {"wire_bytes_per_step": None}
    by_host = [part.sent_bytes / steps for part in parts[:: workers // len(launch_site.hosts)]]
    return {"wire_bytes_per_step": sum(by_host), "host_bytes_per_step": by_host}


def declared(
    strategy: Strategy, task: Task, options: Options, world_size: int, launch_site: Site | None = None
) -> dict[str, object]:
    """The fields of a record that are known before the launch: from the declaration, the task, the options, its hosts.

    The hosts are those of `launch_site`, or else what this process was told.
    """
    launch_site = launch_site or site()
    hosts = len(launch_site.hosts) if launch_site else 1
    traffic = strategy.traffic(model.parameter_bytes(task), world_size, options, hosts)
    synchronous = strategy.is_synchronous(options)
    return (launch_site.facts() if launch_site else {}) | {
        "strategy": strategy.name,
        "label": label(options),
        "framework": strategy.framework,
        "family": strategy.family.title,
        "base": strategy.base,
        "compared_with": dict(strategy.compared_with),
        "script": strategy.script,
        "synchronous": synchronous,
        "other_maths": other_maths(options),
        "recipe": recipe.name if (recipe := strategy.recipe(options)) else "",
        "world_size": world_size,
        "shards": shards_of(strategy.work, synchronous, world_size),
        "scaling": task.scaling,
        "threads_per_worker": task.threads,
        "processes_beside": strategy.processes_beside(options),
        "formula_bytes_per_step": traffic.bytes_per_step,
        "task": task,
        "options": dataclasses.asdict(options),
    }


def of_launch(
    strategy: Strategy, task: Task, options: Options, world: World, parts: Sequence[Part], **facts: object
) -> Record:
    """The record of a launch that ended well, from what all its ranks measured; `facts` are more of its fields."""
    slowest = max(parts, key=lambda part: part.startup_seconds.total)
    examples = [part.examples for part in parts]
    shard_losses = [list(losses) for part in parts for losses in zip(*part.losses, strict=True)]
    if strategy.work is Work.PARTS_OF_ONE_MODEL:
        examples = [max(examples)] + [0] * (len(examples) - 1)
    measured = {
        "status": "ok",
        "git_commit": machine.git_commit(),
        "time_to_first_step_s": slowest.startup_seconds.total,
        "startup_seconds": slowest.startup_seconds,
        "startup_processor_seconds": slowest.startup_processor_seconds,
        "windows": [window for part in parts for window in part.windows],
        "examples_by_rank": examples,
        "losses": _finite(np.mean(shard_losses, axis=0).tolist()),
        "shard_losses": [_finite(losses) for losses in shard_losses],
        "peak_memory_bytes": [part.peak_memory_bytes for part in parts],
        "memory_bytes": [part.memory_bytes for part in parts],
        "process_start_seconds": [part.process_start_seconds for part in parts],
    }
    about = declared(strategy, task, options, world.size) | facts_of(world, strategy.family.packages)
    return from_json(about | measured | facts, Record)


def _finite(losses: Sequence[float]) -> list[float | None]:
    """The losses as a record has them: None for one that isn't finite."""
    return [loss if math.isfinite(loss) else None for loss in losses]


def print_result(written: Record, path: Path) -> None:
    """Print what the launch measured, with the `path` of its record."""
    # As late as it can be: what a worker imports before its first step is a part of the time to it.
    from rich.console import Console
    from rich.table import Table

    launch = metrics.throughput(written)
    assert written.startup_seconds
    assert written.final_accuracy is not None
    startup_seconds = asdict(written.startup_seconds)
    parts = ", ".join(f"{name.replace('_', ' ')} {seconds:.1f}" for name, seconds in startup_seconds.items())
    last_loss = math.nan if written.losses[-1] is None else written.losses[-1]
    rows = {
        "workers": f"{written.world_size}" + (" (more threads than cores)" if written.oversubscribed else ""),
        "global batch": f"{written.examples_per_step} ({written.scaling} scaling)",
        "throughput": f"{launch.samples_per_second:,.0f} samples/s",
        "time per step": f"{1000 * launch.seconds_per_step:.3f} ms over {launch.windows} windows",
        "time to first step": f"{written.time_to_first_step_s:.1f} s: {parts}",
        "last loss, global batch": f"{last_loss:.5f}",
        "test accuracy": f"{100 * written.final_accuracy:.1f} %",
        "record": str(path),
    }
    table = Table(title=f"{written.strategy} on {written.data or written.task.preset}", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    Console(width=None if sys.stdout.isatty() else 100).print(table)
