"""Strategy by strategy: what each is, and the lines that distribute it, whatever the records say."""

import json
from pathlib import Path

import pytest
import typst
from msgspec import structs

from reports.blocks import Block
from reports.render import shell
from reports.tables.material import gather
from reports.tables.results import Results
from reports.words import strategies
from tests.changes import changed
from tests.reports.records import make_record, named, unfinished, varied

CODE = "# The line that makes it distributed.\nfor part in parts:"
QUOTED = {"script": "amber_impl/ring.py", "distributed_by": [{"line": 41, "code": CODE}]}


def composed(*records) -> list[Block]:
    results = Results(Path(), named(*records), None)
    material = gather(results)
    return strategies.section(material)


def pages(*records) -> dict[str, list[Block]]:
    """The blocks of each page, by the strategy's name."""
    found: dict[str, list[Block]] = {}
    for block in composed(*records):
        if block["kind"] == "heading" and block["level"] == 2:
            found[block["text"]] = []
        elif found:
            found[[*found][-1]].append(block)
    return found


def of_kind(page: list[Block], kind: str) -> list[Block]:
    return [block for block in page if block["kind"] == kind]


BASE = make_record("amber_single", 1, (1.5,) * 3)
RING = make_record("amber_ring", 2, (2.0,) * 3, **QUOTED)


def test_every_measured_strategy_has_a_part_with_all_its_labels():
    records = [BASE, RING, varied("amber_ring", 2, compiled=True), unfinished("failed", "It ended.", "cobalt_servers")]
    found = composed(*records)
    titles = [block["text"] for block in found if block["kind"] == "heading"]
    assert titles == ["amber_ring", "amber_single"]


def test_without_a_measurement_there_is_no_page():
    assert composed(unfinished("failed", "It ended.")) == []


def test_the_distributing_lines_are_quoted_from_the_newest_record_with_their_file():
    older = changed(RING, started_at="2025-01-01T00:00:00+00:00", distributed_by=[{"line": 1, "code": "old"}])
    [quoted] = of_kind(pages(BASE, RING, older)["amber_ring"], "code")
    assert quoted == {"kind": "code", "file": "amber_impl/ring.py", "first_line": 41, "lines": CODE.splitlines()}
    assert of_kind(pages(BASE, RING)["amber_single"], "code") == []


def test_a_part_says_what_the_strategy_is():
    found = pages(BASE, RING, make_record("cobalt_servers", 2, synchronous=False))
    said = {name: of_kind(page, "text")[0]["text"] for name, page in found.items()}
    assert said["amber_ring"] == (
        "A strategy of Amber; amber computes. Its speed-ups are over amber_single, which distributes nothing."
    )
    assert "distributes nothing: strategies that do are set beside it" in said["amber_single"]
    assert said["cobalt_servers"].endswith("The updates of cobalt_servers are asynchronous: a step is one worker's.")


LONG = "\n".join(["# The line that makes it distributed.", *['meet(everybody, "again and again and again")'] * 40])
VARIANTS = ({}, {"compiled": True}, {"steps_per_call": 5}, {"backend": "mpi"}, {"rounding": "fp16"}, {"input": "pipes"})


@pytest.fixture(scope="module")
def nasty():
    """Every label at four numbers of workers with long quotations, a strategy with next to nothing, and old records."""
    quoted = {"script": "amber_impl/ring.py", "distributed_by": [{"line": 1, "code": LONG}] * 3}
    many = [
        changed(varied("amber_ring", workers, (2.0 + workers,) * 3, **options), **quoted)
        for options in VARIANTS
        for workers in (1, 2, 4, 8)
    ]
    old = changed(make_record("cobalt_library", 2), startup_seconds=None, startup_processor_seconds=None)
    bare = [structs.replace(window, started_seconds=None, own_seconds=None) for window in old.windows]
    return composed(BASE, *many, changed(old, windows=bare), make_record("<b>$x$", 2, family="*#_"))


def test_strategies_waste_no_pages_whatever_the_records_say(nasty):
    content, drawings = shell.compose("", [], nasty)
    files = {
        "main.typ": Path(shell.__file__).with_name("template.typ").read_bytes(),
        "content.json": json.dumps(content).encode(),
        **{name: draw() for name, draw in drawings.items()},
    }
    drawn = typst.compile(files, format="png", ppi=12, font_paths=typst.Fonts(include_system_fonts=False))
    # Typst gives one page as bytes, several as a list.
    assert isinstance(drawn, bytes)


def test_of_long_quotations_the_first_lines_are_shown(nasty):
    quoted = of_kind(nasty, "code")
    assert quoted[0]["lines"][-1] == "…"
    assert sum(len(block["lines"]) for block in quoted) == 14
