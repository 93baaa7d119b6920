"""What launches tell beside their speed: starts, accuracies, memory, phases of an exchange, and who waited for whom."""

import dataclasses
import math

import pandas as pd
import pytest
from msgspec import structs

from common.declarations.strategy import SHARDING_OF
from common.records.training import Record
from reports.tables import accounts, summaries
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, process, varied

# Start-up and accuracy


def test_the_time_to_the_first_step_is_a_median_in_all_its_parts():
    def starting(name: str, seconds: float, **changes: object) -> Record:
        parts = {"imports": seconds - 1.0, "world": 1.0, "first_step": 0.0}
        return make_record(name, 2, time_to_first_step_s=seconds, startup_seconds=parts, **changes)

    unknown = make_record("cobalt_replicas", 2, startup_seconds=None)
    records = [starting("amber_ring", seconds) for seconds in (3.0, 9.0, 5.0)]
    found = accounts.startups(named(*records, unknown, starting("amber_ring", 100.0, status="failed")))
    assert found.to_dict("records") == [
        {"strategy": "amber_ring", "workers": 2, "whole": 5.0, "imports": 4.0, "world": 1.0, "first_step": 0.0, "n": 3}
    ]


def test_accuracies_are_those_of_all_launches_of_the_same_training():
    def looking(reached: float, seconds: float, final: float) -> Record:
        looks = [(20, reached, seconds), (60, final, 2 * seconds)]
        entries = [{"step": step, "accuracy": share, "training_seconds": time} for step, share, time in looks]
        return make_record(accuracies=entries, final_accuracy=final)

    failed = changed(looking(0.99, 0.1, 0.99), status="failed")
    looked = [looking(0.90, 0.5, 0.91), looking(0.8, 0.4, 0.95), looking(0.8, 0.4, 0.85)]
    blind = changed(looked[0], accuracies=looked[0].accuracies[-1:], final_accuracy=0.97)
    generated = changed(blind, task=dataclasses.replace(blind.task, preset="pathway"))
    assert accounts.accuracies(named(*looked, blind, failed, generated)).to_dict("records") == [
        {"preset": "digits", "strategy": "amber_ring", "workers": 1, "global_batch": 64, "seed": 3, "steps": 60}
        | {"n": 4, "accuracy": pytest.approx(0.93), "lowest": 0.85, "target": 0.9, "looked": 3, "reached": 2}
        | {"target_seconds": pytest.approx(0.65)}
    ]


# Memory

RING = "amber_ring"
MEGABYTE = 1_000_000


def holding(strategy: str, *processes: dict[str, int], workers: int = 2) -> Record:
    return make_record(strategy, workers, memory_bytes=[*processes])


def memory(*records: Record) -> dict[str, dict]:
    """The rows of the table by strategy."""
    stems = named(*records)
    return {row["strategy"]: row for row in accounts.memory(summaries.launches(stems), stems).to_dict("records")}


def test_the_process_that_holds_most_and_the_largest_peak_count():
    row = memory(holding("amber_sharded", process(5, 5, peak=330), process(6, 6, peak=300)))["amber_sharded"]
    assert [row[name] / MEGABYTE for name in ("parameters", "gradients", "optimizer_state", "held")] == [6, 6, 6, 18]
    assert row["above_import"] == 330 * MEGABYTE


def test_factors_are_over_the_strategy_that_is_sharded_with_as_many_workers():
    owners = changed(holding("amber_owners", process(8, 4, peak=300)), compared_with={SHARDING_OF: RING})
    rows = memory(
        holding("amber_ring", process(8, 8, peak=400)),
        holding("amber_ring", process(8, 8, peak=999), workers=1),
        owners,
        holding("amber_sharded", process(4, 4, peak=500), workers=4),
    )
    assert rows["amber_owners"]["held_factor"] == pytest.approx(20 / 24)
    references = {name: row["reference"] for name, row in rows.items()}
    assert references == {"amber_ring": "", "amber_owners": "amber_ring", "amber_sharded": "amber_ring"}
    assert rows["amber_owners"]["peak_factor"] == pytest.approx(0.75)
    assert math.isnan(rows["amber_sharded"]["peak_factor"])
    assert math.isnan(rows["amber_ring"]["peak_factor"])


