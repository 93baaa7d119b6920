"""The report's numbers, against ones worked out by hand."""

import dataclasses
import re
from pathlib import Path

import pandas as pd
import pytest

from common.contract.task import PRESETS
from common.records.files import to_json
from common.records.training import Record
from reports.tables import summaries
from reports.tables.columns import COLUMNS
from reports.tables.results import read_results
from reports.words import endings, scaling
from reports.words.cautions import cautions
from tests.changes import changed
from tests.reports.records import (
    HOST,
    MadeUpOptions,
    clocked,
    make_record,
    named,
    over_hosts,
    unfinished,
    varied,
    write_all,
)

CHECKPOINTS = {"checkpoint_steps": 10, "checkpoint": Path("w")}


def cell(table: pd.DataFrame, strategy: str, workers: int) -> dict:
    [row] = table[(table["strategy"] == strategy) & (table["workers"] == workers)].to_dict("records")
    return row


def rows_of(table: pd.DataFrame) -> list:
    """The rows of a table, to compare with expected ones, whose NaN are NaN here."""
    return [pytest.approx(row, nan_ok=True) for row in table.to_dict("records")]


def test_windows_are_those_of_all_ranks_of_all_launches():
    records = named(make_record("amber_ring", 2), varied("cobalt_replicas", 2, exchange=False))
    expected = [
        (name, record.name, record.world_size, record.exchange, window.rank, window.step, window.seconds)
        for name, record in records.items()
        for window in record.windows
    ]
    found = summaries.windows(records)
    names = ["launch", "strategy", "workers", "exchange", "rank", "step", "seconds"]
    assert [*found[names].itertuples(index=False, name=None)] == expected
    assert [*found.columns] == [*COLUMNS["windows"]]


def test_speed_up_and_efficiency_are_those_worked_out_by_hand():
    # 64 rows in 2 ms, then 128 rows in 3.2 ms: 32,000 and 40,000 samples/s.
    records = named(
        make_record("amber_single", 1, (2.0, 2.0, 2.0)),
        make_record("amber_ring", 1, (2.5, 2.5, 2.5)),
        make_record("amber_ring", 2, (3.2, 3.2, 3.2)),
    )
    ddp = cell(summaries.cells(summaries.launches(records)), "amber_ring", 2)
    assert ddp["samples_per_second"] == pytest.approx(40_000)
    assert ddp["base"] == "amber_single"
    assert ddp["base_samples_per_second"] == pytest.approx(32_000)
    assert ddp["speed_up"] == pytest.approx(1.25)
    assert ddp["efficiency"] == pytest.approx(0.625)
    assert ddp["own_speed_up"] == pytest.approx(40_000 / 25_600)


def test_cells_come_in_the_order_of_their_strategies_and_workers():
    cells = [("cobalt_replicas", 1), ("amber_ring", 2), ("amber_ring", 1)]
    table = summaries.cells(summaries.launches(named(*(make_record(*each) for each in cells))))
    assert list(zip(table["strategy"], table["workers"], strict=True)) == sorted(cells)


def test_the_base_is_the_one_that_the_record_names():
    records = named(
        make_record("amber_single", 1, (1.0, 1.0)),
        make_record("cobalt_single", 1, (4.0, 4.0)),
        make_record("teal_cobalt", 2, (4.0, 4.0)),
    )
    teal = cell(summaries.cells(summaries.launches(records)), "teal_cobalt", 2)
    assert (teal["base"], teal["speed_up"]) == ("cobalt_single", pytest.approx(2.0))


@pytest.mark.parametrize(
    ("weak", "strong", "speed_up"),
    [(2, 1, 1.0), (2, 0, 1.0), (0, 1, 0.5), (0, 0, float("nan"))],
    ids=["both", "the same", "the other", "none"],
)
def test_one_worker_is_of_the_same_scaling_where_that_was_measured_else_of_the_other(weak, strong, speed_up):
    def launch(name: str, scaling: str, workers: int, milliseconds: float) -> Record:
        lengths = {"steps": 60, "warmup_steps": 20, "window_steps": 10}
        task = dataclasses.replace(PRESETS["digits"], scaling=scaling, seed=3, workers=workers, **lengths)
        return make_record(name, workers, (milliseconds,) * 3, task=task)

    records = [launch("amber_ring", "weak", 2, 4.0)]
    for name in ("amber_single", "amber_ring"):
        records += [launch(name, "weak", 1, 2.0)] * weak + [launch(name, "strong", 1, 1.0)] * strong
    ring = cell(summaries.cells(summaries.launches(named(*records))), "amber_ring", 2)
    assert [ring["speed_up"], ring["own_speed_up"]] == pytest.approx([speed_up] * 2, nan_ok=True)
    assert (ring["base_n"], ring["own_n"]) == (weak or strong,) * 2


