"""common/observations/launches.py: what may be pooled, what a launch's record comes to, and its observations."""

import dataclasses
import math
from pathlib import Path

import pandas as pd
import pytest
from msgspec import structs

from common.contract.task import PRESETS
from common.observations.launches import in_rounds, observed, rows
from common.records.training import Record
from tests.changes import changed
from tests.reports.records import HOST, clocked, make_record, named, over_hosts, unfinished, varied


def table(records: dict[str, Record]) -> pd.DataFrame:
    return pd.DataFrame(rows(records))


# A launch


def test_a_launch_has_what_its_record_says():
    record = make_record("amber_ring", 2, (2.0, 4.0, 6.0), peak_memory_bytes=[], compared_with={"a": "b"})
    [launch] = table({"some": record}).to_dict("records")
    task = "--preset digits --scaling weak --steps 60 --warmup-steps 20 --window-steps 10"
    work = f"{task.replace('--scaling weak ', '')}; cpu on 2 cores of Some CPU"
    assert launch.pop("compared_with") == {"a": "b"}
    assert launch.pop("regime_of_any_batch") == "weak: --preset digits; cpu on 2 cores of Some CPU"
    assert launch == pytest.approx(
        {"launch": "some", "regime": f"weak: {work}", "work": work, "task": task}
        | {"machine": "cpu on 2 cores of Some CPU"}
        | {"strategy": "amber_ring", "bare_strategy": "amber_ring", "label": "", "family": "Amber"}
        | {"framework": "amber", "named_base": "amber_single", "synchronous": True, "same_maths": True}
        | {name: getattr(record, name) for name in ("formula", "formula_source", "exchange", "oversubscribed")}
        | {"formula_bytes": record.formula_bytes_per_step, "wire_bytes": float("nan"), "peak_bytes": 0}
        | {"preset": "digits", "scaling": "weak", "batch": 64, "global_batch": 128, "workers": 2, "cores": 2}
        | {"seconds": 0.004, "input_seconds": float("nan"), "samples_per_second": 32_000}
        | {"first_window_ratio": 0.4, "measured_seconds": 0.12, "first_step_seconds": 1.5}
        | {"rank_spread": float("nan"), "options": "", "placement": "", "hosts": 1}
        | {"virtual": False, "delay_seconds": 0.0}
        | dict.fromkeys(("bandwidth_bits_per_second", "link_bytes_per_second", "round_trip_seconds"), float("nan")),
        nan_ok=True,
    )


def test_waiting_for_rows_counts_by_the_median_window_and_the_rank_that_waits_longest():
    # Windows of ten steps: the rank that waits longest waits 2, 4 and 9 ms in them.
    record = make_record("amber_ring", 2, (2.0, 2.0, 2.0))
    waits = {(0, 20): 0.001, (0, 30): 0.004, (0, 40): 0.001, (1, 20): 0.002, (1, 30): 0.001, (1, 40): 0.009}
    windows = [
        structs.replace(window, input_seconds=waits[window.rank, window.step], seconds=0.02 + window.rank)
        for window in record.windows
    ]
    silent = make_record("cobalt_replicas", 2)
    launches = table(named(changed(record, windows=windows), silent))
    assert launches["input_seconds"].tolist() == pytest.approx([0.0004, math.nan], nan_ok=True)
    # The first rank's windows, whichever waits longest.
    assert launches["measured_seconds"][0] == pytest.approx(0.06)


def test_ranks_spread_by_the_slowest_over_the_median_one_within_each_window():
    record = varied("amber_ring", 2, (1.0, 1.0, 1.0), exchange=False)
    seconds = {(0, 20): 0.1, (1, 20): 0.3, (0, 30): 1.0, (1, 30): 1.0, (0, 40): 0.2, (1, 40): 0.3}
    windows = [structs.replace(window, seconds=seconds[window.rank, window.step]) for window in record.windows]
    # 0.3 over 0.2, 1 over 1, and 0.3 over 0.25.
    assert table(named(changed(record, windows=windows)))["rank_spread"].tolist() == pytest.approx([1.2])


def test_launches_that_stop_for_checkpoints_are_no_part_of_the_throughput():
    record = make_record()
    stopping = changed(record, task=dataclasses.replace(record.task, checkpoint_steps=10, checkpoint=Path("w")))
    assert len(table(named(record, stopping))) == 1


def test_the_first_of_two_windows_is_compared_with_none():
    assert math.isnan(table(named(make_record(milliseconds=(2.0, 2.0))))["first_window_ratio"].item())


# What may be pooled


@pytest.mark.parametrize(
    "change",
    [
        {"scaling": "strong"},
        {"batch": 128},
        {"momentum": 0.9},
        {"threads": 2},
        {"steps": 90},
        {"dimensions": (64, 32, 10)},
    ],
)
def test_launches_of_different_settings_are_never_pooled(change):
    record = make_record()
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", steps=60, warmup_steps=20, window_steps=10)
    other = make_record(task=dataclasses.replace(task, **change), losses=record.losses)
    assert table(named(record, other))["regime"].nunique() == 2


