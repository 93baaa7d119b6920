"""What each process holds, and what sharding it saves."""

import pytest

from common.declarations.strategy import SHARDING_OF
from common.records.training import Record
from reports.blocks import DASH
from reports.tables import summaries
from reports.tables.memory import table as memory_table
from reports.words import memory
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.memory_of_processes import holding, process
from tests.reports.records import make_record, named, varied


def table(*records: Record) -> dict[str, dict]:
    """The rows of the table by strategy."""
    stems = named(*records)
    return {row["strategy"]: row for row in memory_table(summaries.launches(stems), stems).to_dict("records")}


def section(*records: Record) -> list[dict]:
    return memory.section(material_of(*records))


def test_each_factor_is_said_to_be_over_the_strategy_that_its_records_name():
    sharded = holding("amber_sharded", process(4, peak=300))
    other = changed(holding("mine", process(2, peak=100)), compared_with={SHARDING_OF: "theirs"})
    blocks = section(holding("amber_ring", process(8)), holding("theirs", process(8, peak=200)), sharded, other)
    [shown] = [block for block in blocks if block["kind"] == "table"]
    assert {row[0]: row[-1] for row in shown["rows"]} == {
        **{"amber_ring": DASH, "theirs": DASH},
        **{"amber_sharded": "0.75", "mine": "0.50"},
    }
    assert shown["notes"] == [
        "The factors of amber_sharded are over amber_ring in the same regime with as many workers.",
        "The factors of mine are over theirs in the same regime with as many workers.",
    ]


def test_the_section_shows_the_megabytes_of_every_cell_in_the_order_of_the_strategies():
    found = section(
        holding("cobalt_replicas", process(8, 4, peak=456)), holding("amber_ring", process(1, 2, peak=3_000_000))
    )
    assert [block["kind"] for block in found] == ["heading", "text", "table"]
    assert found[1]["text"].startswith("Megabytes in the process that holds most")
    assert found[-1]["rows"] == [
        ["amber_ring", "2", "digits weak", "1", "1.00", "1.00", "2.00", "4.00", "3,000,000"],
        ["cobalt_replicas", "2", "digits weak", "1", "8.00", "8.00", "4.00", "20.0", "456"],
    ]
    assert found[-1]["align"] == ["left", "right", "left", *["right"] * 6]


def test_without_a_strategy_that_shards_the_table_has_no_factors():
    [shown] = [block for block in section(holding("amber_ring", process(8))) if block["kind"] == "table"]
    assert shown["columns"][-1] == "peak"
    assert shown["notes"] == []


def test_older_records_have_no_row_and_launches_without_exchange_take_no_part():
    silent = changed(varied("amber_ring", exchange=False), memory_bytes=[process(8)])
    assert table(make_record("amber_ring"), silent) == {}
    nothing = memory_table(summaries.launches({}), {})
    assert section() == []
    assert " ".join(nothing) == (
        "regime workers strategy reference n parameters gradients optimizer_state held above_import device_peak "
        "reference_n reference_held reference_peak peak held_factor peak_factor"
    )


@pytest.mark.parametrize(("state", "is_said"), [(0, True), (8, False)])
def test_no_state_to_shard_is_said_where_the_optimizer_has_none(state, is_said):
    assert ("keeps no state" in str(section(holding("amber_ring", process(8, state))))) == is_said
