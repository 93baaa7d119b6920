"""The document as a whole: what it says."""

import dataclasses
import hashlib
import json

import pandas as pd
import pytest

from common.contract.task import PRESETS
from common.declarations.strategy import CONVENIENCE_OF
from reports import document
from reports.blocks import DASH, Block, Drawings
from reports.document import Section
from reports.render import pdf
from reports.render.shell import draw_all
from reports.tables.material import Material
from reports.tables.results import Results, read_results
from reports.words import certificate, data, first_page, machine, ranking, speed
from tests.reports.drawings import drawings_of
from tests.reports.materials import material_of
from tests.reports.pieces import headings, table_under
from tests.reports.records import certified, make_record, mistaken, named, unfinished, varied, write_all, write_weights


def said(content: dict | list[Block]) -> str:
    """Everything that the document, or some of its sections, say, as the template reads it."""
    return json.dumps(content, ensure_ascii=False, default=lambda _: "")


def told(material: Material, *sections: Section) -> list[Block]:
    """The blocks of these sections."""
    return [block for section in sections for block in section(material)]


def summary_rows(blocks: list[Block]) -> dict[tuple[str, str], list[str]]:
    """The rows of the summary table by strategy and workers."""
    return {(row[0], row[1]): row for row in summary_table(blocks)["rows"]}


def summary_table(blocks: list[Block]) -> Block:
    return table_under(blocks, next(text for text in headings(blocks) if text.startswith("Speed: ")))


def rows_of(blocks: list[Block], name: str) -> list[dict[str, str]]:
    """The rows of a folded table by its columns."""
    [table] = [block for block in blocks if block.get("name") == name]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def curves_in(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.get("name") == "curves"]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    records = [make_record(name) for name in ("amber_single", "cobalt_single")]
    records += [make_record("amber_ring", workers, (2.0, 2.2, 2.4)) for workers in (1, 2, 4)]
    records += [
        make_record("cobalt_replicas", 2, (3.0, 3.0)),
        unfinished("unsupported", "It has *no* #GPU.", "cobalt_central"),
    ]
    folder = tmp_path_factory.mktemp("results")
    return Results(folder, named(*certified(folder, *records)), None)


@pytest.fixture(scope="module")
def composed(results) -> tuple[dict, Drawings]:
    return document.compose(Material(results))


@pytest.fixture(scope="module")
def content(composed) -> dict:
    return composed[0]


def test_the_summary_table_holds_the_numbers_worked_out_by_hand(content):
    rows = summary_rows(content["blocks"])
    # 128 rows in 2.2 ms are 58,182 samples/s; amber_single's 64 in 2 ms are 32,000.
    assert rows["amber_ring", "2"][2:9] == ["1", "2.20", DASH, "58,182", "1.82", "91 %", "2.00"]
    assert "over amber_single: 32,000 samples/s (n = 1)" in " ".join(summary_table(content["blocks"])["notes"])


def test_an_unsupported_cell_stands_in_the_summary_and_its_reason_in_the_text(content):
    rows = summary_rows(content["blocks"])
    assert rows["cobalt_central", "2"][2] == "0"
    assert rows["cobalt_central", "2"][-1] == "1 unsupported"
    assert "It has *no* #GPU." in said(content)
    assert "6 ok, 1 unsupported, 0 failed, 0 not run" in said(content)


def test_more_threads_than_cores_are_marked_in_table_and_text(content):
    assert ("amber_ring", "4†") in summary_rows(content["blocks"])
    assert "4†" in {text for each in summary_table(content["blocks"])["rows"] for text in each}
    assert any(note.startswith("† more threads than cores") for note in summary_table(content["blocks"])["notes"])


def test_fewer_than_six_rounds_are_said_to_rank_nothing(content):
    assert "too few rounds to rank anything: n = 1 round, and 6 are needed" in said(content)
    assert "was the fastest" not in said(content)


