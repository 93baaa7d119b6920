"""The whole report, which is expensive and the same for every test, and reports without their figures."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from common.records.training import Record
from reports import document
from reports.render import web_page
from reports.render.shell import draw_all
from reports.tables.results import Origin
from tests.changes import changed
from tests.reports.materials import material_of, probe, replays
from tests.reports.pieces import blanks_for_all
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
    watched = make_record("amber_library", 2, windows(3.32), rank_factors=(1.0, 1.08))
    yield changed(watched, windows=[structs.replace(each, spin_seconds=1e-4) for each in watched.windows])
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


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> SimpleNamespace:
    """A comparison that has something for every section: its material, content, drawings, images, and its page."""
    folder = tmp_path_factory.mktemp("whole")
    write_weights(folder / WEIGHTS, seed=3, batch=128, steps=60)
    launches = [(number, record) for number in range(1, ROUNDS + 1) for record in launches_of_a_round(number)]
    launches.append((1, mistaken(make_record("amber_broken", 2))))
    launches += [(1, unfinished("failed", REASON)), (1, unfinished("unsupported", "It has no GPU.", "teal_amber"))]
    rounds, records = zip(*launches, strict=True)
    stem = next(name for name, each in named(*records).items() if each.name == "amber_ring" and each.world_size == 2)
    material = material_of(
        *records,
        **{"rounds": rounds, "folder": folder, "left_out": {"teal_cobalt": 14.0}},
        ceilings=(probe("amber", 1.7), probe("cobalt", 2.1)),
        replays=replays([stem] * ROUNDS, 1.0, under_way=(1.0, 1.2)),
        origin=Origin("nox -s compare -- --order-seed 7", variables={"OMP_DYNAMIC": "1"}, digest="0123"),
    )
    content, drawings = document.compose(material)
    images = draw_all(drawings)
    page = web_page.build(content, images).decode()
    return SimpleNamespace(material=material, content=content, drawings=drawings, images=images, page=page)


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Leaves the figures out of every document, since to draw them takes longer than the test of its words."""
    monkeypatch.setattr("reports.render.shell.draw_all", blanks_for_all)
