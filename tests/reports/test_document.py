"""The document as a whole: what it says, on how many pages, and that its figures show what CSV files have."""

import dataclasses
import hashlib
import json
from collections.abc import Callable

import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.observations.numbers import MINUS
from reports import blocks, document
from reports.blocks import Block, Drawings
from reports.render.shell import draw_all, typeset
from reports.tables.material import Material
from reports.tables.results import Results, read_results
from reports.words import machine, scaling
from tests.reports.charts.read_marks import read
from tests.reports.materials import material_of
from tests.reports.pieces import headings, pages_of, rows_of
from tests.reports.records import certified, make_record, named, unfinished, write_all


def said(content: list[Block]) -> str:
    """Everything that these blocks say, as the template reads it."""
    return json.dumps(content, ensure_ascii=False, default=lambda _: "")


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> dict:
    """The document on a few launches of one machine."""
    records = [make_record(name) for name in ("amber_single", "cobalt_single")]
    records += [make_record("amber_ring", workers, (2.0, 2.2, 2.4)) for workers in (1, 2, 4)]
    records += [make_record("cobalt_replicas", 2, (3.0, 3.0))]
    records += [unfinished("unsupported", "It has *no* #GPU.", "cobalt_central")]
    folder = tmp_path_factory.mktemp("results")
    return document.compose(material_of(*certified(folder, *records), folder=folder))[0]


def test_a_comparison_on_one_machine_has_four_chapters_each_on_a_page_of_its_own_and_then_the_tables(content):
    names = ["Finding", "Scaling", "Why not N times", "How sure, and the same maths", "Every table"]
    assert headings(content["blocks"], 1) == names
    assert [block["kind"] for block in content["blocks"]].count("new_page") == 4
    shown = [block for block in content["blocks"] if not block.get("page_only")]
    files = [block["file"] for block in shown if block["kind"] == "figure"]
    assert files == ["headline.svg", "scaling.svg", "steps.svg"]


def test_with_many_strategies_and_long_names_the_pdf_has_four_pages(tmp_path):
    records = [make_record("amber_single")]
    names = [f"amber_{index:02d}{'_and_so_on' * 8}" for index in range(60)]
    records += [make_record(name, workers, (2.0 + workers,) * 3) for name in names for workers in (1, 2, 4)]
    material = material_of(*certified(tmp_path, *records), folder=tmp_path)
    content, drawings = document.compose(material)
    shown = {name: draw for name, draw in drawings.items() if not name.startswith("narrow-")}
    assert pages_of(typeset(content, draw_all(shown))) == 4


def test_other_batches_make_a_curve_for_the_page_where_they_have_several_numbers_of_workers():
    def launches(*workers, **more):
        return [make_record("amber_single", **more), *(make_record("amber_ring", each, **more) for each in workers)]

    task = dataclasses.replace(make_record("amber_ring").task, batch=128, steps=150)
    blocks = scaling.section(material_of(*launches(1, 2, task=task), *launches(1, 2)))
    assert [(block["kind"], block["page_only"]) for block in blocks] == [
        *[("text", False), ("figure", False), ("text", True), ("figure", True)],
    ]
    assert blocks[0]["text"].startswith("Digits weak, 64 rows: 64 rows per step for each worker")
    # A batch that was tried with one number of workers makes none.
    assert len(scaling.section(material_of(*launches(1, 2), *launches(2, task=task)[1:]))) == 2


def test_without_its_base_a_strategy_is_named_and_no_empty_axes_are_drawn():
    [block] = scaling.section(material_of(make_record("amber_ring", 2)))
    assert "amber_single wasn't measured, so there is no speed-up of amber_ring." in block["text"]


def test_without_an_ok_record_the_pdf_says_so(tmp_path):
    results = Results(tmp_path, named(unfinished("failed", "It ended with status 1.")), None)
    content, drawings = document.compose(Material(results))
    one, other = (typeset(content, draw_all(drawings)) for _ in range(2))
    assert one.startswith(b"%PDF-")
    assert one == other
    text = said(content["blocks"])
    assert "No launch ended ok with a measurement" in text
    assert "0 ok, 0 unsupported, 1 failed, 0 not run" in text