def test_a_cell_waited_as_long_as_its_median_launch_and_is_oversubscribed_where_one_of_its_launches_was():
    launches = [make_record(time_to_first_step_s=seconds, oversubscribed=seconds > 4) for seconds in (1.0, 5.0, 3.0)]
    for count, *expected in ((1, 1.0, False), (3, 3.0, True)):
        [row] = summaries.cells(summaries.launches(named(*launches[:count]))).to_dict("records")
        assert [row[name] for name in ("first_step_seconds", "oversubscribed")] == expected


def test_the_regime_shown_first_is_weak_and_has_the_presets_batch_then_most_workers_then_most_launches():
    def launch(batch: int, workers: int = 1, scaling: str = "weak", exchange: bool = True) -> Record:
        lengths = {"steps": 60, "warmup_steps": 20, "window_steps": 10}
        task = dataclasses.replace(PRESETS["digits"], scaling=scaling, batch=batch, workers=workers, **lengths)
        return make_record("amber_ring", workers, task=task, options=MadeUpOptions(exchange=exchange))

    records = named(
        *(launch(64, workers, "strong") for workers in (1, 2, 4, 1)),
        *(launch(8) for _ in range(3)),
        *(launch(24, workers) for workers in (1, 2)),
        *[launch(16), launch(16, exchange=False), launch(16, exchange=False), launch(16, exchange=False)],
        *[launch(40), launch(40), launch(64)],
    )
    shown = summaries.regimes(summaries.launches(records))
    assert [[regime.split(":")[0], *re.findall(r"--batch (\d+)", regime)] for regime in shown] == [
        *[["weak"], ["weak", "24"], ["weak", "8"], ["weak", "40"], ["weak", "16"], ["strong"]],
    ]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "cobalt_replicas"),
        ({"compiled": True}, "cobalt_replicas, compiled"),
        ({"steps_per_call": 5, "input": "stream"}, "cobalt_replicas, 5 steps per call, stream input"),
    ],
)
def test_options_of_a_strategy_are_part_of_its_name_and_of_no_regime(options, name):
    launches = summaries.launches(named(make_record("cobalt_replicas"), varied("cobalt_replicas", **options)))
    assert sorted(launches["strategy"]) == sorted(["cobalt_replicas", name])
    assert launches["regime"].nunique() == 1
    assert len(summaries.cells(launches)) == len({"cobalt_replicas", name})


def test_a_label_has_speed_ups_over_its_own_worker_and_the_plain_base():
    records = named(
        make_record("cobalt_single", 1, (2.0, 2.0)),
        make_record("cobalt_replicas", 1, (1.0, 1.0)),
        varied("cobalt_replicas", 1, (4.0, 4.0), compiled=True),
        varied("cobalt_replicas", 2, (4.0, 4.0), compiled=True),
    )
    compiled = cell(summaries.cells(summaries.launches(records)), "cobalt_replicas, compiled", 2)
    assert (compiled["base"], compiled["speed_up"]) == ("cobalt_single", pytest.approx(1.0))
    assert compiled["own_speed_up"] == pytest.approx(2.0)


def test_cells_end_ok_unsupported_failed_or_not_run_and_all_are_counted(tmp_path):
    records = named(make_record(), unfinished("unsupported", "No."), unfinished("failed", "Died.", "amber_sharded", 4))
    header = "position,launch,strategy,label,preset,scaling,workers,exchange,repetition,purpose,order_seed"
    rows = [f"{position},{name},x,,digits,weak,1,True,1,throughput,5" for position, name in enumerate(records)]
    lines = [header, *rows, "9,missing,amber_ring,,digits,weak,2,True,2,throughput,5"]
    (tmp_path / "plan.csv").write_text("\n".join(lines))
    results = read_results(write_all(tmp_path, records))
    table = summaries.endings(results.records, results.plan)
    assert sorted(table["ending"]) == ["failed", "not run", "ok", "unsupported"]
    assert endings.sentence(table) == "4 launches were planned: 1 ok, 1 unsupported, 1 failed, 1 not run."


