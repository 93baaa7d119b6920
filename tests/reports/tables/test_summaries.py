"""The report's numbers, against ones worked out by hand."""

import math
import re
import statistics
from pathlib import Path

import pandas as pd
import pytest

from common.records.files import to_json
from common.records.plan import PlannedRow
from reports.tables import summaries
from reports.words.first_page import ending_counts
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import cell
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, task_of, unfinished


def planned(**columns: object) -> pd.DataFrame:
    known = {"position": 1, "launch": "some", "strategy": "amber_ring", "preset": "digits", "scaling": "weak"}
    known |= {"workers": 2, "exchange": True, "repetition": 1, "purpose": "throughput", "order_seed": 5}
    return pd.DataFrame([PlannedRow(**known | columns)])


def test_speed_up_and_efficiency_are_those_worked_out_by_hand():
    # 64 rows in 2 ms, then 128 rows in 3.2 ms: 32,000 and 40,000 samples/s.
    launches = ("amber_single", 1, 2.0), ("amber_ring", 1, 2.5), ("amber_ring", 2, 3.2)
    material = material_of(*(make_record(*about, (time,) * 3) for *about, time in launches))
    ring = cell(material.cells, "amber_ring", 2)
    rates = [ring[name] for name in ("samples_per_second", "base_samples_per_second", "own_samples_per_second")]
    assert rates == pytest.approx([40_000, 32_000, 25_600])
    ratios = [ring[name] for name in ("speed_up", "efficiency", "own_speed_up")]
    assert ratios == pytest.approx([1.25, 0.625, 40_000 / 25_600])
    assert ring["base"] == "amber_single"


@pytest.mark.parametrize("milliseconds", [(1.0, 1.1, 3.0, 8.0, 9.0), (1.0, 1.1, 3.0, 4.0, 8.0, 9.0)])
def test_a_rate_is_that_of_the_median_time_which_has_an_interval_from_six_launches_on(milliseconds):
    [row] = material_of(*(make_record(milliseconds=(each,) * 4) for each in milliseconds)).cells.to_dict("records")
    # It is no mean of rates.
    assert row["samples_per_second"] == pytest.approx(64_000 / statistics.median(milliseconds))
    ends = (0.001, 0.009) if len(milliseconds) >= 6 else (math.nan, math.nan)
    assert (row["low_seconds"], row["high_seconds"]) == pytest.approx(ends, nan_ok=True)
    assert row["n"] == len(milliseconds)


@pytest.mark.parametrize(
    ("weak", "strong", "speed_up"),
    [(2, 1, 1.0), (2, 0, 1.0), (0, 1, 0.5), (0, 0, float("nan"))],
    ids=["both", "the same", "the other", "none"],
)
def test_one_worker_is_of_the_same_scaling_where_that_was_measured_else_of_the_other(weak, strong, speed_up):
    # What one worker did of another preset or batch is other work.
    kinds = [(9.0, task_of(1, "pathway")), (9.0, task_of(1, batch=32))]
    kinds += [(2.0, task_of(1))] * weak + [(1.0, task_of(1, scaling="strong"))] * strong
    records = [
        make_record(name, 1, (time,) * 3, task) for name in ("amber_single", "amber_ring") for time, task in kinds
    ]
    records.append(make_record("amber_ring", 2, (4.0,) * 3))
    ring = cell(material_of(*records).cells, "amber_ring", 2)
    assert [ring["speed_up"], ring["own_speed_up"]] == pytest.approx([speed_up] * 2, nan_ok=True)
    assert (ring["base_n"], ring["own_n"]) == (weak or strong,) * 2


def test_a_cell_waited_as_long_as_its_median_launch_and_is_oversubscribed_where_one_of_its_launches_was():
    launches = [make_record(time_to_first_step_s=seconds, oversubscribed=seconds > 4) for seconds in (1.0, 5.0, 3.0)]
    for count, *expected in ((1, 1.0, False), (3, 3.0, True)):
        [row] = material_of(*launches[:count]).cells.to_dict("records")
        assert [row[name] for name in ("first_step_seconds", "oversubscribed")] == expected


