"""A step's messages replayed alone, and a framework's own products, against times worked out by hand."""

from pathlib import Path

import pandas as pd
import pytest

from common.records.ceiling import Ceiling
from common.records.collective_times import Cell, CollectivesRecord
from common.records.trace import STEP
from common.records.training import Record
from reports.tables.material import Material
from reports.tables.results import Results
from tests.changes import changed
from tests.reports.materials import material_of, probe, replay, replayed
from tests.reports.records import MadeUpOptions, make_record, over_hosts, task_of, unfinished, varied

ROUNDS = 6
SHIFTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)
"""By how many milliseconds the step with exchange is longer in each round."""


def refused(reason: str, status: str = "unsupported", strategy: str = "amber_threads") -> CollectivesRecord:
    return replay(1.0, status=status, reason=reason, cells=[], replayed=replayed("", strategy), library="", title="")


def steps(exposed: float, rounds: int = ROUNDS) -> dict[str, Record]:
    """Launches whose steps take 3 ms without exchange, and with it so many more, and `SHIFTS`; by their stems."""
    found = {}
    for number, shift in enumerate(SHIFTS[:rounds], start=1):
        found[f"amber_ring-2w-{number:02d}"] = make_record("amber_ring", 2, (3.0 + exposed + shift,) * 3)
        found[f"amber_ring-2w-no-{number:02d}"] = varied("amber_ring", 2, (3.0,) * 3, exchange=False)
    return found


def replays(
    milliseconds: float, rounds: int = ROUNDS, under_way: tuple[float, ...] = (), **changes: object
) -> dict[str, CollectivesRecord]:
    """A replay of the trace of each round, which told that its messages were so many milliseconds under way."""
    found = {}
    for number in range(1, rounds + 1):
        about = replayed(f"amber_ring-2w-{number:02d}", under_way=tuple(each / 1000 for each in under_way))
        found[f"replay-{number}"] = replay(milliseconds, number, replayed=about, **changes)
    return found


def table(
    records: dict[str, Record],
    sent: dict[str, CollectivesRecord],
    plan: pd.DataFrame | None = None,
    traces: dict[str, Record] | None = None,
) -> list[dict]:
    results = Results(Path(), records, plan, replays=sent, traces=traces or {})
    return Material(results).exchanges.to_dict("records")


def times(row: dict, name: str) -> tuple[float, float, float]:
    return tuple(1000 * row[f"{name}_seconds{end}"] for end in ("", "_low", "_high"))


def refusals(
    records: dict[str, Record], sent: dict[str, CollectivesRecord], traces: dict[str, Record] | None = None
) -> list[tuple[str, int, int, str]]:
    """Who wasn't replayed with how many workers in how many launches, and why."""
    rows = [row for row in table(records, sent, traces=traces) if row["reason"]]
    assert all(isinstance(row["verdict"], float) for row in rows)
    return [(row["strategy"], row["workers"], len(row["replays"]), row["reason"]) for row in rows]


def test_a_step_that_shows_more_than_its_messages_take_alone_meets_contention():
    [row] = table(steps(1.9), replays(1.2))
    assert (row["strategy"], row["workers"], row["verdict"], row["reason"]) == ("amber_ring", 2, "contention", "")
    assert times(row, "exposed") == pytest.approx((1.925, 1.9, 1.95))
    assert times(row, "replay") == pytest.approx((1.2, 1.2, 1.2))
    assert times(row, "leftover") == pytest.approx((0.725, 0.7, 0.75))
    assert [row[f"{name}_seconds_n"] for name in ("exposed", "replay", "leftover")] == [6, 6, 6]
    assert (row["library"], row["source"]) == ("The library amber", "a tracer")


def test_a_step_that_shows_less_than_its_messages_take_alone_overlaps():
    sent = replays(2.0, messages=3, under_way=(0.5, 2.6, 2.7))
    cells = {stem: [changed(record.cells[0], sent_bytes=1.2e6)] for stem, record in sent.items()}
    sent = {stem: changed(record, cells=cells[stem]) for stem, record in sent.items()}
    [row] = table({stem: changed(record, wire_bytes_per_step=1.25e6) for stem, record in steps(1.2).items()}, sent)
    assert (row["verdict"], row["messages"], row["size_bytes"]) == ("overlap", [3], 1_500_000)
    assert times(row, "leftover") == pytest.approx((-0.775, -0.8, -0.75))
    assert (row["sent_bytes"], row["step_sent_bytes"]) == (1.2e6, 1.25e6)
    # All replays of one trace count its steps once.
    assert (row["under_way_seconds"], row["under_way_steps"]) == (pytest.approx(0.0026), 3)


