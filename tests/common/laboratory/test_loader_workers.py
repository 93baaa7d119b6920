"""common/laboratory/loader_workers.py: the launches, and what they tell; nothing trains."""

from common.laboratory.loader_workers import EXPERIMENT, Scope, launches
from common.observations import display
from common.records.training import Window
from common.sessions.experiment import observed_of
from tests.launching import left_by

SCOPE = Scope(batch=(16, 64), loader_workers=(2,))


def record_of(planned, seconds):
    """What a launch leaves whose steps take so long, a tenth of that waiting."""
    window = Window(rank=0, step=1, steps=10, seconds=10 * seconds, input_seconds=seconds)
    return left_by(planned, windows=[window])


def test_a_round_has_each_batch_from_memory_and_with_each_number_of_loaders():
    found = [(each.task.batch, each.options.loader_workers) for each in launches(SCOPE, 1)]
    assert found == [(16, 0), (16, 2), (64, 0), (64, 2)]


def test_loaders_are_held_to_rows_from_memory_in_the_same_rounds():
    records = {
        planned.name: record_of(planned, 0.001 * number / (2 if planned.options.loader_workers else 1))
        for number in range(1, 7)
        for planned in launches(SCOPE, number)
    }
    found = observed_of(EXPERIMENT, records)
    assert display.answer(found) == "Faster than its base: 2 loader workers from 16 rows per worker on."
    [table] = display.value_tables(found)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["rows"], row["rows per worker"], row["n"], row["times as fast"]) for row in rows] == [
        ("0 loader workers", "16", "6", "\N{EN DASH}"),
        ("0 loader workers", "64", "6", "\N{EN DASH}"),
        ("2 loader workers", "16", "6", "2.00"),
        ("2 loader workers", "64", "6", "2.00"),
    ]
    assert [row["of it waiting, ms"] for row in rows] == ["0.350", "0.350", "0.175", "0.175"]


def test_a_launch_that_failed_is_told_with_the_reason():
    planned = next(launches(SCOPE, 1))
    failed = left_by(planned, status="failed", reason="It broke.", windows=[])
    [table] = display.missing_table(observed_of(EXPERIMENT, {planned.name: failed}))
    assert [table.rows[0][each] for each in (0, -3, -1)] == ["0 loader workers", "failed", "It broke."]