def test_strategies_without_a_single_ok_launch_are_named_with_their_reason():
    lacking = [unfinished("unsupported", "There is no Teal.", name, 2) for name in ("teal_amber", "teal_library")]
    sometimes = [make_record("amber_ring", 2), unfinished("unsupported", "Too many workers.", "amber_ring", 4)]
    died = unfinished("failed", "It was killed.", "cobalt_replicas", 2)
    table = summaries.endings(named(*lacking, *sometimes, died), None)
    assert endings.left_out(table) == [
        "Not compared: cobalt_replicas. It was killed.",
        "Not compared: teal_amber and teal_library. There is no Teal.",
    ]
    assert endings.left_out(summaries.endings(named(*sometimes), None)) == []


@pytest.mark.parametrize(
    ("exchange", "purpose", "for_speed"),
    [(True, "throughput", True), (False, "throughput", False), (True, "certificate", False)],
)
def test_a_planned_launch_that_never_ran_is_told_by_its_plan(exchange, purpose, for_speed):
    known = {"launch": "a", "preset": "digits", "scaling": "strong", "workers": 2}
    plan = pd.DataFrame([known | {"strategy": "mine", "label": "5", "exchange": exchange, "purpose": purpose}])
    assert summaries.endings({}, plan).to_dict("records") == [
        known
        | {"strategy": "mine, 5", "bare_strategy": "mine", "ending": "not run", "reason": "", "log": "", "task": ""}
        | {"for_speed": for_speed, "planned": True}
    ]


@pytest.mark.parametrize(
    ("changes", "for_speed"),
    [
        ({}, True),
        ({"options": {"exchange": False}}, False),
        ({"task": CHECKPOINTS}, False),
    ],
)
def test_a_launch_that_ended_is_told_by_its_record(changes, for_speed):
    record = unfinished("failed", "It was killed.", "amber_ring", 2)
    fields = {name: to_json(getattr(record, name)) | value for name, value in changes.items()}
    record = changed(record, **fields)
    assert summaries.endings({"a": record}, None).to_dict("records") == [
        {"launch": "a", "strategy": record.name, "bare_strategy": "amber_ring", "preset": "digits", "scaling": "weak"}
        | {"workers": 2, "ending": "failed", "reason": "It was killed.", "log": "some.log", "for_speed": for_speed}
        | {"task": "--preset digits --scaling weak --steps 60 --warmup-steps 20 --window-steps 10", "planned": False}
    ]
    [ended] = summaries.endings({"a": make_record()}, None).to_dict("records")
    assert (ended["ending"], ended["reason"], ended["log"]) == ("ok", "", "")


def strategies(*records: Record) -> list[dict]:
    stems = named(*records)
    return summaries.strategies(summaries.launches(stems), stems).to_dict("records")


QUOTED = {"script": "amber_impl/ring.py", "distributed_by": [{"line": 41, "code": "a"}, {"line": 57, "code": "b"}]}
RING = make_record("amber_ring", 2, **QUOTED)


def test_every_measured_strategy_has_a_row_with_the_lines_that_distribute_whatever_its_labels():
    others = (make_record("amber_single"), varied("amber_ring", 2, compiled=True))
    ring, single = strategies(RING, *others, unfinished("failed", "It ended.", "amber_parts"))
    assert ring == {
        **{"strategy": "amber_ring", "framework": "amber", "named_base": "amber_single", "synchronous": True},
        **{"script": "amber_impl/ring.py", "lines": [41, 57]},
    }
    assert (single["strategy"], single["named_base"], single["lines"]) == ("amber_single", "amber_single", [])


def test_the_lines_are_those_of_the_newest_record_that_has_any():
    older = changed(RING, started_at="2025-01-01T00:00:00+00:00", distributed_by=[{"line": 1, "code": "old"}])
    silent = changed(RING, started_at="2027-01-01T00:00:00+00:00", distributed_by=[])
    assert [row["lines"] for row in strategies(RING, older, silent)] == [[41, 57]]


def test_a_strategy_with_any_asynchronous_launch_is_asynchronous():
    [row] = strategies(make_record("cobalt_servers", 2, synchronous=False), varied("cobalt_servers", 1))
    assert row["synchronous"] is False