def test_every_figure_that_the_text_shows_exists_and_what_was_not_measured_has_no_words(whole, content):
    figures = [block for block in whole.content["blocks"] if block["kind"] == "figure"]
    files = {block["file"] for block in figures} | {block["narrow_file"] for block in figures}
    assert files - {""} == set(whole.drawings)
    assert len({block["file"] for block in figures}) == len(figures)
    assert "Hosts" in headings(whole.content["blocks"])
    assert "Hosts" not in headings(content["blocks"])
    names = {block.get("name") for block in content["blocks"]}
    assert not {"ceilings", "exchanges", "asynchronous", "factors"} & names


@pytest.fixture(scope="module")
def unknown(tmp_path_factory) -> tuple[dict, Drawings]:
    """The document on records of strategies that nothing here declares, read from their files."""
    declared = {"family": "Quartz", "framework": "quartz", "colors": ["#123456", "#123456"], "base": "quartz_alone"}
    formula = {"formula": "N times the model", "formula_source": "Nobody, 2031", "formula_bytes_per_step": 3e6}
    phases = [{"name": "gossip", "seconds": 0.12, "meaning": "until everybody knows"}]
    more = {"wire_bytes_per_step": 4e6, "phases": phases}
    records = named(
        make_record("quartz_alone", 1, (2.0,) * 3, **declared | {"base": None}),
        make_record("quartz_swarm", 2, (2.0,) * 3, **declared | formula | more),
        make_record("quartz_easy", 2, (5.0,) * 3, **declared, compared_with={CONVENIENCE_OF: "quartz_swarm"}),
        make_record("quartz_swarm", 2, (1.0,) * 3, **declared, label="boosted"),
    )
    return document.compose(Material(read_results(write_all(tmp_path_factory.mktemp("unknown"), records))))


def test_what_the_record_of_a_strategy_that_nothing_declares_tells_is_in_the_document(unknown):
    [row] = [row for row in rows_of(unknown[0]["blocks"], "cells") if row["strategy"] == "quartz_swarm"]
    assert [row[name] for name in ("seconds", "samples_per_second", "base", "base_samples_per_second", "speed_up")] == [
        *("0.00200", "64,000", "quartz_alone", "32,000", "2.00"),
    ]
    [exposed] = [row for row in rows_of(unknown[0]["blocks"], "exposed") if row["wire_bytes"] == "4,000,000"]
    assert exposed["formula_bytes"] == "3,000,000"
    assert (exposed["formula"], exposed["formula_source"]) == ("N times the model", "Nobody, 2031")
    [gossip] = rows_of(unknown[0]["blocks"], "phases")
    # 0.12 s are of 60 steps.
    assert [gossip[name] for name in ("regime", "phase", "meaning", "seconds")] == [
        *("digits weak", "gossip", "until everybody knows", "0.00200"),
    ]
    factors = rows_of(unknown[0]["blocks"], "factors")
    assert [(row["first"], row["second"]) for row in factors] == [
        ("quartz_swarm", "quartz_swarm, boosted"),
        ("quartz_swarm", "quartz_easy"),
    ]
    assert b"#123456" in unknown[1]["headline.svg"]()


def test_the_command_and_the_digests_that_it_takes_to_repeat_it_are_in_it(tmp_path):
    other = make_record("amber_ring", 4, data_sha256="def456", data="Fashion-MNIST")
    records = named(make_record(data_sha256="abc123"), make_record("amber_ring", 2, data_sha256="abc123"), other)
    folder = write_all(tmp_path, records)
    (folder / "command.txt").write_text("nox -s compare -- --order-seed 7\n")
    rows = dict(machine.of_comparison(Material(read_results(folder)))["rows"])
    assert rows["to repeat it"] == "nox -s compare -- --order-seed 7"
    assert rows["rows of the datasets, SHA-256"] == "digits (Fashion-MNIST) def456; digits abc123"
    assert rows["seeds"] == "of the task 3; launched one by one, without a plan; schema of the records 5"
    files = b"".join(path.read_bytes() for path in sorted(folder.glob("*.json")))
    assert rows["records, SHA-256"].partition(";")[0] == hashlib.sha256(files).hexdigest()[:20]


