"""The document as a whole: what it says, on how many pages, and that its figures show what CSV files have."""

import json

import pytest

from common.records.training import Record
from reports import blocks, document
from reports.blocks import DAGGER
from reports.render.shell import draw_all, typeset
from reports.words import scaling
from tests.reports.materials import material_of
from tests.reports.pieces import headings, marks_of, pages_of
from tests.reports.records import MadeUpOptions, in_rounds, make_record, task_of, unfinished


def test_a_comparison_on_one_machine_has_four_chapters_each_on_a_page_of_its_own_and_then_the_tables():
    records = [make_record(name) for name in ("amber_single", "cobalt_single")]
    records += [make_record("amber_ring", workers, (2.0, 2.2, 2.4)) for workers in (1, 2, 4)]
    content, _ = document.compose(material_of(*records, make_record("cobalt_replicas", 2, (3.0, 3.0))))
    names = ["Finding", "Scaling", "Why not N times", "How sure, and the same maths", "Every table"]
    assert headings(content["blocks"], 1) == names
    assert [block["kind"] for block in content["blocks"]].count("new_page") == 4
    shown = [block for block in content["blocks"] if not block.get("page_only")]
    files = [block["file"] for block in shown if block["kind"] == "figure"]
    assert files == ["headline.svg", "scaling.svg", "steps.svg"]


def many_strategies() -> list[Record]:
    """Twenty with long names, each with three numbers of workers."""
    names = [f"amber_{index:02d}{'_and_so_on' * 8}" for index in range(20)]
    return [make_record(name, workers, (2.0 + workers,) * 3) for name in names for workers in (1, 2, 4)]


def quick_comparison() -> list[Record]:
    """Five strategies with long sentences, one of which also has more workers than there are cores."""
    names = [f"amber_multi_worker_mirrored_{index}" for index in range(5)]
    without = MadeUpOptions(exchange=False)
    records = [make_record(name, 1) for name in names] + [make_record(names[0], 4, (9.0,) * 3)]
    records.append(make_record("cobalt_servers", 1, synchronous=False, reading=None))
    for name in names:
        records += in_rounds(name, 8.0) + in_rounds(name, 2.5, options=without)
    return records


@pytest.mark.parametrize("records", [many_strategies, quick_comparison])
def test_the_pdf_has_four_pages(records):
    content, drawings = document.compose(material_of(*in_rounds("amber_single", 2.0, 1), *records()))
    shown = {name: draw for name, draw in drawings.items() if not name.startswith("narrow-")}
    assert pages_of(typeset(content, draw_all(shown))) == 4


def test_other_batches_make_a_curve_for_the_page_where_they_have_several_numbers_of_workers():
    usual, other = (
        [make_record("amber_single", task=task), *(make_record("amber_ring", workers, task=task) for workers in (1, 2))]
        for task in (task_of(1), task_of(1, batch=128, steps=150))
    )
    blocks = scaling.section(material_of(*other, *usual))
    assert [(block["kind"], block["page_only"]) for block in blocks] == [
        *[("text", False), ("figure", False), ("text", True), ("figure", True)],
    ]
    assert blocks[0]["text"].startswith("Digits weak, 64 rows: 64 rows per step for each worker")
    # A batch that was tried with one number of workers makes none.
    assert len(scaling.section(material_of(*usual, other[-1]))) == 2


def test_without_its_base_a_strategy_is_named_and_no_empty_axes_are_drawn():
    [block] = scaling.section(material_of(make_record("amber_ring", 2)))
    assert "amber_single wasn't measured, so there is no speed-up of amber_ring." in block["text"]


def test_without_an_ok_record_the_pdf_says_so():
    content, drawings = document.compose(material_of(unfinished("failed", "It ended with status 1.")))
    assert typeset(content, draw_all(drawings)).startswith(b"%PDF-")
    text = json.dumps(content)
    assert "No launch ended ok with a measurement" in text
    assert "0 ok, 0 unsupported, 1 failed, 0 not run" in text


def test_every_figure_that_the_text_shows_exists_and_hosts_have_a_chapter(whole):
    figures = [block for block in whole.content["blocks"] if block["kind"] == "figure"]
    files = {block["file"] for block in figures} | {block["narrow_file"] for block in figures}
    assert files - {""} == set(whole.drawings)
    assert len({block["file"] for block in figures}) == len(figures)
    assert "Hosts" in headings(whole.content["blocks"])


@pytest.mark.parametrize(
    ("file", "name", "table", "column", "written"),
    [
        ("headline.svg", "samples/s, median", "cells", "samples_per_second", "{:,.0f}".format),
        ("scaling.svg", "speed-up", "cells", "speed_up", blocks.number),
        ("scaling.svg", "efficiency", "cells", "efficiency", blocks.number),
        ("steps.svg", "measured step", "parts", "measured_seconds", lambda each: f"{blocks.milliseconds(each)} ms"),
        ("losses.svg", "largest deviation of a loss", "deviations", "loss", blocks.tiny),
    ],
)
def test_every_number_of_a_mark_is_that_of_a_row_of_its_strategy_and_workers(whole, file, name, table, column, written):
    tips = [mark.tip for mark in marks_of(whole.images[file]) if name in mark.tip and "launch (n = 1)" not in mark.tip]
    shown = {(tip["strategy"].rstrip(DAGGER), tip["workers"].rstrip(DAGGER), tip[name]) for tip in tips}
    rows = getattr(whole.material, table)
    strategies, workers = rows["strategy"], rows["workers"].map(str)
    assert shown
    assert shown <= {*zip(strategies, workers, rows[column].map(written), strict=True)}