def test_an_outlying_launch_a_slow_start_and_a_wide_spread_are_each_cautioned():
    steady = [make_record("amber_ring", 1, (2.0 + index / 1000,) * 4) for index in range(6)]
    outlying = make_record("amber_ring", 1, (4.0,) * 4)
    slow_start = make_record("amber_single", 1, (3.0, 2.0, 2.0, 2.0))
    records = named(*steady, outlying, slow_start)
    found = dict(each.split(": ", 1) for each in cautions(summaries.launches(records), records))
    assert "amber_ring at 1 (2.00 times the median)" in found["An outlying launch"]
    assert "amber_ring at 1 (100 %, n = 7)" in found["Launches spread by more than 10 %"]
    assert "amber_single at 1" in found["First windows slower than later ones"]
    assert all(" Likely cause: " in each and " Remedy: " in each for each in found.values())


def test_a_quiet_comparison_has_no_caution():
    steady = [make_record("amber_ring", 1, (200.0 + index,) * 4) for index in range(6)]
    records = named(*steady)
    assert cautions(summaries.launches(records), records) == []


def test_a_worker_that_was_lost_and_came_back_is_cautioned():
    records = named(make_record("cobalt_servers", 2, restarted_workers=2))
    [caution] = [found for found in cautions(summaries.launches({}), records) if "started again" in found]
    assert ": cobalt_servers at 2, digits: 2 times (cobalt_servers-2w-00). Likely cause: a signal" in caution


def test_the_batch_of_a_regime_is_said_with_whose_it_is():
    usual, small = (
        summaries.cells(summaries.launches(named(each)))
        for each in (
            make_record(),
            clocked("amber_ring", 300, 25, batch=16, scaling="strong"),
        )
    )
    assert scaling.batch_in_words(usual) == "64 rows per step for each worker"
    assert scaling.batch_in_words(small) == "16 rows per step, shared by all workers"


def test_speed_ups_of_several_hosts_are_over_one_worker_on_one_host():
    alone = [over_hosts(name, 1, 1, (2.0,) * 3) for name in ("amber_single", "amber_ring")]
    found = summaries.cells(summaries.launches(named(*alone, over_hosts(milliseconds=(4.0,) * 3))))
    spread = cell(found, "amber_ring, 2 hosts, 100 Mbit/s", 2)
    assert (spread["speed_up"], spread["own_speed_up"]) == (pytest.approx(1.0), pytest.approx(1.0))


def test_an_overview_has_the_fastest_link_of_each_number_of_hosts():
    records = [over_hosts(megabits=megabits) for megabits in (10.0, 1000.0, 100.0)]
    records += [over_hosts(workers=4, hosts=4, megabits=megabits) for megabits in (10.0, None)]
    records += [make_record("amber_ring", 2), over_hosts("amber_library", megabits=10.0)]
    found = summaries.cells(summaries.launches(named(*records)))
    assert sorted(summaries.over_fastest_links(found)["strategy"]) == [
        "amber_library, 2 hosts, 10 Mbit/s",
        "amber_ring",
        "amber_ring, 2 hosts, 1000 Mbit/s",
        "amber_ring, 4 hosts",
    ]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({}, "amber_ring"),
        ({"hosts": 1}, "amber_ring"),
        ({"hosts": 2}, "amber_ring, 2 hosts"),
        ({"hosts": 2, "label": "compiled"}, "amber_ring, compiled, 2 hosts"),
        ({"hosts": 2, "bandwidth_bits_per_second": ""}, "amber_ring, 2 hosts"),
        ({"hosts": 2, "bandwidth_bits_per_second": "1e7"}, "amber_ring, 2 hosts, 10 Mbit/s"),
        ({"hosts": 1, "bandwidth_bits_per_second": 1e7}, "amber_ring"),
    ],
)
def test_a_launch_that_was_not_run_has_the_name_of_its_hosts_as_far_as_the_plan_tells(columns, name):
    known = {"launch": "some", "strategy": "amber_ring", "label": "", "preset": "digits", "scaling": "weak"}
    plan = pd.DataFrame([known | {"workers": 2, "exchange": True, "purpose": "throughput"} | columns])
    assert summaries.endings({}, plan)["strategy"].tolist() == [name]


def test_several_machines_of_one_kind_are_a_caution_that_names_them():
    here, there = make_record(), make_record(host=HOST | {"name": "there"})

    def machines(*records):
        found = cautions(summaries.launches(named(*records)), named(*records))
        return [caution for caution in found if caution.startswith("Several machines")]

    assert machines(here, here) == []
    [caution] = machines(here, there)
    assert caution.startswith("Several machines: 2 cores of Some CPU: here, there. Likely cause: ")