def test_broken_maths_is_flagged_in_the_document():
    broken = mistaken(make_record("amber_broken"))
    text = said(told(material_of(make_record(), broken), certificate.section))
    assert "Not the same maths: amber_broken at 1 (digits)" in text
    assert '"deviates (1)"' in text
    assert "(1) Summed, not averaged. Divide." in text


def test_a_strategy_that_deviates_is_not_ranked_however_fast_it_is(tmp_path):
    broken = [mistaken(make_record("amber_broken", milliseconds=(1.0 + index / 100,) * 4)) for index in range(6)]
    others = [
        make_record(name, milliseconds=(milliseconds + index / 100,) * 4)
        for name, milliseconds in (("amber_ring", 2.0), ("cobalt_replicas", 3.0))
        for index in range(6)
    ]
    records = named(*certified(tmp_path, *broken, *others))
    text = said(told(Material(Results(tmp_path, records, None)), first_page.section, ranking.section))
    assert "the fastest of 2 at 95 % confidence" in text
    assert "Not ranked, digits weak: amber_broken at 1, for not following the oracle." in text


def test_strategies_that_the_time_did_not_suffice_for_are_named_once_with_the_minutes_that_would_do(results, content):
    few = dataclasses.replace(results, left_out={"amber_ring": 11.2, "cobalt_replicas": 14.0})
    text = said(first_page.section(Material(few)))
    assert (
        "The time didn't suffice for amber_ring (--minutes 12 would do) and cobalt_replicas (--minutes 14 would do)."
    ) in text
    assert "The time didn't suffice" not in said(content)


def test_pairs_are_tested_by_the_rounds_and_the_margin_of_the_plan(tmp_path):
    rings = [make_record("amber_ring", 2, (2.0 + index,) * 4) for index in range(6)]
    libraries = [make_record("amber_library", 2, (2.2 + 1.1 * index,) * 4) for index in range(6)]
    records = named(*certified(tmp_path, *rings, *libraries))
    plan = pd.DataFrame({"launch": [*records], "repetition": [*range(1, 7)] * 2, "margin": 0.12, "order_seed": 1})
    about = {"strategy": "amber_ring", "label": "", "preset": "digits", "scaling": "weak", "workers": 2}
    plan = plan.assign(**about, exchange=True, purpose="throughput")
    material = Material(Results(tmp_path, records, plan))
    blocks = ranking.section(material)
    assert "pairs within rounds" in blocks[0]["text"]
    assert "less than 12 %, the margin" in blocks[1]["text"]
    [table] = [block for block in blocks if "rounds to ±12 %" in block.get("columns", [])]
    assert table["rows"][0][5:9] == ["1.100", "1.100 to 1.100", "< 0.001", "= alike"]
    assert "Today this machine can show differences from" in said(first_page.section(material))
    assert drawings_of(blocks)["residuals"]().startswith(b"<?xml")
    shifted = plan.assign(repetition=[*range(1, 7), *range(6, 12)])
    few = ranking.section(Material(Results(tmp_path, records, shifted)))
    assert "too few rounds to rank anything: n = 1 round" in said(few)


def test_weak_and_strong_scaling_have_sections_and_figures_of_their_own():
    weak = [make_record("amber_ring", workers) for workers in (1, 2)]
    task = dataclasses.replace(weak[0].task, scaling="strong")
    strong = [make_record("amber_ring", workers, task=task) for workers in (1, 2)]
    blocks = speed.curves(material_of(*weak, *strong))
    assert {"Digits weak", "Digits strong"} <= set(headings(blocks))
    assert len(curves_in(blocks)) == 2
    for kind in ("weak", "strong"):
        assert f"digits {kind}. Every mark is one launch" in said(blocks)


def test_a_batch_that_was_tried_with_one_number_of_workers_has_tables_and_no_curve():
    records = [make_record("amber_ring", workers) for workers in (1, 2)]
    task = dataclasses.replace(records[0].task, batch=128, steps=150)
    material = material_of(*records, make_record("amber_ring", 2, task=task))
    assert "Speed: digits weak, 128 rows" in headings(speed.tables(material))
    assert headings(speed.curves(material)) == ["Digits weak, 64 rows"]
    assert len(curves_in(speed.curves(material))) == 1