def rows_behind(tip: dict[str, str], tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The rows of the CSV files that have the number of a mark, as it stands under the mouse."""

    def of(table: str, number: str, column: str, written: Callable[[float], str], factor: float = 1.0) -> pd.DataFrame:
        rows = tables[table]
        return rows[[written(factor * value) == tip[number] for value in rows[column]]]

    commas, milliseconds = "{:,.0f}".format, lambda seconds: f"{blocks.milliseconds(seconds)} ms"
    workers = int(tip.get("workers", "0").rstrip(blocks.DAGGER))
    strategy = tip.get("strategy", "").rstrip(blocks.DAGGER)
    if "launch (n = 1)" in tip and "samples/s" in tip:
        found = of("launches", "samples/s", "samples_per_second", commas)
        return found[found["launch"] == tip["launch (n = 1)"]]
    if "launch (n = 1)" in tip:
        # The speed-up of a launch is over the base of its cell.
        launches, cells = tables["launches"].set_index("launch"), tables["cells"]
        cell = cells[(cells["strategy"] == strategy) & cells["exchange"]]
        rate = launches.loc[tip["launch (n = 1)"], "samples_per_second"]
        share = workers if "efficiency" in tip else 1
        said = tip.get("speed-up") or tip["efficiency"]
        return cell[[blocks.number(rate / base / share) == said for base in cell["base_samples_per_second"]]]
    if "samples/s, median" in tip:
        found = of("cells", "samples/s, median", "samples_per_second", commas)
    elif {"speed-up", "efficiency"} & {*tip}:
        [name] = {"speed-up", "efficiency"} & {*tip}
        found = of("cells", name, name.replace("-", "_"), blocks.number)
    elif "base" in tip:
        [(name, _)] = [each for each in tip.items() if "times its samples/s" in each[0]]
        found = of("cells", name, "base_samples_per_second", commas, float(name.split()[0]))
        return found[found["base"] == tip["base"]]
    elif "part" in tip:
        column = "ideal_seconds" if tip["part"] == "ideal" else "seconds"
        found = of("parts", "per step", column, lambda seconds: milliseconds(seconds).replace("-", MINUS))
        found = found[(found["part"] == tip["part"]) | (tip["part"] == "ideal")]
    elif "measured step" in tip:
        found = of("parts", "measured step", "measured_seconds", milliseconds)
    elif "largest deviation of a loss" in tip:
        found = of("deviations", "largest deviation of a loss", "loss", blocks.tiny)
    else:
        sums = tables["ceilings"].fillna({"exchange_seconds": 0.0})
        name = "the framework's own products and transport"
        own = sums["products_seconds"] + sums["exchange_seconds"]
        found = sums[[milliseconds(seconds) == tip[name] for seconds in own]]
    return found[(found["strategy"] == strategy) & (found["workers"] == workers)]


def test_every_number_of_a_mark_is_that_of_a_row_of_a_csv_file(whole, tmp_path):
    whole.material.write(tmp_path)
    tables = {path.stem: pd.read_csv(path) for path in tmp_path.glob("*.csv")}
    shown = [block for block in whole.content["blocks"] if block["kind"] == "figure" and not block.get("page_only")]
    files = [block["file"] for block in shown]
    assert files[:4] == ["headline.svg", "scaling.svg", "steps.svg", "losses.svg"]
    marks = [mark for file in files[:4] for mark in read(whole.images[file]) if mark.tip]
    assert len(marks) > 100
    assert [mark.tip for mark in marks if rows_behind(mark.tip, tables).empty] == []
