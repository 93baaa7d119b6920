"""What each process holds, beside what DistributedDataParallel's takes."""

import dataclasses
import math

import pytest

from common.record import Record
from reports import memory, tables
from tests.reports.records import make_record, named

MEGABYTE = 1_000_000


def holding(strategy: str, *processes: dict[str, int], workers: int = 2) -> Record:
    return make_record(strategy, workers, memory_bytes=[*processes])


def process(parameters: int, state: int = 0, peak: int = 400, **more: int) -> dict[str, int]:
    """What a process with so many megabytes of parameters tells; its gradients are as large."""
    sizes = {"parameters": parameters, "gradients": parameters, "optimizer_state": state, "above_import": peak}
    return {name: value * MEGABYTE for name, value in (sizes | more).items()}


def table(*records: Record) -> dict[str, dict]:
    """The rows of the table by strategy."""
    stems = named(*records)
    return {row["strategy"]: row for row in memory.table(tables.launches(stems), stems).to_dict("records")}


def sentences(*records: Record) -> list[str]:
    stems = named(*records)
    launches = tables.launches(stems)
    return memory.shardings(memory.table(launches, stems), dict.fromkeys(launches["regime"], "wide weak"))


def test_the_process_that_holds_most_and_the_largest_peak_count():
    row = table(holding("torch_fsdp", process(6, 6, peak=300), process(5, 5, peak=330)))["torch_fsdp"]
    assert [row[name] / MEGABYTE for name in ("parameters", "gradients", "optimizer_state", "held")] == [6, 6, 6, 18]
    assert row["above_import"] == 330 * MEGABYTE


def test_a_cell_counts_by_the_median_of_its_launches():
    launches = [holding("torch_ddp", process(4, peak=peak), workers=1) for peak in (300, 310, 380)]
    row = table(*launches)["torch_ddp"]
    assert (row["n"], row["above_import"]) == (3, 310 * MEGABYTE)


def test_factors_are_over_distributed_data_parallel_with_as_many_workers():
    rows = table(
        holding("torch_ddp", process(8, 8, peak=400)),
        holding("torch_ddp", process(8, 8, peak=999), workers=1),
        holding("torch_zero", process(8, 4, peak=300)),
        holding("torch_fsdp", process(4, 4, peak=500), workers=4),
    )
    assert rows["torch_zero"]["held_factor"] == pytest.approx(20 / 24)
    assert rows["torch_zero"]["peak_factor"] == pytest.approx(0.75)
    assert math.isnan(rows["torch_fsdp"]["peak_factor"])


def test_on_gpus_the_peak_is_the_gpus():
    reference = holding("torch_ddp", process(8, peak=400, device_peak=100))
    rows = table(reference, holding("torch_fsdp", process(4, peak=800, device_peak=60)))
    assert rows["torch_fsdp"]["peak_factor"] == pytest.approx(0.6)


def test_older_records_have_no_row_and_launches_without_exchange_take_no_part():
    silent = holding("torch_ddp", process(8))
    silent = dataclasses.replace(silent, config=silent.config | {"exchange": False})
    assert table(make_record("torch_ddp"), silent) == {}
    assert memory.section(memory.table(tables.launches({}), {}), {}) == []


def test_a_strategy_that_does_not_tell_what_it_holds_shows_its_peak():
    row = table(holding("tf_mirrored", {"above_import": 200 * MEGABYTE}))["tf_mirrored"]
    assert row["above_import"] == 200 * MEGABYTE
    assert math.isnan(row["held"])


@pytest.mark.parametrize(
    ("peak", "said"), [(660, "costs 45\u00a0% more"), (228, "saves 50\u00a0%"), (457, "makes no difference")]
)
def test_sharding_is_said_to_cost_or_to_save_what_was_measured(peak, said):
    [sentence] = sentences(holding("torch_ddp", process(8, peak=456)), holding("torch_fsdp", process(4, peak=peak)))
    assert sentence == (
        f"torch_fsdp with 2 workers on wide weak: peak {peak} MB (n = 1) against torch_ddp's 456 (n = 1): it {said}; "
        "sharding is often said to save over 60\u00a0%."
    )


def test_the_world_with_the_most_to_shard_is_named_with_the_range_over_all():
    [sentence] = sentences(
        *(holding("torch_ddp", process(8, peak=400), workers=workers) for workers in (1, 2, 4)),
        *(holding("torch_fsdp", process(4, peak=600 - 100 * workers), workers=workers) for workers in (1, 2, 4)),
    )
    assert "with 4 workers on wide weak: peak 200 MB" in sentence
    assert sentence.endswith("Over its 2 cells beside torch_ddp's, peaks go from \u221250\u00a0% to +0\u00a0%.")


@pytest.mark.parametrize(("state", "is_said"), [(0, True), (8, False)])
def test_no_state_to_shard_is_said_where_the_optimizer_has_none(state, is_said):
    stems = named(holding("torch_ddp", process(8, state)))
    launches = tables.launches(stems)
    blocks = memory.section(memory.table(launches, stems), dict.fromkeys(launches["regime"], "wide weak"))
    assert ("keeps no state" in str(blocks)) == is_said