def test_another_batch_with_several_numbers_of_workers_keeps_its_curve_after_the_presets_own():
    records = [make_record("amber_ring", workers) for workers in (1, 2)]
    task = dataclasses.replace(records[0].task, batch=128, steps=150)
    larger = [make_record("amber_ring", workers, task=task) for workers in (1, 2)]
    blocks = speed.curves(material_of(*larger, *records))
    assert len(curves_in(blocks)) == 2
    titles = headings(blocks)
    assert titles.index("Digits weak, 64 rows") < titles.index("Digits weak, 128 rows")


def test_without_an_ok_record_the_pdf_says_so(tmp_path):
    results = Results(tmp_path, named(unfinished("failed", "It ended with status 1.")), None)
    content, drawings = document.compose(Material(results))
    one, other = (pdf.typeset(results.started_at, content, draw_all(drawings)) for _ in range(2))
    assert one.startswith(b"%PDF-")
    assert one == other
    text = said(content["blocks"])
    assert "No launch ended ok with a measurement" in text
    assert "0 ok, 0 unsupported, 1 failed, 0 not run" in text


def test_every_figure_that_the_text_shows_exists(composed):
    content, drawings = composed
    figures = [block for block in content["blocks"] if block["kind"] == "figure"]
    files = {block["file"] for block in figures} | {block["narrow_file"] for block in figures}
    assert files - {""} == set(drawings)
    assert len({block["file"] for block in figures}) == len(figures)


def test_an_asynchronous_launch_is_shown_by_how_well_it_trained(tmp_path):
    write_weights(tmp_path / "w.safetensors", seed=3, batch=64, steps=60)
    task = dataclasses.replace(PRESETS["digits"], seed=3, steps=60, warmup_steps=20, window_steps=10)
    facts = {"examples_per_step": 64, "staleness": [0, 2, 9]}
    record = make_record("cobalt_servers", 2, task=task, checkpoint="w.safetensors", **facts)
    material = Material(Results(tmp_path, named(record), None))
    blocks = told(material, certificate.section, speed.tables, data.section)
    [row] = rows_of(blocks, "asynchronous")
    about = [row[name] for name in ("strategy", "workers", "preset", "batch", "seed", "updates")]
    assert about == ["cobalt_servers", "2", "digits", "64", "3", "60"]
    assert row["loss"] == row["oracle_loss"]
    assert (row["staleness"], row["largest_staleness"]) == ("2", "9")
    assert "nothing here says that it is wrong" in said(blocks)
    assert "a step is one worker's update, of 64 rows" in said(blocks)
    assert "1 more is asynchronous with several workers" in said(blocks)


def test_without_asynchronous_launches_nothing_is_said_of_them(content):
    assert not {"asynchronous", "factors"} & {block.get("name") for block in content["blocks"]}


def test_what_was_not_measured_has_no_words(content):
    assert not {"Hosts", "The exchange replayed alone"} & {*headings(content["blocks"])}
    assert "ceilings" not in said(content)


def test_a_label_has_rows_of_its_own_everywhere():
    records = [make_record("cobalt_replicas", 2), varied("cobalt_replicas", 2, compiled=True)]
    content, _ = document.compose(material_of(*records))
    assert {name for name, _ in summary_rows(content["blocks"])} == {"cobalt_replicas", "cobalt_replicas, compiled"}
    tables = [block for block in content["blocks"] if block["kind"] == "table" and block["columns"][0] == "strategy"]
    with_label = [table for table in tables if any(row[0] == "cobalt_replicas, compiled" for row in table["rows"])]
    assert with_label == tables


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


def test_a_strategy_that_nothing_declares_is_summed_up_over_the_base_of_its_record(unknown):
    rows = summary_rows(unknown[0]["blocks"])
    assert rows["quartz_swarm", "2"][3:8] == ["2.00", DASH, "64,000", "2.00", "100 %"]
    assert summary_table(unknown[0]["blocks"])["notes"][0] == (
        "Speed-up and efficiency of quartz strategies are over quartz_alone: 32,000 samples/s (n = 1)."
    )


