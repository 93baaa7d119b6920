"""A page for each strategy: what it says, shows and sets, and that it is one page whatever the records say."""

import dataclasses
import json
from pathlib import Path

import pytest
import typst
from msgspec import structs

from reports.blocks import Block
from reports.render import shell
from reports.tables.material import gather
from reports.tables.results import Results
from reports.words import strategy_pages
from tests.changes import changed
from tests.reports.records import make_record, named, unfinished, varied

CODE = "# The line that makes it distributed.\nfor part in parts:"
QUOTED = {"script": "amber_impl/ring.py", "distributed_by": [{"line": 41, "code": CODE}]}


def composed(*records) -> list[Block]:
    results = Results(Path(), named(*records), None)
    material = gather(results)
    return strategy_pages.section(material)


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


def settings_of(page: list[Block]) -> dict[str, str]:
    return dict(of_kind(page, "table")[-1]["rows"])


BASE = make_record("amber_single", 1, (1.5,) * 3)
RING = make_record("amber_ring", 2, (2.0,) * 3, **QUOTED)
ALONE = varied("amber_ring", 2, (1.6,) * 3, exchange=False)


def test_every_measured_strategy_has_a_part_with_all_its_labels():
    records = [BASE, RING, varied("amber_ring", 2, compiled=True), unfinished("failed", "It ended.", "cobalt_servers")]
    found = composed(*records)
    titles = [block["text"] for block in found if block["kind"] == "heading"]
    assert titles == ["amber_ring", "amber_single"]
    assert [block["name"] for block in found if block["kind"] == "figure"] == ["windows", "windows"]
    [figure] = of_kind(pages(*records)["amber_ring"], "figure")
    assert "2 workers, defaults 2.00 ms per step (n = 1) and 2 workers, compiled" in figure["alt"]


def test_without_a_measurement_there_is_no_page():
    assert composed(unfinished("failed", "It ended.")) == []


def test_the_distributing_lines_are_quoted_from_the_newest_record_with_their_file():
    older = changed(RING, started_at="2025-01-01T00:00:00+00:00", distributed_by=[{"line": 1, "code": "old"}])
    [quoted] = of_kind(pages(BASE, RING, older)["amber_ring"], "code")
    assert quoted == {"kind": "code", "file": "amber_impl/ring.py", "first_line": 41, "lines": CODE.splitlines()}
    assert of_kind(pages(BASE, RING)["amber_single"], "code") == []


def test_a_page_begins_with_what_it_is_and_what_limits_it():
    found = pages(BASE, RING, ALONE, make_record("cobalt_servers", 2, synchronous=False))
    [text] = of_kind(found["amber_ring"], "text")
    assert text["text"] == (
        "A strategy of Amber; amber computes. Its speed-ups are over amber_single, which distributes nothing. On "
        "digits weak with 2 workers, exchange takes 20 % of the step (0.40 of 2.00 ms); n = 1."
    )
    assert (
        "distributes nothing: strategies that do are set beside it" in of_kind(found["amber_single"], "text")[0]["text"]
    )
    assert "Its updates are asynchronous" in of_kind(found["cobalt_servers"], "text")[0]["text"]


def test_the_limit_is_that_of_the_largest_world_with_cores_of_its_own():
    oversubscribed = make_record("amber_ring", 4, (9.0,) * 3)
    [text] = of_kind(pages(BASE, RING, ALONE, oversubscribed)["amber_ring"], "text")
    assert "with 2 workers, exchange takes" in text["text"]
    assert "4 workers" not in text["text"]


def test_the_settings_tell_options_carriers_cores_and_versions_of_the_familys_own():
    versions = {"python": "3.11.7", "amber": "1.2"}
    ring = changed(RING, versions=versions, pinned_cores=[0], processes_beside=1)
    other = make_record("cobalt_library", 2)
    found = settings_of(pages(BASE, ring, varied("amber_ring", 2, compiled=True), other)["amber_ring"])
    assert found["launches"] == "2 measured: 2 with exchange, 0 without"
    assert found["options"] == "all at their defaults; compiled"
    assert found["kept on their cores"] == "1 of 2 launches"
    assert found["processes beside the workers"] == "1"
    # Python and NumPy are everybody's.
    assert found["versions"] == "amber 1.2"


def test_a_page_shows_the_regime_that_comes_first():
    strong = changed(RING, scaling="strong", task=dataclasses.replace(RING.task, scaling="strong"))
    page = pages(BASE, RING, strong)["amber_ring"]
    [figure] = of_kind(page, "figure")
    assert figure["caption"].startswith("Digits weak. ")


def test_the_figure_tells_its_medians_to_who_cannot_see_it():
    [figure] = of_kind(pages(BASE, RING, ALONE)["amber_ring"], "figure")
    assert "2 workers 2.00 ms per step (n = 1) and 2 workers without exchange 1.60 ms per step (n = 1)" in figure["alt"]


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
    # The first page has the title alone; four strategies follow on one another.
    assert len(drawn) <= 1 + 5


def test_what_does_not_fit_is_counted(nasty):
    said = " ".join(str(block.get("caption", "")) + " ".join(block.get("notes", ())) for block in nasty)
    assert "more combinations of options and workers are in the tables alone" in said
    [first, *_] = of_kind(nasty, "code")
    assert first["lines"][-1] == "…"
