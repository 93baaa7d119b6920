"""A made-up comparison that has something for every section of its report."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from common.records.training import Record
from reports.blocks import Drawings
from reports.tables.material import Material
from reports.tables.results import Origin
from tests.changes import changed
from tests.reports.materials import material_of, probe, replays
from tests.reports.records import (
    make_record,
    mistaken,
    named,
    over_hosts,
    process,
    task_of,
    unfinished,
    varied,
    write_weights,
)

ROUNDS, WEIGHTS = 6, "weights.safetensors"
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
    yield make_record("cobalt_servers", 2, windows(5.0), synchronous=False, checkpoint=WEIGHTS)
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


def whole_in(folder: Path) -> Material:
    """The whole comparison, whose asynchronous launches kept their weights in the folder."""
    launches = [(number, record) for number in range(1, ROUNDS + 1) for record in launches_of_a_round(number)]
    launches.append((1, mistaken(make_record("amber_broken", 2))))
    launches += [(1, unfinished("failed", REASON)), (1, unfinished("unsupported", "It has no GPU.", "teal_amber"))]
    write_weights(folder / WEIGHTS, seed=3, batch=128, steps=60)
    rounds, records = zip(*launches, strict=True)
    stem = next(name for name, each in named(*records).items() if each.name == "amber_ring" and each.world_size == 2)
    return material_of(
        *records,
        **{"rounds": rounds, "folder": folder, "left_out": {"teal_cobalt": 14.0}},
        ceilings=(probe("amber", 1.7), probe("cobalt", 2.1)),
        replays=replays([stem] * ROUNDS, 1.0, under_way=(1.0, 1.2)),
        origin=Origin("nox -s compare -- --order-seed 7", variables={"OMP_DYNAMIC": "1"}, digest="0123"),
    )
