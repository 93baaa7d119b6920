"""A step's messages replayed alone, and a framework's own products, against times worked out by hand."""

import pytest

from common.records.ceiling import Ceiling
from common.records.collective_times import Cell, CollectivesRecord
from common.records.trace import STEP
from common.records.training import Record
from tests.changes import changed
from tests.reports.materials import material_of, probe, replay, replayed, replays
from tests.reports.records import MadeUpOptions, make_record, over_hosts, task_of, unfinished, varied

EXPOSED = (1.90, 1.91, 1.92, 1.93, 1.94, 1.95)
"""Milliseconds of exchange in a launch of each of six rounds."""

LAUNCHES = [f"amber_ring-2w-{2 * place:02d}" for place in range(6)]
"""The names of these launches among `steps`."""


def steps(*exposed: float) -> list[Record]:
    """Two launches for each round: one whose step has so many ms of exchange, and one of 3 ms without exchange."""
    records = []
    for more in exposed:
        records.append(make_record("amber_ring", 2, (3.0 + more,) * 3))
        records.append(varied("amber_ring", 2, (3.0,) * 3, exchange=False))
    return records


def table(records: list[Record], sent: dict[str, CollectivesRecord], **more: object) -> list[dict]:
    return material_of(*records, replays=sent, **more).exchanges.to_dict("records")


def times(row: dict, name: str) -> tuple[float, float, float]:
    return tuple(1000 * row[f"{name}_seconds{end}"] for end in ("", "_low", "_high"))


def test_a_step_that_shows_more_than_its_messages_take_alone_meets_contention():
    [row] = table(steps(*EXPOSED), replays(LAUNCHES, 1.2))
    assert (row["strategy"], row["workers"], row["verdict"], row["reason"]) == ("amber_ring", 2, "contention", "")
    assert times(row, "exposed") == pytest.approx((1.925, 1.9, 1.95))
    assert times(row, "replay") == pytest.approx((1.2, 1.2, 1.2))
    assert times(row, "leftover") == pytest.approx((0.725, 0.7, 0.75))
    assert [row[f"{name}_seconds_n"] for name in ("exposed", "replay", "leftover")] == [6, 6, 6]
    assert (row["library"], row["source"]) == ("The library amber", "a tracer")
    assert (row["oversubscribed"], len(row["replays"])) == (False, 6)


def test_a_step_that_shows_less_than_its_messages_take_alone_overlaps():
    sent = replays(LAUNCHES, 2.0, under_way=(0.5, 2.6, 2.7), messages=3)
    sent = {stem: changed(each, cells=[changed(each.cells[0], sent_bytes=1.2e6)]) for stem, each in sent.items()}
    records = [changed(each, wire_bytes_per_step=1.25e6) for each in steps(1.20, 1.21, 1.22, 1.23, 1.24, 1.25)]
    [row] = table(records, sent)
    assert (row["verdict"], row["messages"], row["size_bytes"]) == ("overlap", [3], 1_500_000)
    assert times(row, "leftover") == pytest.approx((-0.775, -0.8, -0.75))
    assert (row["sent_bytes"], row["step_sent_bytes"]) == (1.2e6, 1.25e6)
    # All replays of one trace count its steps once.
    assert (row["under_way_seconds"], row["under_way_steps"]) == (pytest.approx(0.0026), 3)


def test_a_replay_is_set_against_the_step_of_its_own_round():
    records = steps(1.0, 2.0, 3.0)
    sent = {f"{n}": replay(n - 0.25, n, replayed=replayed(LAUNCHES[n - 1])) for n in (3, 1, 2)}
    assert [row["leftover_seconds"] for row in table(records, sent)] == pytest.approx([0.00025])
    # By the plan the third round is the first, and another one has no replay.
    [row] = table(records, sent, rounds=[7, 7, 2, 2, 1, 1])
    assert (row["exposed_seconds_n"], row["leftover_seconds_n"]) == (3, 2)
    # 3 ms less 0.75, and 2 ms less 1.75.
    assert row["leftover_seconds"] == pytest.approx(0.00125)


def test_replays_that_tell_no_time_have_a_row_for_each_reason():
    def refused(reason: str, status: str = "unsupported") -> CollectivesRecord:
        about = replayed("", strategy="amber_threads")
        return replay(1.0, status=status, reason=reason, cells=[], replayed=about, library="", title="")

    def refusals(records: list[Record], *sent: CollectivesRecord, **more: object) -> list[tuple]:
        rows = table(records, {f"{place}": each for place, each in enumerate(sent)}, **more)
        assert all(isinstance(row["verdict"], float) for row in rows if row["reason"])
        return [(row["strategy"], row["workers"], len(row["replays"]), row["reason"]) for row in rows if row["reason"]]

    traces = {
        "traced": make_record("amber_ring", 2),
        "untraced": unfinished("failed", "It left no messages.", "amber_parts"),
    }
    no_size = Cell(collective=STEP, size_bytes=8, status="unsupported", reason="No such size.")
    told = refusals(
        steps(*EXPOSED),
        refused("It copies."),
        replay(1.0, 2, cells=[no_size]),
        refused("It copies."),
        refused("It ended.", "failed"),
        replay(1.0, 3, status="failed", reason="It broke."),
        replay(1.0, replayed=replayed("amber_ring-2w-77")),
        replay(1.0, hosts=over_hosts().hosts),
        traces=traces,
    )
    assert told == [
        ("amber_parts", 2, 1, "It left no messages."),
        ("amber_ring", 2, 1, "It broke."),
        ("amber_ring", 2, 1, "Its launch amber_ring-2w-77 of the whole step wasn't measured."),
        ("amber_ring", 2, 1, "Its ranks were on several hosts, whose clocks aren't one."),
        ("amber_ring", 2, 1, "No such size."),
        ("amber_threads", 2, 2, "It copies."),
        ("amber_threads", 2, 1, "It ended."),
    ]
    assert refusals([], refused("It copies.")) == [("amber_threads", 2, 1, "It copies.")]


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
    ("facts", "task", "exchange"),
    [
        ({"backend": "carrier pigeons"}, {}, [0.0]),
        ({"status": "failed"}, {}, []),
        ({"variables": {"KERNELS": "old"}}, {}, []),
        ({"rows": 32}, {}, []),
        ({}, {"scaling": "strong", "batch": 128}, [0.4]),
    ],
    ids=["another transport", "failed", "a changed framework", "other rows", "its part of the rows, strong scaling"],
)
def test_only_a_good_probe_of_the_same_rows_and_transport_stands_beside_a_strategy(facts, task, exchange):
    options = [MadeUpOptions(exchange=each) for each in (True, False)]
    records = [make_record("amber_ring", 2, task=task_of(2, **task), options=each) for each in options]
    assert [row[-1] for row in ceilings(records, probe(**facts))] == exchange
