"""What launches tell beside their speed: starts, accuracies, memory, phases of an exchange, and who waited for whom."""

import dataclasses
import math

import pytest
from msgspec import structs

from common.records.training import Record
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.records import MadeUpOptions, make_record, over_hosts, process, varied


def test_the_time_to_the_first_step_is_a_median_in_all_its_parts():
    def starting(name: str, seconds: float, **changes: object) -> Record:
        parts = {"imports": seconds - 1.0, "world": 1.0, "first_step": 0.0}
        return make_record(name, 2, time_to_first_step_s=seconds, startup_seconds=parts, **changes)

    unknown = make_record("cobalt_replicas", 2, startup_seconds=None)
    records = [starting("amber_ring", seconds) for seconds in (3.0, 9.0, 5.0)]
    failed = starting("amber_ring", 100.0, status="failed")
    assert material_of(*records, unknown, failed).startups.to_dict("records") == [
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
    assert material_of(*looked, blind, failed, generated).accuracies.to_dict("records") == [
        {"preset": "digits", "strategy": "amber_ring", "workers": 1, "global_batch": 64, "seed": 3, "steps": 60}
        | {"n": 4, "accuracy": pytest.approx(0.93), "lowest": 0.85, "target": 0.9, "looked": 3, "reached": 2}
        | {"target_seconds": pytest.approx(0.65)}
    ]


def holding(strategy: str, *processes: dict[str, int], workers: int = 2) -> Record:
    return make_record(strategy, workers, memory_bytes=[*processes])


def memory(*records: Record) -> dict[str, dict]:
    return {row["strategy"]: row for row in material_of(*records).memory.to_dict("records")}


def test_the_process_that_holds_most_and_the_largest_peak_count_where_records_tell_and_gradients_are_exchanged():
    silent = changed(varied("teal_amber", exchange=False), memory_bytes=[process(8)])
    sharded = holding("amber_sharded", process(5, 5, peak=330), process(6, 6, peak=300))
    others = [make_record("amber_library", 2), holding("amber_ring", {})]
    [row] = memory(sharded, silent, *others).values()
    sizes = [row[name] for name in ("parameters", "gradients", "optimizer_state", "held", "above_import", "n")]
    assert sizes == [6e6, 6e6, 6e6, 18e6, 330e6, 1]


@pytest.mark.parametrize(
    ("whole", "sharded", "held_factor", "peak_factor"),
    [
        (process(8, 8, peak=400), process(8, 4, peak=300), 20 / 24, 0.75),
        (process(8, peak=400, device_peak=100), process(4, peak=800, device_peak=60), 0.5, 0.6),
        (process(0, peak=0), process(4), math.nan, math.nan),
        ({"above_import": 400}, {"above_import": 200}, math.nan, 0.5),
    ],
    ids=["processor", "GPU", "a reference that holds nothing", "no word of what is held"],
)
def test_factors_are_over_the_strategy_that_is_sharded(whole, sharded, held_factor, peak_factor):
    row = memory(holding("amber_ring", whole), holding("amber_sharded", sharded))["amber_sharded"]
    assert (row["held_factor"], row["peak_factor"]) == pytest.approx((held_factor, peak_factor), nan_ok=True)
    assert math.isnan(row["held"]) == ("parameters" not in sharded)


def test_sharding_is_compared_on_the_same_hosts_with_as_many_workers():
    found = memory(
        holding("amber_ring", process(99, peak=900)),
        over_hosts(memory_bytes=[process(10, peak=400)] * 2),
        over_hosts("amber_sharded", memory_bytes=[process(5, peak=200)]),
        holding("amber_sharded", process(4), workers=4),
    )
    ring, sharded = "amber_ring, 2 hosts, 100 Mbit/s", "amber_sharded, 2 hosts, 100 Mbit/s"
    references = {"amber_ring": "", ring: "", "amber_sharded": "amber_ring", sharded: ring}
    assert {name: row["reference"] for name, row in found.items()} == references
    assert [found[sharded][name] for name in ("held_factor", "peak_factor")] == [0.5, 0.5]
    assert math.isnan(found["amber_sharded"]["held_factor"])


def test_phases_are_medians_per_step_in_the_order_of_the_record():
    def traced(*seconds: float, **about: object) -> Record:
        """A launch of 60 steps, which waited so many seconds for each of two phases."""
        phases = [
            {"name": name, "seconds": own, "meaning": name.upper()} for name, own in zip("ab", seconds, strict=True)
        ]
        return changed(varied("teal_amber", **about), phases=phases[::-1])

    alone, silent = traced(0.03, 0.06, workers=1), traced(0.03, 0.06, workers=2, exchange=False)
    launches = [traced(0.03, seconds, workers=2) for seconds in (0.06, 0.12, 0.6)]
    found = material_of(*launches, alone, silent).phases
    assert found[["phase", "meaning"]].to_numpy().tolist() == [["b", "B"], ["a", "A"]]
    assert found["seconds"].tolist() == pytest.approx([0.002, 0.0005])
    assert found["n"].tolist() == [3, 3]
    # Of a launch that went on only its own steps count.
    own = material_of(changed(launches[0], first_step=30)).phases
    assert own["seconds"].tolist() == pytest.approx([0.002, 0.001])


def test_there_is_a_row_for_each_launch_with_exchange_over_several_hosts_that_tells_its_clocks():
    record = over_hosts(workers=4, hosts=2, offsets=[0.0, 7200.0])
    bare = [structs.replace(host, clock_offset_seconds=None, clock_uncertainty_seconds=None) for host in record.hosts]
    others = [
        over_hosts(options=MadeUpOptions(exchange=False)),
        changed(record, hosts=bare),
        changed(record, process_start_seconds=[]),
        changed(record, windows=[window for window in record.windows if window.rank == 0]),
        over_hosts(workers=1, hosts=1),
        make_record("amber_ring", 2),
    ]
    [row] = material_of(*others, record).skews.itertuples()
    assert (row.strategy, row.workers, row.windows) == ("amber_ring, 2 hosts, 100 Mbit/s", 4, 4)


@pytest.mark.parametrize(
    ("facts", "started_last", "finished_last", "seconds"),
    [
        # The second host's clock is two hours ahead.
        ({"late": [0.0, 0.003], "offsets": [0.0, 7200.0]}, "host2", "host2", 0.003),
        # Rank 1 starts 1 ms later, and takes 16 ms for a window of 20.
        ({"milliseconds": (2.0,), "late": [0.0, 0.001], "rank_factors": (1.0, 0.8)}, "host2", "host1", 0.001),
        # The last rank of a host counts for it.
        ({"workers": 4, "late": [0.002, 0.0, 0.001, 0.001]}, "host1", "host1", 0.002),
        # Each clock is known to 0.1 ms, so both together to 0.2 ms.
        ({"late": [0.0, 0.00019]}, "", "", 0.00019),
        ({"late": [0.0, 0.00021]}, "host2", "host2", 0.00021),
    ],
)
def test_who_starts_and_finishes_last_is_told_beyond_what_clocks_may_be_wrong_by(
    facts, started_last, finished_last, seconds
):
    [row] = material_of(over_hosts(**facts)).skews.itertuples()
    assert row.seconds == pytest.approx(seconds, abs=1e-6)
    assert row.uncertainty_seconds == pytest.approx(2e-4)
    assert (row.started_last, row.finished_last) == (started_last, finished_last)
    assert row.started_last_share == row.finished_last_share == bool(started_last)
    assert row.started_last_unknown == row.finished_last_unknown == (not started_last)


def test_each_window_has_a_host_that_started_last():
    record = over_hosts(late=[0.0, 0.003])
    first = [structs.replace(each, started_seconds=each.started_seconds + 0.5) for each in record.windows[:1]]
    [row] = material_of(changed(record, windows=[*first, *record.windows[1:]])).skews.itertuples()
    assert (row.started_last, row.started_last_share, row.started_last_unknown) == ("host2", 0.75, 0.0)
    assert (row.finished_last, row.finished_last_share) == ("host2", 0.75)


@pytest.mark.parametrize(("clocks", "both"), [((1, 5, 2, 3), 8), ((1, None, 2, 3), math.nan)])
def test_of_many_hosts_the_two_worst_clocks_bound_the_skew_unless_one_tells_no_uncertainty(clocks, both):
    record = over_hosts(workers=4, hosts=4, late=[0.0, 0.0, 0.0, 100.0])
    told = zip(record.hosts, clocks, strict=True)
    hosts = [structs.replace(host, clock_uncertainty_seconds=each) for host, each in told]
    [row] = material_of(changed(record, hosts=hosts)).skews.itertuples()
    assert row.uncertainty_seconds == pytest.approx(both, nan_ok=True)
    assert row.started_last == ("" if None in clocks else "host4")
