"""The page of made-up results that the tests of pages share."""

import dataclasses
from functools import cache

from common.contract.task import PRESETS
from reports import document
from reports.blocks import Drawings
from reports.render import web_page
from reports.render.shell import draw_all
from tests.reports.materials import material_of
from tests.reports.records import SMOOTH, make_record, mistaken, unfinished, varied

NAME = '<img src=x onerror="&">'
REASON = "It has <b>no</b> & <script>never</script>."


@cache
def composed() -> tuple[dict, Drawings]:
    """What is said of two regimes, too many threads, a failure, other maths, and a name that is markup."""
    lengths = {"steps": 60, "warmup_steps": 20, "window_steps": 10}
    strong = dataclasses.replace(PRESETS["digits"], scaling="strong", seed=3, **lengths)
    times = (2.0, 2.1)
    records = [make_record("amber_single", 1, (time,) * 3) for time in times]
    for workers in (1, 4):
        records += [make_record("amber_ring", workers, (1.2 * time,) * 3) for time in times]
        records += [make_record(NAME, workers, (1.7 * time,) * 3) for time in times]
        task = dataclasses.replace(strong, workers=workers)
        records.append(make_record("amber_ring", workers, (3.0,) * 3, task=task))
    records += [varied("amber_ring", 4, (2.0,) * 3, exchange=False), varied("amber_ring", 4, rounding="float16")]
    records += [mistaken(make_record("amber_broken")), make_record(task=SMOOTH), unfinished("failed", REASON)]
    return document.compose(material_of(*records))


@cache
def page() -> bytes:
    """The page of that, as `reports` writes it."""
    content, drawings = composed()
    return web_page.build(content, draw_all(drawings))