def test_the_regime_shown_first_is_weak_and_has_the_presets_batch_then_most_workers_then_most_launches():
    def launch(batch: int, workers: int = 1, scaling: str = "weak", exchange: bool = True):
        task = task_of(workers, scaling=scaling, batch=batch)
        return make_record("amber_ring", workers, task=task, options=MadeUpOptions(exchange=exchange))

    # Of other batches 24 rows have most numbers of workers, then 8, 40 and 16 most launches with exchange.
    records = [launch(64, workers, "strong") for workers in (1, 2, 4, 1)]
    records += [*[launch(8)] * 3, launch(24), launch(24, 2), launch(16), *[launch(16, exchange=False)] * 3]
    shown = material_of(*records, *[launch(40)] * 2, launch(64)).regimes
    assert [regime.split(":")[0] for regime in shown] == ["weak"] * 5 + ["strong"]
    assert [re.findall(r"--batch (\d+)", regime) for regime in shown] == [[], ["24"], ["8"], ["40"], ["16"], []]


def test_cells_end_ok_unsupported_failed_or_not_run_and_all_are_counted_once_also_those_planned_twice():
    records = named(make_record(), unfinished("unsupported", "No."), unfinished("failed", "Died.", "amber_sharded", 4))
    plan = pd.concat([planned(launch=name) for name in [*records, "missing"] * 2])
    table = summaries.endings(records, plan)
    assert sorted(table["ending"]) == ["failed", "not run", "ok", "unsupported"]
    assert ending_counts(table) == "4 launches were planned: 1 ok, 1 unsupported, 1 failed, 1 not run."
    beside = summaries.endings(records, plan[:2])
    assert ending_counts(beside).startswith("2 launches were planned (1 more were recorded beside the plan): ")


def test_a_launch_that_ended_is_told_by_its_record():
    record = unfinished("failed", "It was killed.", "amber_ring", 2)
    checkpoints = changed(record, task=to_json(record.task) | {"checkpoint_steps": 10, "checkpoint": Path("w")})
    found = summaries.endings({"a": record, "b": checkpoints, "c": make_record()}, None)
    assert found["for_speed"].tolist() == [True, False, True]
    assert found["ending"].tolist() == ["failed", "failed", "ok"]
    assert (found["reason"].iloc[2], found["log"].iloc[2]) == ("", "")
    assert found.to_dict("records")[0] == (
        {"launch": "a", "strategy": record.name, "bare_strategy": "amber_ring", "preset": "digits", "scaling": "weak"}
        | {"workers": 2, "ending": "failed", "reason": "It was killed.", "log": "some.log", "for_speed": True}
        | {"task": "--preset digits --scaling weak --steps 60 --warmup-steps 20 --window-steps 10", "planned": False}
    )


@pytest.mark.parametrize(
    ("columns", "name", "for_speed"),
    [
        ({}, "amber_ring", True),
        ({"exchange": False}, "amber_ring", False),
        ({"purpose": "certificate"}, "amber_ring", False),
        ({"hosts": 2, "label": "compiled"}, "amber_ring, compiled, 2 hosts", True),
        ({"hosts": 2, "bandwidth_bits_per_second": 1e7}, "amber_ring, 2 hosts, 10 Mbit/s", True),
        ({"hosts": 1, "bandwidth_bits_per_second": 1e7}, "amber_ring", True),
    ],
)
def test_a_planned_launch_that_never_ran_is_told_by_its_plan(columns, name, for_speed):
    assert summaries.endings({}, planned(**columns)).to_dict("records") == [
        {"launch": "some", "strategy": name, "bare_strategy": "amber_ring", "preset": "digits", "scaling": "weak"}
        | {"workers": 2, "ending": "not run", "reason": "", "log": "", "task": ""}
        | {"for_speed": for_speed, "planned": True}
    ]


def test_speed_ups_of_several_hosts_are_over_one_worker_on_one_host_and_their_link_is_told():
    alone = [over_hosts(name, 1, 1, (2.0,) * 3) for name in ("amber_single", "amber_ring")]
    material = material_of(*alone, over_hosts(milliseconds=(4.0,) * 3))
    assert material.launches["round_trip_seconds"].dropna().tolist() == [2e-5]
    spread = cell(material.cells, "amber_ring, 2 hosts, 100 Mbit/s", 2)
    assert [spread["speed_up"], spread["own_speed_up"]] == pytest.approx([1.0, 1.0])


def test_an_overview_has_the_fastest_link_of_each_number_of_hosts():
    records = [over_hosts(megabits=megabits) for megabits in (10.0, 1000.0, 100.0)]
    records += [over_hosts(workers=4, hosts=4, megabits=megabits) for megabits in (10.0, None)]
    records += [make_record("amber_ring", 2), over_hosts("amber_library", megabits=10.0)]
    assert sorted(summaries.over_fastest_links(material_of(*records).cells)["strategy"]) == [
        "amber_library, 2 hosts, 10 Mbit/s",
        "amber_ring",
        "amber_ring, 2 hosts, 1000 Mbit/s",
        "amber_ring, 4 hosts",
    ]
