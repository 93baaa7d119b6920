"""What the section on time says beside its tables, and which of its parts stand there at all."""

from common.records.training import Record
from reports.blocks import DASH
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import costs
from tests.changes import changed
from tests.reports.records import make_record, named, varied


def section(tmp_path, *records: Record) -> list[dict]:
    return costs.section(Material(Results(tmp_path, named(*records), None)))


def table_under(blocks: list[dict], heading: str) -> dict:
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")


def formulas(blocks: list[dict]) -> list[str]:
    return next(block["items"] for block in blocks if block["kind"] == "items")


def test_each_formula_stands_once_with_its_strategies_and_its_source(tmp_path):
    names = ("amber_ring", "cobalt_replicas", "amber_sharded", "amber_parts")
    records = [make_record(name, 2, wire_bytes_per_step=1.0) for name in names]
    blocks = section(tmp_path, *records)
    assert formulas(blocks) == [
        "2 (N - 1) times the bytes of the gradients, by a ring all-reduce: amber_ring and cobalt_replicas (Patarasuk "
        '& Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).',
        "none where it depends on how the model is cut: amber_parts.",
        "twice the bytes of the gradients: amber_sharded (Somebody, 2014).",
    ]
    rows = {row[0]: row for row in table_under(blocks, "Exchange, and bytes sent")["rows"]}
    assert rows["amber_sharded"][-1] == "0.138"
    assert rows["amber_parts"][-1] == DASH


def test_formulas_of_launches_that_are_not_in_the_table_are_not_named(tmp_path):
    counted = make_record("amber_ring", 2, wire_bytes_per_step=1.0)
    [only] = formulas(section(tmp_path, counted, make_record("amber_sharded", 2), make_record("amber_parts", 1)))
    assert "amber_ring" in only


def test_a_strategy_is_named_with_its_label_where_its_formula_depends_on_that(tmp_path):
    labelled = [
        varied("amber_ring", 2),
        varied("amber_ring", 2, rounding="fp16"),
        varied("amber_ring", 2, compiled=True),
    ]
    records = [changed(record, wire_bytes_per_step=1.0) for record in labelled]
    whole, half = formulas(section(tmp_path, *records))
    assert ": amber_ring and amber_ring, compiled (" in whole
    assert half.startswith("half of 2 (N - 1) times")
    assert ": amber_ring, fp16 rounding, other maths (" in half


def test_a_strategy_that_declares_no_formula_is_said_to_have_none(tmp_path):
    silent = make_record("mine", 2, wire_bytes_per_step=1.0, formula_bytes_per_step=None, formula="", formula_source="")
    assert formulas(section(tmp_path, silent)) == ["no formula is declared: mine."]


def test_exposed_communication_stands_beside_both_times_with_its_pairs_and_its_interval(tmp_path):
    steps = [make_record("amber_ring", 2, (5.0 + index,) * 2) for index in range(6)]
    computing = [varied("amber_ring", 2, (3.0 + index / 2,) * 2, exchange=False) for index in range(6)]
    table = table_under(section(tmp_path, *steps, *computing), "Exchange, and bytes sent")
    assert table["columns"][3:8] == ["T_step, ms", "T_comp, ms", "exposed, ms", "95 % interval", "of T_step"]
    assert [row[3:8] for row in table["rows"]] == [
        ["7.50 (n = 6)", "4.25 (n = 6)", "3.25 (n = 6)", "2.00 to 4.50", "43 %"]
    ]
    assert table["notes"] == []
    few = table_under(section(tmp_path, *steps, *computing[:5]), "Exchange, and bytes sent")
    assert few["rows"][0][5:8] == ["3.00 (n = 5)", DASH, "40 %"]
    assert few["notes"] == ["No interval is given for fewer than 6 pairs."]


def test_what_one_process_costs_stands_beside_what_tutorials_claim(tmp_path):
    one = make_record("amber_threads", 2, (3.0,) * 3, rank_factors=(1.0,))
    blocks = section(tmp_path, make_record("amber_ring", 2, (2.0,) * 3), one)
    assert "Tutorials claim a factor of 2 to 3." in str(blocks)
    assert table_under(blocks, "What one process costs")["rows"] == [
        ["amber_threads", "amber_ring", "2", "digits weak", "3.00", "2.00", "1.50", DASH, "1"]
    ]


def test_parts_without_measurements_are_left_out(tmp_path):
    headings = [
        block["text"]
        for block in section(tmp_path, make_record("amber_ring", startup_seconds=None))
        if block["kind"] == "heading"
    ]
    assert headings == ["Exchange, and bytes sent"]


def test_the_time_to_the_first_step_stands_in_its_parts(tmp_path):
    slow = {"imports": 3.0, "world": 1.25, "first_step": 0.25}
    records = [
        make_record("amber_ring", 2),
        make_record("amber_ring", 2, time_to_first_step_s=4.5, startup_seconds=slow),
    ]
    table = table_under(section(tmp_path, *records, make_record("amber_single")), "Time to the first step")
    assert table["columns"][3:] == ["first step after, s", "imports, s", "world, s", "first step, s"]
    assert table["rows"][0] == ["amber_ring", "2", "2", "3.00", "2.00", "0.750", "0.250"]
    assert [row[0] for row in table["rows"]] == ["amber_ring", "amber_single"]
    without = changed(make_record(), startup_seconds=None)
    assert "Time to the first step" not in [block.get("text") for block in section(tmp_path, without)]