def test_a_reference_that_holds_nothing_gives_no_factor():
    rows = memory(holding("amber_ring", process(0, peak=0)), holding("amber_sharded", process(4)))
    assert math.isnan(rows["amber_sharded"]["held_factor"])
    assert math.isnan(rows["amber_sharded"]["peak_factor"])


def test_on_gpus_the_peak_is_the_gpus():
    reference = holding("amber_ring", process(8, peak=400, device_peak=100))
    rows = memory(reference, holding("amber_sharded", process(4, peak=800, device_peak=60)))
    assert rows["amber_sharded"]["peak_factor"] == pytest.approx(0.6)


def test_a_strategy_that_does_not_tell_what_it_holds_shows_its_peak():
    row = memory(holding("cobalt_replicas", {"above_import": 200 * MEGABYTE}))["cobalt_replicas"]
    assert row["above_import"] == 200 * MEGABYTE
    assert math.isnan(row["held"])


def test_older_records_have_no_row_and_launches_without_exchange_take_no_part():
    silent = changed(varied("amber_ring", exchange=False), memory_bytes=[process(8)])
    assert memory(make_record("amber_ring"), silent) == {}


def test_sharding_is_compared_on_the_same_hosts():
    held = {"memory_bytes": [process(10, peak=400)] * 2}
    found = memory(
        make_record(RING, 2, memory_bytes=[process(99, peak=900)]),
        over_hosts(RING, **held),
        over_hosts("amber_sharded", memory_bytes=[process(5, peak=200)]),
    )
    assert found["amber_ring, 2 hosts, 100 Mbit/s"]["reference"] == ""
    row = found["amber_sharded, 2 hosts, 100 Mbit/s"]
    assert row["reference"] == "amber_ring, 2 hosts, 100 Mbit/s"
    assert (row["held_factor"], row["peak_factor"]) == (0.5, 0.5)


# Phases

PHASES = [
    {"name": "waiting", "seconds": 0.06, "meaning": "until all workers have the gradient"},
    {"name": "all-reduce", "seconds": 0.03, "meaning": "the exchange itself"},
]
"""Over the 60 steps of a record of the tests."""


def traced(name: str = "teal_amber", milliseconds: float = 4.0, **fields: object) -> Record:
    return changed(varied(name, 2, (milliseconds,) * 3, trace=True), **{"phases": PHASES} | fields)


def phases(*records: Record) -> pd.DataFrame:
    return accounts.phases(summaries.launches(named(*records)), named(*records))


def test_launches_with_one_worker_or_without_exchange_have_nothing_to_account_for():
    alone = changed(make_record("teal_amber", 1), phases=PHASES)
    silent = changed(varied("teal_amber", 2, exchange=False), phases=PHASES)
    assert phases(alone, silent).empty


def test_phases_are_per_step_of_the_launch_itself_in_the_order_of_the_record():
    found = phases(traced(phases=PHASES[::-1]))
    assert found["phase"].tolist() == ["all-reduce", "waiting"]
    assert found["seconds"].tolist() == pytest.approx([0.0005, 0.001])
    assert phases(traced(first_step=30))["seconds"].tolist() == pytest.approx([0.002, 0.001])


def test_a_configuration_counts_by_the_median_of_its_launches():
    launches = [traced(phases=[PHASES[0] | {"seconds": seconds}]) for seconds in (0.06, 0.12, 0.6)]
    [row] = phases(*launches).to_dict("records")
    assert (row["n"], row["seconds"]) == (3, pytest.approx(0.002))


# Who waited for whom

HOURS = [0.0, 7200.0]
"""The second host's clock is two hours ahead."""


def skews(*records: Record) -> list:
    """The rows of the table."""
    stems = named(*records)
    return [*accounts.skews(summaries.launches(stems), stems).itertuples()]


def test_there_is_a_row_for_each_launch_with_exchange_over_several_hosts():
    silent = over_hosts(options=MadeUpOptions(exchange=False))
    [row] = skews(over_hosts(workers=4, hosts=2, offsets=HOURS), make_record("amber_ring", 2), silent)
    assert (row.strategy, row.workers, row.windows) == ("amber_ring, 2 hosts, 100 Mbit/s", 4, 4)


