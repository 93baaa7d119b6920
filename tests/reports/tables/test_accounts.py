"""What launches tell beside their speed: start-up and accuracy, what processes hold, and phases of an exchange."""

import dataclasses
import math

import pandas as pd
import pytest

from common.declarations.strategy import SHARDING_OF
from common.records.training import Record
from reports.tables import accounts, summaries
from tests.changes import changed
from tests.reports.records import make_record, named, over_hosts, process, varied

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