def test_a_replay_is_set_against_the_step_of_its_own_round():
    records = steps(0.0, 3)
    for number in (1, 2, 3):
        stem = f"amber_ring-2w-{number:02d}"
        records[stem] = make_record("amber_ring", 2, (3.0 + number,) * 3)
    sent = {f"{number}": replay(number - 0.25, number) for number in (3, 1, 2)}
    assert [row["leftover_seconds"] for row in table(records, sent)] == pytest.approx([0.00025])
    # By the plan the third round is the first, and another one has no replay.
    plan = pd.DataFrame({"launch": [*records], "repetition": [7, 7, 2, 2, 1, 1]})
    [row] = table(records, sent, plan)
    assert (row["exposed_seconds_n"], row["leftover_seconds_n"]) == (3, 2)
    # 3 ms less 0.75, and 2 ms less 1.75.
    assert row["leftover_seconds"] == pytest.approx(0.00125)


def test_replays_that_tell_no_time_have_a_row_for_each_reason():
    sent = {
        "1": refused("It copies."),
        "2": replay(1.0, 2, cells=[Cell(collective=STEP, size_bytes=8, status="unsupported", reason="No such size.")]),
        "3": refused("It copies."),
        "4": refused("It ended.", "failed"),
        "5": replay(1.0, replayed=replayed("amber_ring-2w-77")),
        "6": replay(1.0, hosts=over_hosts().hosts),
    }
    traces = {
        "traced": make_record("amber_ring", 2),
        "untraced": unfinished("failed", "It left no messages.", "amber_parts"),
    }
    assert refusals(steps(1.9), sent, traces) == [
        ("amber_parts", 2, 1, "It left no messages."),
        ("amber_ring", 2, 1, "Its launch amber_ring-2w-77 of the whole step wasn't measured."),
        ("amber_ring", 2, 1, "Its ranks were on several hosts, whose clocks aren't one."),
        ("amber_ring", 2, 1, "No such size."),
        ("amber_threads", 2, 2, "It copies."),
        ("amber_threads", 2, 1, "It ended."),
    ]
    assert refusals({}, {"1": refused("It copies.")}) == [("amber_threads", 2, 1, "It copies.")]


def ceilings(records, *probes: Ceiling) -> list[tuple]:
    """Each strategy of the table with its workers and, in milliseconds, its products, step and exchange alone."""
    times = ["products_seconds", "step_seconds", "exchange_seconds"]
    found = material_of(*records, ceilings=probes).ceilings
    found[times] = (1000 * found[times]).round(6)
    return [*found[["strategy", "workers", *times]].fillna(0.0).itertuples(index=False, name=None)]


def test_each_strategy_stands_beside_the_products_of_its_framework_and_the_exchange_of_its_family():
    records = [
        *[make_record("amber_single"), make_record("cobalt_single", milliseconds=(4.0,) * 3)],
        *[make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)],
        *[make_record("teal_amber", 2, (6.0,) * 3), varied("teal_amber", 2, (2.0,) * 3, exchange=False)],
    ]
    assert ceilings(records, probe("amber", 1.0)) == [
        *[("amber_ring", 2, 1.0, 2.5, 0.4), ("amber_single", 1, 1.0, 2.0, 0.0), ("teal_amber", 2, 1.0, 2.0, 0.0)],
    ]


@pytest.mark.parametrize(
    ("facts", "exchange"),
    [
        ({"backend": "carrier pigeons"}, [0.0]),
        ({"status": "failed"}, []),
        ({"variables": {"KERNELS": "old"}}, []),
        ({"rows": 32}, []),
    ],
    ids=["another transport", "failed", "a changed framework", "other rows"],
)
def test_only_a_good_probe_of_the_same_rows_and_transport_stands_beside_a_strategy(facts, exchange):
    records = [make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)]
    assert [row[-1] for row in ceilings(records, probe(**facts))] == exchange


def test_a_worker_of_strong_scaling_has_its_part_of_the_rows():
    task = task_of(2, scaling="strong", batch=128)
    alone = MadeUpOptions(exchange=False)
    records = [make_record("amber_ring", 2, task=task), make_record("amber_ring", 2, task=task, options=alone)]
    [row] = ceilings(records, probe())
    assert row[:2] == ("amber_ring", 2)