def test_a_rank_that_starts_later_is_found_late_whatever_its_hosts_clock_shows():
    for offsets in ([0.0, 0.0], HOURS, HOURS[::-1]):
        [row] = skews(over_hosts(offsets=offsets, late=[0.0, 0.003]))
        assert row.seconds == pytest.approx(0.003, abs=1e-6)
        assert row.started_last == row.finished_last == "host2"
        assert row.started_last_share == row.finished_last_share == 1.0


def test_who_starts_and_who_finishes_last_may_be_different_hosts():
    # Rank 1 starts 1 ms later, and takes 16 ms for a window of 20.
    [row] = skews(over_hosts(milliseconds=(2.0,), late=[0.0, 0.001], rank_factors=(1.0, 0.8)))
    assert (row.started_last, row.finished_last) == ("host2", "host1")


def test_the_last_rank_of_a_host_counts_for_it():
    [row] = skews(over_hosts(workers=4, hosts=2, late=[0.002, 0.0, 0.001, 0.001]))
    assert (row.started_last, row.started_last_share) == ("host1", 1.0)
    assert row.seconds == pytest.approx(0.002, abs=1e-6)


def test_each_window_has_a_host_that_started_last():
    record = over_hosts(late=[0.0, 0.003])
    first = [structs.replace(each, started_seconds=each.started_seconds + 0.5) for each in record.windows[:1]]
    [row] = skews(changed(record, windows=[*first, *record.windows[1:]]))
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("host2", 0.75, 0.0)
    assert (row.finished_last, row.finished_last_share) == ("host2", 0.75)


def test_a_window_starts_so_long_after_its_process():
    record = over_hosts(late=[0.0, 0.003])
    sooner = [
        structs.replace(each, started_seconds=each.started_seconds - 0.002 * each.rank) for each in record.windows
    ]
    [row] = skews(changed(record, windows=sooner))
    assert row.seconds == pytest.approx(0.001, abs=1e-6)


@pytest.mark.parametrize(("clocks", "both"), [((1, 5, 2, 3), 8), ((1, None, 2, 3), math.nan)])
def test_of_many_hosts_the_two_worst_clocks_bound_the_skew_unless_one_tells_no_uncertainty(clocks, both):
    record = over_hosts(workers=4, hosts=4, late=[0.0, 0.0, 0.0, 100.0])
    hosts = [
        structs.replace(host, clock_uncertainty_seconds=each) for host, each in zip(record.hosts, clocks, strict=True)
    ]
    [row] = skews(changed(record, hosts=hosts))
    assert row.uncertainty_seconds == pytest.approx(both, nan_ok=True)
    assert row.started_last == ("" if None in clocks else "host4")


def test_what_is_within_the_uncertainty_of_both_clocks_is_told_of_nobody():
    # Each clock is known to 0.1 ms, so both together to 0.2 ms.
    [row] = skews(over_hosts(late=[0.0, 0.00019]))
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("", 0.0, 1.0)
    assert (row.finished_last, row.finished_last_unknown) == ("", 1.0)
    assert row.uncertainty_seconds == pytest.approx(2e-4)
    [row] = skews(over_hosts(late=[0.0, 0.00021]))
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("host2", 1.0, 0.0)


def test_records_that_tell_no_clock_or_one_host_alone_have_no_row():
    record = over_hosts()
    bare = [structs.replace(host, clock_offset_seconds=None, clock_uncertainty_seconds=None) for host in record.hosts]
    coordinated = [window for window in record.windows if window.rank == 0]
    others = [
        changed(record, hosts=bare),
        changed(record, process_start_seconds=[]),
        changed(record, windows=coordinated),
    ]
    assert skews(*others, over_hosts(workers=1, hosts=1), make_record("amber_ring", 2)) == []


def test_a_launch_tells_the_round_trip_of_its_link():
    link = {"bytes_per_second": 1.2e6, "round_trip_seconds": 0.002}
    launches = summaries.launches(named(over_hosts(link=link), make_record("amber_ring", 2)))
    assert launches["link_bytes_per_second"].fillna(0.0).tolist() == [1.2e6, 0.0]
    assert launches["round_trip_seconds"].fillna(0.0).tolist() == [0.002, 0.0]