def test_launches_are_of_one_regime_whatever_their_seed_and_of_another_with_a_gpu():
    record = make_record()
    same = dataclasses.replace(record.task, seed=9, record=Path("elsewhere.json"), deadline_seconds=60.0, workers=None)
    launches = table(named(record, changed(record, task=same)))
    assert launches["regime"].nunique() == 1
    records = named(make_record(), make_record(device="2 x CPU"), make_record(device="Some GPU"))
    processor, cores, gpu = table(records)["regime"]
    assert processor == cores
    assert processor.endswith("; cpu on 2 cores of Some CPU")
    assert gpu.endswith("; Some GPU on 2 cores of Some CPU")


def test_asynchronous_launches_stand_beside_launches_of_the_same_work_where_there_are_some():
    launches = table(named(*(clocked("amber_ring", steps, 25) for steps in (300, 90))))
    [other, same] = launches["regime"]
    beside = [clocked("amber_ring", 300, 25), clocked("amber_ring", 90, 25), clocked("cobalt_servers", 90, 25)]
    assert table(named(*beside))["regime"].tolist() == [other, same, same]
    records = [clocked("amber_ring", 300, 25), clocked("cobalt_servers", 350, 100, batch=32)]
    assert table(named(*records))["task"].tolist() == [
        "--preset digits --scaling weak",
        "--preset digits --scaling weak --batch 32 --steps 350 --window-steps 100",
    ]
    failed = changed(unfinished("failed", "It broke."), task=clocked("amber_ring", 300, 25).task)
    [task] = table(named(failed, clocked("cobalt_servers", 350, 100)))["task"]
    assert task.endswith("--steps 350 --window-steps 100")


def test_hosts_are_pooled_with_their_like_alone():
    records = [over_hosts(megabits=None), over_hosts(megabits=None, virtual=None), make_record("amber_ring", 2)]
    virtual, real, here = table(named(*records))["regime"]
    assert virtual == f"{real}, virtual hosts"
    # The first of several real hosts may be compared on its own.
    assert here == real
    shares = {"bandwidth_bits_per_second": None, "delay_seconds": 0.0, "cores_per_host": 0.5}
    [shared] = table(named(over_hosts(megabits=None, virtual=shares)))["regime"]
    assert shared == f"{real}, virtual hosts of 0.5 cores each"
    here, there = make_record(), make_record(host=HOST | {"name": "there"})
    found = table(named(here, here, there))
    assert found["regime"].nunique() == 2
    assert [work.rpartition(" of ")[2] for work in found["work"]] == ["here", "here", "there"]
    assert table(named(here, here))["work"].iloc[0].endswith("2 cores of Some CPU")
    failed = changed(unfinished("failed", "It broke."), host={})
    assert table(named(here, failed))["work"].iloc[0].endswith("2 cores of Some CPU")


def test_launches_over_links_of_a_chosen_bandwidth_share_the_plot_of_the_longest_whatever_their_windows():
    lengths = [dataclasses.replace(make_record().task, workers=2, steps=steps) for steps in (90, 300, 120)]
    records = [changed(over_hosts(megabits=10.0 * place), task=task) for place, task in enumerate(lengths, start=1)]
    launches = table(named(*records))
    assert launches["task"].tolist() == ["--preset digits --scaling weak --warmup-steps 20 --window-steps 10"] * 3
    assert launches["bandwidth_bits_per_second"].tolist() == [1e7, 2e7, 3e7]
    assert launches["link_bytes_per_second"].tolist() == [record.link.bytes_per_second for record in records]


# Observations


def observations(plan: pd.DataFrame | None = None) -> pd.DataFrame:
    """Those of two launches with exchange, of 2 and 3 ms for 128 rows, and of one without."""
    records = [make_record("amber_ring", 2, (time,) * 3) for time in (2.0, 3.0)]
    return observed(table(named(*records, varied("amber_ring", 2, (1.0,) * 3, exchange=False))), plan)


def test_a_launch_is_observed_by_its_times_and_without_exchange_they_are_of_that_part():
    found = observations().pivot(index="launch", columns="measure", values="value")
    assert found["seconds"].tolist() == pytest.approx([0.002, 0.003, 0.001])
    assert found["seconds_per_row"].tolist() == pytest.approx([0.002 / 128, 0.003 / 128, 0.001 / 128])
    about = observations().drop_duplicates("launch")
    assert [*about[["low", "high", "round"]].dtypes] == [float, float, int]
    assert about["part"].tolist() == ["", "", "without exchange"]
    assert {*about["series"], *about["x"]} == {"amber_ring", 2}


def test_a_round_is_the_plans_or_else_the_place_among_equals():
    assert observations().drop_duplicates("launch")["round"].tolist() == [1, 2, 1]
    plan = pd.DataFrame({"launch": ["amber_ring-2w-02", "amber_ring-2w-00"], "repetition": [0, 8]})
    found = observations(plan).drop_duplicates("launch").set_index("launch")["round"]
    assert found.dtype == int
    assert found.drop("amber_ring-2w-01").to_dict() == {"amber_ring-2w-00": 8, "amber_ring-2w-02": 0}
    assert found["amber_ring-2w-01"] < 0
    assert {*in_rounds(observations(plan))["launch"]} == {"amber_ring-2w-00", "amber_ring-2w-02"}