def test_what_the_record_of_an_unknown_strategy_tells_is_in_the_document(unknown):
    [exposed] = rows_of(unknown[0]["blocks"], "exposed")
    assert (exposed["wire_bytes"], exposed["formula_bytes"]) == ("4,000,000", "3,000,000")
    assert (exposed["formula"], exposed["formula_source"]) == ("N times the model", "Nobody, 2031")
    [gossip] = rows_of(unknown[0]["blocks"], "phases")
    assert [gossip[name] for name in ("regime", "phase", "meaning")] == [
        "digits weak",
        "gossip",
        "until everybody knows",
    ]
    # 0.12 s are of 60 steps.
    assert gossip["seconds"] == "0.00200"
    options, convenience = rows_of(unknown[0]["blocks"], "factors")
    assert (options["first"], options["second"]) == ("quartz_swarm", "quartz_swarm, boosted")
    assert (convenience["first"], convenience["second"]) == ("quartz_swarm", "quartz_easy")


def test_an_unknown_family_is_drawn_in_the_colors_of_its_records(unknown):
    assert b"#123456" in unknown[1]["headline.svg"]()


def test_strategies_of_one_framework_over_different_bases_are_named_one_by_one():
    material = material_of(
        *[make_record("amber_single"), make_record("amber_ring", 2)],
        *[make_record("mine_alone", base=None), make_record("mine", 2, base="mine_alone")],
        make_record("lonely", 2, framework="", base="nowhere"),
    )
    notes = summary_table(speed.tables(material))["notes"]
    assert notes[:3] == [
        "nowhere, the undistributed base of lonely, wasn't measured: no speed-up over it.",
        "Speed-up and efficiency of amber_ring and amber_single are over amber_single: 32,000 samples/s (n = 1).",
        "Speed-up and efficiency of mine and mine_alone are over mine_alone: 32,000 samples/s (n = 1).",
    ]


def test_the_story_comes_before_the_certificate_and_the_tables_come_last(content):
    assert headings(content["blocks"], level=1) == [
        *["Finding", "Curves", "Where the time goes", "The same maths", "Tables"],
        "How this was measured",
    ]
    kinds = [block["kind"] for block in content["blocks"]]
    assert kinds.index("answers") + 1 == kinds.index("contents") < kinds.index("heading", 1)
    story = kinds[: [block.get("text") for block in content["blocks"]].index("Tables")]
    # That of the ranking on the first page, and that of what updates were made of.
    assert story.count("table") == 2
    assert story.index("table") < story.index("contents")


def test_every_figure_says_what_it_shows_to_who_cannot_see_it(content):
    assert all(len(block["alt"]) > 40 for block in content["blocks"] if block["kind"] == "figure")


def test_the_command_and_the_digests_that_it_takes_to_repeat_it_are_in_it(tmp_path):
    other = make_record("amber_ring", 4, data_sha256="def456", data="Fashion-MNIST")
    records = named(make_record(data_sha256="abc123"), make_record("amber_ring", 2, data_sha256="abc123"), other)
    folder = write_all(tmp_path, records)
    (folder / "command.txt").write_text("nox -s compare -- --order-seed 7\n")
    blocks = machine.section(Material(read_results(folder)))
    rows = dict(table_under(blocks, "Machine, versions and settings")["rows"])
    assert rows["to repeat it"] == "nox -s compare -- --order-seed 7"
    assert rows["rows of the datasets, SHA-256"] == "digits (Fashion-MNIST) def456; digits abc123"
    assert (rows["schema of the records"], rows["seeds"]) == ("4", "3")
    files = b"".join(path.read_bytes() for path in sorted(folder.glob("*.json")))
    assert rows["all records, SHA-256"] == hashlib.sha256(files).hexdigest()
