"""What each process holds, and what sharding it saves."""

import math

import pytest

from common.declarations.strategy import SHARDING_OF
from common.records.training import Record
from reports.tables import summaries
from reports.tables.memory import table as memory_table
from tests.changes import changed
from tests.reports.memory_of_processes import MEGABYTE, holding, process
from tests.reports.records import make_record, named, over_hosts, varied

RING = "amber_ring"


def table(*records: Record) -> dict[str, dict]:
    """The rows of the table by strategy."""
    stems = named(*records)
    return {row["strategy"]: row for row in memory_table(summaries.launches(stems), stems).to_dict("records")}


def test_the_process_that_holds_most_and_the_largest_peak_count():
    row = table(holding("amber_sharded", process(5, 5, peak=330), process(6, 6, peak=300)))["amber_sharded"]
    assert [row[name] / MEGABYTE for name in ("parameters", "gradients", "optimizer_state", "held")] == [6, 6, 6, 18]
    assert row["above_import"] == 330 * MEGABYTE


def test_a_cell_counts_by_the_median_of_its_launches():
    launches = [holding("amber_ring", process(4, peak=peak), workers=1) for peak in (300, 310, 380)]
    row = table(*launches)["amber_ring"]
    assert (row["n"], row["above_import"]) == (3, 310 * MEGABYTE)


def test_factors_are_over_the_strategy_that_is_sharded_with_as_many_workers():
    owners = changed(holding("amber_owners", process(8, 4, peak=300)), compared_with={SHARDING_OF: RING})
    rows = table(
        holding("amber_ring", process(8, 8, peak=400)),
        holding("amber_ring", process(8, 8, peak=999), workers=1),
        owners,
        holding("amber_sharded", process(4, 4, peak=500), workers=4),
    )
    assert rows["amber_owners"]["held_factor"] == pytest.approx(20 / 24)
    references = {name: row["reference"] for name, row in rows.items()}
    assert references == {"amber_ring": "", "amber_owners": "amber_ring", "amber_sharded": "amber_ring"}
    assert rows["amber_owners"]["peak_factor"] == pytest.approx(0.75)
    assert rows["amber_owners"]["peak"] == rows["amber_owners"]["above_import"] > 0
    assert math.isnan(rows["amber_sharded"]["peak_factor"])
    assert math.isnan(rows["amber_ring"]["peak_factor"])


def test_a_reference_that_holds_nothing_gives_no_factor():
    rows = table(holding("amber_ring", process(0, peak=0)), holding("amber_sharded", process(4)))
    assert (rows["amber_sharded"]["reference_held"], rows["amber_sharded"]["reference_peak"]) == (0, 0)
    assert math.isnan(rows["amber_sharded"]["held_factor"])
    assert math.isnan(rows["amber_sharded"]["peak_factor"])


def test_on_gpus_the_peak_is_the_gpus():
    reference = holding("amber_ring", process(8, peak=400, device_peak=100))
    rows = table(reference, holding("amber_sharded", process(4, peak=800, device_peak=60)))
    assert rows["amber_sharded"]["peak_factor"] == pytest.approx(0.6)


def test_a_strategy_that_does_not_tell_what_it_holds_shows_its_peak():
    row = table(holding("cobalt_replicas", {"above_import": 200 * MEGABYTE}))["cobalt_replicas"]
    assert row["above_import"] == 200 * MEGABYTE
    assert math.isnan(row["held"])


def test_older_records_have_no_row_and_launches_without_exchange_take_no_part():
    silent = changed(varied("amber_ring", exchange=False), memory_bytes=[process(8)])
    assert table(make_record("amber_ring"), silent) == {}
    nothing = memory_table(summaries.launches({}), {})
    assert " ".join(nothing) == (
        "regime workers strategy reference n parameters gradients optimizer_state held above_import device_peak "
        "reference_n reference_held reference_peak peak held_factor peak_factor"
    )


def test_sharding_is_compared_on_the_same_hosts():
    held = {"memory_bytes": [process(10, peak=400)] * 2}
    found = table(
        make_record(RING, 2, memory_bytes=[process(99, peak=900)]),
        over_hosts(RING, **held),
        over_hosts("amber_sharded", memory_bytes=[process(5, peak=200)]),
    )
    assert found["amber_ring, 2 hosts, 100 Mbit/s"]["reference"] == ""
    row = found["amber_sharded, 2 hosts, 100 Mbit/s"]
    assert row["reference"] == "amber_ring, 2 hosts, 100 Mbit/s"
    assert (row["held_factor"], row["peak_factor"]) == (0.5, 0.5)
