"""The document as a whole: what it says, and that it is a PDF, always the same for the same records."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from common.config import PRESETS, from_record
from reports import document
from reports.blocks import DASH
from reports.results import Results
from tests.reports.records import make_record, named, unfinished, varied, write_weights


def said(content: dict) -> str:
    """Everything that the document says, as the template reads it."""
    return json.dumps(content, ensure_ascii=False)


def summary_rows(content: dict) -> dict[tuple[str, str], list[str]]:
    """The rows of the summary table by strategy and workers."""
    return {(row[0], row[1]): row for row in summary_table(content)["rows"]}


def summary_table(content: dict) -> dict:
    blocks = content["blocks"]
    start = next(index for index, block in enumerate(blocks) if block.get("text") == "Summary")
    return next(block for block in blocks[start:] if block["kind"] == "table")


@pytest.fixture(scope="module")
def results() -> Results:
    records = [make_record(name) for name in ("torch_single", "tf_one_device")]
    records += [make_record("torch_ddp", workers, (2.0, 2.2, 2.4)) for workers in (1, 2, 4)]
    records += [make_record("tf_mirrored", 2, (3.0, 3.0)), unfinished("unsupported", "It has *no* #GPU.", "tf_central")]
    return Results(Path("nowhere"), named(*records), None)


@pytest.fixture(scope="module")
def composed(results) -> tuple[dict, dict[str, bytes]]:
    return document.compose(results)


@pytest.fixture(scope="module")
def content(composed) -> dict:
    return composed[0]


@pytest.fixture(scope="module")
def pdf(results) -> bytes:
    return document.build(results)


def test_the_pdf_is_the_same_for_the_same_records(results, pdf):
    assert pdf.startswith(b"%PDF-")
    assert document.build(results) == pdf


def test_the_pdf_has_pages(pdf):
    counts = re.findall(rb"/Type\s*/Pages.*?/Count (\d+)|/Count (\d+).{0,80}/Type\s*/Pages", pdf, re.S)
    assert max(int(number) for pair in counts for number in pair if number) >= 4


def test_the_summary_table_holds_the_numbers_worked_out_by_hand(content):
    rows = summary_rows(content)
    # 128 rows in 2.2 ms are 58,182 samples/s; torch_single's 64 in 2 ms are 32,000.
    assert rows["torch_ddp", "2"][2:9] == ["1", "2.20", DASH, "58,182", "1.82", "91 %", "2.00"]
    assert "over torch_single: 32,000 samples/s (n = 1)" in " ".join(summary_table(content)["notes"])


def test_an_unsupported_cell_stands_in_the_summary_and_its_reason_in_the_text(content):
    rows = summary_rows(content)
    assert rows["tf_central", "2"][2] == "0"
    assert rows["tf_central", "2"][-1] == "1 unsupported"
    assert "It has *no* #GPU." in said(content)
    assert "6 ok, 1 unsupported, 0 failed, 0 not run" in said(content)


def test_more_threads_than_cores_are_marked_in_table_and_text(content):
    assert ("torch_ddp", "4†") in summary_rows(content)
    assert "With 4 workers there were more threads than the machine's 2 cores" in said(content)


def test_fewer_than_six_launches_are_said_to_rank_nothing(content):
    assert "too few launches to rank anything: n = 1, 6 needed" in said(content)
    assert "was the fastest" not in said(content)


def test_broken_maths_is_flagged_in_the_document(tmp_path):
    broken = make_record("torch_broken", losses=[loss * 1.01 for loss in make_record().losses])
    text = said(document.compose(Results(tmp_path, named(make_record(), broken), None))[0])
    assert "Not the same maths: torch_broken at 1 (digits)" in text
    assert '"deviates (1)"' in text


def test_weak_and_strong_scaling_have_sections_and_figures_of_their_own(tmp_path):
    weak = [make_record("torch_ddp", workers) for workers in (1, 2)]
    config = dataclasses.replace(from_record(weak[0].config), scaling="strong")
    strong = [make_record("torch_ddp", workers, config=config) for workers in (1, 2)]
    content, images = document.compose(Results(tmp_path, named(*weak, *strong), None))
    headings = [block["text"] for block in content["blocks"] if block["kind"] == "heading"]
    assert {"Digits, weak scaling", "Digits, strong scaling"} <= set(headings)
    assert len([name for name in images if name.startswith("curves")]) == 2


def test_without_an_ok_record_the_pdf_says_so(tmp_path):
    results = Results(tmp_path, named(unfinished("failed", "It ended with status 1.")), None)
    assert document.build(results).startswith(b"%PDF-")
    content, _ = document.compose(results)
    assert "No launch ended ok with a measurement" in said(content)
    assert "0 ok, 0 unsupported, 1 failed, 0 not run" in said(content)


def test_every_figure_that_the_text_shows_exists(composed):
    content, images = composed
    assert {block["file"] for block in content["blocks"] if block["kind"] == "figure"} == set(images)


def test_an_asynchronous_launch_is_shown_by_how_well_it_trained(tmp_path):
    write_weights(tmp_path / "w.safetensors", seed=3, batch=64, steps=60)
    config = dataclasses.replace(PRESETS["digits"], seed=3, steps=60, warmup_steps=20, window_steps=10)
    facts = {"synchronous": False, "examples_per_step": 64, "staleness": [0, 2, 9]}
    record = make_record("tf_parameter_server", 2, config=config, checkpoint="w.safetensors", **facts)
    content, _ = document.compose(Results(tmp_path, named(record), None))
    [table] = [block for block in content["blocks"] if "median staleness" in block.get("columns", [])]
    [row] = table["rows"]
    assert row[:6] == ["tf_parameter_server", "2", "digits", "64", "3", "60"]
    assert row[6] == row[7]
    assert row[8][1:] == "0.0 %"
    assert row[9:] == ["2", "9"]
    assert "nothing here says that it is wrong" in said(content)
    assert "a step is one worker's update, of 64 rows" in said(content)
    assert "1 more is asynchronous with several workers" in said(content)


def test_without_asynchronous_launches_nothing_is_said_of_them(content):
    assert "staleness" not in said(content)
    assert "What convenience costs" not in said(content)


def test_what_convenience_costs_stands_beside_both_times(tmp_path):
    records = named(make_record("tf_mirrored", 2, (1.0,) * 3), make_record("tf_keras_mirrored", 2, (3.5,) * 3))
    content, _ = document.compose(Results(tmp_path, records, None))
    [table] = [block for block in content["blocks"] if "library's loop" in block.get("columns", [])]
    assert table["rows"] == [
        ["tf_keras_mirrored", "tf_mirrored", "2", "digits weak", "3.50", "1.00", "3.50", DASH, "1"],
    ]
    assert "fewer than 6 pairs" in table["notes"][0]


def test_a_variant_has_rows_of_its_own_everywhere(tmp_path):
    records = named(make_record("tf_mirrored", 2), varied("tf_mirrored", 2, jit_compile=True))
    content, _ = document.compose(Results(tmp_path, records, None))
    assert {name for name, _ in summary_rows(content)} == {"tf_mirrored", "tf_mirrored, jit_compile"}
    tables = [block for block in content["blocks"] if block["kind"] == "table" and block["columns"][0] == "strategy"]
    with_variant = [table for table in tables if any(row[0] == "tf_mirrored, jit_compile" for row in table["rows"])]
    assert with_variant == tables
