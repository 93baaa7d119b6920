"""A made-up comparison that has something for every section of its report."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import structs
from safetensors.numpy import save_file

from common.contract import model, oracle
from common.contract.task import Task
from common.records.training import Record
from reports.blocks import Drawings
from reports.tables.material import Material
from reports.tables.results import Origin, Results
from tests.changes import changed
from tests.reports.materials import probe, replay, replayed
from tests.reports.records import make_record, mistaken, named, over_hosts, process, task_of, unfinished, varied

ROUNDS = 6
NAME, REASON = '<img src=x onerror="&">', "It has <b>no</b> & <script>never</script>."
"""The name of a strategy, and why a launch failed: markup, which no page may take for such."""


@dataclass(frozen=True)
class Whole:
    """The comparison, what its document says, its figures as SVG and its page."""

    material: Material
    content: dict[str, object]
    drawings: Drawings
    images: dict[str, bytes]
    page: str


def launches_of_a_round(number: int) -> Iterator[Record]:
    """The launches of one round, all of which met a machine of the same speed."""
    noise = np.random.default_rng(number)
    drift = 1 + noise.uniform(0, 0.2)

    def windows(milliseconds: float) -> tuple[float, ...]:
        return tuple(drift * milliseconds * noise.uniform(0.98, 1.03, 4))

    yield make_record("amber_single", 1, windows(2.0))
    yield make_record("cobalt_single", 1, windows(2.6))
    for workers in (1, 2, 4):
        sent = {"wire_bytes_per_step": 1.1e5 * workers, "memory_bytes": [process(8, 8, peak=40)] * workers}
        yield make_record("amber_ring", workers, windows(2.1 + 0.6 * workers), **sent)
    yield changed(varied("amber_ring", 2, windows(2.2), exchange=False), wire_bytes_per_step=0.0)
    yield _watched(make_record("amber_library", 2, windows(3.32), rank_factors=(1.0, 1.08)), is_disturbed=number == 3)
    phases = [{"name": "waiting", "seconds": 0.06, "meaning": "until all threads have the gradient"}]
    yield make_record("amber_threads", 2, windows(2.9), phases=phases)
    yield make_record("amber_sharded", 2, windows(4.4), memory_bytes=[process(4, 8, peak=30)] * 2)
    yield varied("amber_ring", 2, windows(3.0), rounding="float16")
    yield make_record("cobalt_replicas", 2, windows(3.9))
    yield make_record(NAME, 2, windows(3.6))
    yield varied("cobalt_replicas", 2, windows(3.1), exchange=False)
    yield make_record("cobalt_servers", 2, windows(5.0), synchronous=False)
    yield make_record("amber_ring", 2, windows(6.0), task=task_of(2, "pathway"))
    for workers in (1, 2):
        yield make_record("amber_ring", workers, windows(2.4), task=task_of(workers, scaling="strong"))
    yield over_hosts("amber_single", 1, 1, windows(2.0))
    for hosts in (2, 4):
        for megabits in (10.0, 100.0, 1000.0):
            yield over_hosts("amber_ring", hosts, hosts, windows(2.2 + 60 / megabits + hosts), megabits)


def _watched(record: Record, is_disturbed: bool) -> Record:
    """The record with what else happened on its cores, of which a hypervisor took a part."""
    windows = []
    for window in record.windows:
        busy = dict.fromkeys(("busy_seconds", "own_seconds"), 0.9 * window.seconds)
        stolen = {"core_seconds": window.seconds, "steal_seconds": 0.6 * window.seconds * is_disturbed}
        windows.append(structs.replace(window, spin_seconds=1e-4, clock_megahertz=2000.0, **busy, **stolen))
    return changed(record, windows=windows, pinned_cores=[0])


@cache
def _oracle(task: Task, batch: int) -> model.Trajectory:
    return oracle.run_oracle(task, batch, task.steps)


def _exact(record: Record, folder: Path) -> Record:
    """The record with the oracle's own losses and, of an asynchronous launch, its final weights in `folder`."""
    if record.status != "ok":
        return record
    computed = _oracle(dataclasses.replace(record.task, workers=None), record.examples_per_step)
    facts = {"losses": computed.losses, "shard_losses": computed.shard_losses(record.shards).tolist()}
    if record.exchange and not record.synchronous:
        name = f"{record.scaling}-{record.task.batch}-{record.examples_per_step}.safetensors"
        save_file({key: value.astype(np.float32) for key, value in computed.state.items()}, folder / name)
        facts["checkpoint"] = name
    return changed(record, **facts)


def results_in(folder: Path) -> Results:
    records, rounds = [], []
    for number in range(1, ROUNDS + 1):
        own = list(launches_of_a_round(number))
        records += own
        rounds += [number] * len(own)
    records += [
        mistaken(make_record("amber_broken", 2)),
        unfinished("failed", REASON),
        unfinished("unsupported", "It has no GPU.", "teal_amber"),
    ]
    rounds += [1, 1, 1]
    stems = named(*[_exact(record, folder) for record in records])
    plan = pd.DataFrame({"launch": [*stems], "stage": "round", "repetition": rounds, "order_seed": 7, "margin": 0.05})
    stem = next(name for name, record in stems.items() if record.name == "amber_ring" and record.world_size == 2)
    replays = {
        f"replay-{number}": replay(1.0 + number / 50, number, replayed=replayed(stem, under_way=(0.001, 0.0012)))
        for number in range(1, ROUNDS + 1)
    }
    return Results(
        *(folder, stems, plan, {"teal_cobalt": 14.0}, (probe("amber", 1.7), probe("cobalt", 2.1))),
        replays=replays,
        origin=Origin("nox -s compare -- --order-seed 7", variables={"OMP_DYNAMIC": "1"}, digest="0123"),
    )
