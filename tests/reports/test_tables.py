"""The report's numbers, against ones worked out by hand."""

import dataclasses
import math

import pandas as pd
import pytest

from common.config import OPTIONS_OF_SOME, PRESETS
from common.plan import with_long_windows
from reports import findings, tables
from reports.cautions import cautions
from reports.results import read_results
from tests.reports.records import make_record, named, unfinished, varied, write_all

PARAMETER_BYTES = (64 * 128 + 128 * 64 + 64 * 10 + 202) * 4
"""Weights and biases of digits in float32."""


def cell(table: pd.DataFrame, strategy: str, workers: int) -> dict:
    [row] = table[(table["strategy"] == strategy) & (table["workers"] == workers)].to_dict("records")
    return row


def convenience(launches: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    return tables.factors(launches, plan, tables.CONVENIENT)


def test_speed_up_and_efficiency_are_those_worked_out_by_hand():
    # 64 rows in 2 ms, then 128 rows in 3.2 ms: 32,000 and 40,000 samples/s.
    records = named(
        make_record("torch_single", 1, (2.0, 2.0, 2.0)),
        make_record("torch_ddp", 1, (2.5, 2.5, 2.5)),
        make_record("torch_ddp", 2, (3.2, 3.2, 3.2)),
    )
    ddp = cell(tables.cells(tables.launches(records)), "torch_ddp", 2)
    assert ddp["samples_per_second"] == pytest.approx(40_000)
    assert ddp["base"] == "torch_single"
    assert ddp["base_samples_per_second"] == pytest.approx(32_000)
    assert ddp["speed_up"] == pytest.approx(1.25)
    assert ddp["efficiency"] == pytest.approx(0.625)
    assert ddp["own_speed_up"] == pytest.approx(40_000 / 25_600)


def test_horovod_for_tensorflow_is_measured_against_tensorflow_alone():
    records = named(
        make_record("torch_single", 1, (1.0, 1.0)),
        make_record("tf_one_device", 1, (4.0, 4.0)),
        make_record("horovod_tensorflow", 2, (4.0, 4.0)),
    )
    horovod = cell(tables.cells(tables.launches(records)), "horovod_tensorflow", 2)
    assert (horovod["base"], horovod["speed_up"]) == ("tf_one_device", pytest.approx(2.0))


def test_without_a_base_there_is_no_speed_up():
    alone = cell(tables.cells(tables.launches(named(make_record("torch_ddp", 2)))), "torch_ddp", 2)
    assert alone["base"] is None
    assert math.isnan(alone["speed_up"])
    assert math.isnan(alone["own_speed_up"])


def test_a_launch_counts_by_its_median_window_and_the_slowest_rank():
    # Rank 1 takes 1.5 times as long in every window: 3, 6 and 9 ms, so the median window costs 6 ms.
    record = make_record("torch_ddp", 2, (2.0, 4.0, 6.0), rank_factors=(1.0, 1.5))
    launch = tables.launches(named(record)).iloc[0]
    assert launch["seconds"] == pytest.approx(0.006)
    assert launch["rank_spread"] == pytest.approx(1.2)  # 1.5 over the median of 1 and 1.5


def test_five_launches_have_no_interval_and_six_go_from_the_smallest_to_the_largest():
    times = [2.0, 2.1, 2.2, 2.3, 2.4, 2.5]
    launches = [make_record("torch_ddp", 1, (time,) * 3) for time in times]
    five = tables.cells(tables.launches(named(*launches[:5]))).iloc[0]
    six = tables.cells(tables.launches(named(*launches))).iloc[0]
    assert five["n"] == 5
    assert math.isnan(five["low_seconds"])
    assert math.isnan(five["high_seconds"])
    assert (six["low_seconds"], six["high_seconds"]) == (pytest.approx(0.0020), pytest.approx(0.0025))


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
    config = dataclasses.replace(PRESETS["digits"], scaling="weak", steps=60, warmup_steps=20, window_steps=10)
    other = make_record(config=dataclasses.replace(config, **change), losses=record.losses)
    assert tables.launches(named(record, other))["regime"].nunique() == 2


def test_seeds_files_and_deadlines_do_not_divide_launches():
    record = make_record()
    same = record.config | {"seed": 9, "record": "elsewhere.json", "deadline_seconds": 60.0, "workers": None}
    launches = tables.launches(named(record, dataclasses.replace(record, config=same)))
    assert tables.cells(launches)["n"].tolist() == [2]


def test_replicas_on_logical_devices_stand_on_one_curve_with_one_replica():
    records = named(make_record("tf_mirrored", 1), make_record("tf_mirrored", 2, device="2 logical CPU devices"))
    assert tables.launches(records)["regime"].nunique() == 1


def test_launches_that_stop_for_checkpoints_are_no_part_of_the_throughput():
    record = make_record()
    stopping = dataclasses.replace(record, config=record.config | {"checkpoint_steps": 10, "checkpoint": "w"})
    assert len(tables.launches(named(record, stopping))) == 1


def test_exposed_communication_is_the_step_less_the_step_without_exchange():
    record = make_record("torch_ddp", 2, (5.0, 5.0), wire_bytes_per_step=200_000.0)
    silent = make_record("torch_ddp", 2, (3.0, 3.0))
    silent = dataclasses.replace(silent, config=silent.config | {"exchange": False})
    [row] = tables.time_split(tables.cells(tables.launches(named(record, silent)))).to_dict("records")
    assert row["step_seconds"] == pytest.approx(0.005)
    assert row["compute_seconds"] == pytest.approx(0.003)
    assert row["exposed_seconds"] == pytest.approx(0.002)
    # 2 (N - 1) / N of them are sent by each of N = 2.
    assert row["formula_bytes"] == 2 * PARAMETER_BYTES
    assert row["wire_bytes"] == 200_000


@pytest.mark.parametrize(("updates", "times"), [("asynchronous", 2), ("synchronous", 5)])
def test_bytes_of_parameter_servers_have_a_formula_of_their_own(updates, times):
    # Two workers: asynchronously one of them pulls and pushes; synchronously both do, and the sum goes to the servers.
    record = varied("tf_parameter_server", 2, updates=updates, synchronous=updates == "synchronous")
    launches = tables.launches(named(dataclasses.replace(record, wire_bytes_per_step=1.0)))
    [row] = tables.time_split(tables.cells(launches)).to_dict("records")
    assert row["formula_bytes"] == times * PARAMETER_BYTES


def test_workers_that_share_memory_send_nothing():
    record = make_record("torch_sync_sgd", workers=2, backend="mpi, shared memory")
    [launch] = tables.launches(named(record)).to_dict("records")
    assert launch["formula_bytes"] == 0


@pytest.mark.parametrize(
    ("strategy", "options", "times"),
    [
        ("torch_ddp", {}, 4),  # 2 (N - 1) for N = 3
        ("torch_ddp", {"gradient_hook": "fp16"}, 2),
        ("torch_ddp", {"bf16_autocast": True}, 4),
        ("torch_zero", {}, 6),
        ("torch_fsdp", {}, 6),
        ("torch_data_parallel", {}, 0),
        ("torch_ddp", {"gradient_hook": "powersgd"}, math.nan),
        ("torch_model_parallel", {}, math.nan),
        ("torch_tensor_parallel", {}, math.nan),
    ],
)
def test_bytes_have_the_formula_of_the_strategy_where_the_model_alone_decides_them(strategy, options, times):
    [launch] = tables.launches(named(varied(strategy, 3, **options))).to_dict("records")
    assert launch["formula_bytes"] == pytest.approx(times * PARAMETER_BYTES, nan_ok=True)


def test_whole_parameters_sent_by_their_owners_cost_half_as_much_again_as_the_all_reduce_alone():
    # 100 bytes and 4 workers: an all-reduce sends 2 x 3 x 100 in all, owners 3 x 100 more; so do three scatters.
    assert tables.owned_update_bytes(100, 4) == tables.fully_sharded_bytes(100, 4) == 900
    assert tables.owned_update_bytes(100, 1) == tables.fully_sharded_bytes(100, 1) == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "tf_mirrored"),
        ({"jit_compile": True}, "tf_mirrored, jit_compile"),
        ({"steps_per_call": 5, "input": "tf_data"}, "tf_mirrored, 5 steps per call, tf_data input"),
    ],
)
def test_options_of_some_strategies_are_part_of_the_name_and_of_no_regime(options, name):
    launches = tables.launches(named(make_record("tf_mirrored"), varied("tf_mirrored", **options)))
    assert sorted(launches["strategy"]) == sorted(["tf_mirrored", name])
    assert launches["regime"].nunique() == 1
    assert len(tables.cells(launches)) == len({"tf_mirrored", name})


def test_a_variant_has_speed_ups_over_its_own_worker_and_the_plain_base():
    records = named(
        make_record("tf_one_device", 1, (2.0, 2.0)),
        make_record("tf_mirrored", 1, (1.0, 1.0)),
        varied("tf_mirrored", 1, (4.0, 4.0), jit_compile=True),
        varied("tf_mirrored", 2, (4.0, 4.0), jit_compile=True),
    )
    compiled = cell(tables.cells(tables.launches(records)), "tf_mirrored, jit_compile", 2)
    assert (compiled["base"], compiled["speed_up"]) == ("tf_one_device", pytest.approx(1.0))
    assert compiled["own_speed_up"] == pytest.approx(2.0)


def test_a_record_from_before_an_option_existed_reads_as_its_default():
    record = make_record("tf_mirrored")
    older = {name: value for name, value in record.config.items() if name not in OPTIONS_OF_SOME}
    launches = tables.launches(named(record, dataclasses.replace(record, config=older)))
    assert tables.cells(launches)["n"].tolist() == [2]


def test_asynchronous_launches_in_long_windows_share_the_plot_of_the_others():
    base = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=2)
    long = with_long_windows(base)
    others = make_record("torch_ddp", 2, config=base)
    asynchronous = make_record("tf_parameter_server", 2, config=long, synchronous=False, examples_per_step=64)
    launches = tables.launches(named(others, asynchronous))
    assert launches["regime"].nunique() == 1
    assert cell(tables.cells(launches), "tf_parameter_server", 2)["samples_per_second"] == pytest.approx(32_000)
    synchronous = dataclasses.replace(asynchronous, synchronous=True)
    other_lengths = dataclasses.replace(asynchronous, config=asynchronous.config | {"steps": 400})
    assert tables.launches(named(others, synchronous))["regime"].nunique() == 2
    assert tables.launches(named(others, other_lengths))["regime"].nunique() == 2


def test_what_convenience_costs_is_the_median_over_pairs_of_the_same_round():
    own = [make_record("tf_mirrored", 2, (time,) * 3) for time in (1.0, 2.0, 4.0, 1.0, 1.0, 1.0)]
    keras = [make_record("tf_keras_mirrored", 2, (time,) * 3) for time in (3.0, 6.0, 12.0, 2.9, 3.1, 3.2)]
    alone = make_record("tf_keras_mirrored", 4, (9.0,) * 3)
    [row] = convenience(tables.launches(named(*own, *keras, alone)), None).to_dict("records")
    assert (row["first"], row["second"], row["workers"]) == ("tf_mirrored", "tf_keras_mirrored", 2)
    assert (row["pairs"], row["factor"]) == (6, pytest.approx(3.0))
    assert (row["low"], row["high"]) == (pytest.approx(2.9), pytest.approx(3.2))
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.001), pytest.approx(0.00315))


def test_replicas_in_one_process_are_paired_with_replicas_in_a_process_each():
    records = named(
        make_record("torch_ddp", 2, (2.0,) * 3),
        make_record("torch_data_parallel", 2, (3.0,) * 3, rank_factors=(1.0,)),
        make_record("torch_lightning_ddp", 2, (5.0,) * 3),
    )
    [row] = tables.factors(tables.launches(records), None, tables.IN_ONE_PROCESS).to_dict("records")
    assert (row["first"], row["second"], row["factor"]) == ("torch_ddp", "torch_data_parallel", pytest.approx(1.5))
    [row] = convenience(tables.launches(records), None).to_dict("records")
    assert (row["first"], row["second"], row["factor"]) == ("torch_ddp", "torch_lightning_ddp", pytest.approx(2.5))


def test_waiting_for_rows_counts_by_the_median_window_and_the_rank_that_waits_longest():
    # Windows of ten steps: rank 1 waits 2, 4 and 9 ms in them, rank 0 a millisecond in each.
    record = make_record("torch_ddp", 2, (2.0, 2.0, 2.0))
    waits = {(0, 20): 0.001, (0, 30): 0.001, (0, 40): 0.001, (1, 20): 0.002, (1, 30): 0.004, (1, 40): 0.009}
    windows = [window | {"input_seconds": waits[window["rank"], window["step"]]} for window in record.windows]
    silent = make_record("tf_mirrored", 2)
    launches = tables.launches(named(dataclasses.replace(record, windows=windows), silent))
    [row] = tables.inputs(launches).to_dict("records")
    assert (row["strategy"], row["workers"], row["n"]) == ("torch_ddp", 2, 1)
    assert row["input_seconds"] == pytest.approx(0.0004)
    assert row["share"] == pytest.approx(0.2)


def test_launches_of_different_rounds_make_no_pair():
    records = named(make_record("tf_mirrored", 2, (1.0,) * 3), make_record("tf_keras_mirrored", 2, (3.0,) * 3))
    plan = pd.DataFrame({"cell": [*records], "repetition": [1, 2]})
    launches = tables.launches(records)
    assert convenience(launches, plan).empty
    [row] = convenience(launches, plan.assign(repetition=1)).to_dict("records")
    assert row["pairs"] == 1
    assert math.isnan(row["low"])


def test_a_library_that_sets_other_options_is_compared_with_the_same_ones():
    plain = [make_record("tf_mirrored", 2, (1.0,) * 3), varied("tf_mirrored", 2, (2.0,) * 3, jit_compile=True)]
    keras = varied("tf_keras_mirrored", 2, (6.0,) * 3, jit_compile=True)
    [row] = convenience(tables.launches(named(*plain, keras)), None).to_dict("records")
    assert (row["first"], row["factor"]) == ("tf_mirrored, jit_compile", pytest.approx(3.0))


def test_cells_end_ok_unsupported_failed_or_not_run_and_all_are_counted(tmp_path):
    records = named(make_record(), unfinished("unsupported", "No."), unfinished("failed", "Died.", "torch_fsdp", 4))
    header = "position,cell,strategy,preset,scaling,workers,exchange,repetition,purpose,order_seed"
    rows = [f"{position},{name},x,digits,weak,1,True,1,throughput,5" for position, name in enumerate(records)]
    lines = [header, *rows, "9,missing,torch_ddp,digits,weak,2,True,2,throughput,5"]
    (tmp_path / "plan.csv").write_text("\n".join(lines))
    results = read_results(write_all(tmp_path, records))
    endings = tables.endings(results.records, results.plan)
    assert sorted(endings["ending"]) == ["failed", "not run", "ok", "unsupported"]
    assert findings.endings(endings) == "4 launches were planned: 1 ok, 1 unsupported, 1 failed, 1 not run."


def test_strategies_without_a_single_ok_launch_are_named_with_their_reason():
    lacking = [
        unfinished("unsupported", "There is no Horovod.", name, 2) for name in ("horovod_torch", "horovod_keras")
    ]
    sometimes = [make_record("torch_ddp", 2), unfinished("unsupported", "Too many workers.", "torch_ddp", 4)]
    died = unfinished("failed", "It was killed.", "tf_mirrored", 2)
    endings = tables.endings(named(*lacking, *sometimes, died), None)
    assert findings.left_out(endings) == [
        "Not compared: horovod_keras and horovod_torch. There is no Horovod.",
        "Not compared: tf_mirrored. It was killed.",
    ]
    assert findings.left_out(tables.endings(named(*sometimes), None)) == []


def test_a_planned_variant_that_never_ran_stands_under_its_own_name():
    row = {"cell": "a", "strategy": "tf_parameter_server", "preset": "digits", "scaling": "strong", "workers": 2}
    plan = pd.DataFrame([row | {"exchange": True, "purpose": "certificate", "variant": "synchronous updates"}])
    assert tables.endings({}, plan)["strategy"].tolist() == ["tf_parameter_server, synchronous updates"]
    assert tables.endings({}, plan.drop(columns="variant"))["strategy"].tolist() == ["tf_parameter_server"]


def test_accuracy_shows_the_value_reached_and_the_time_to_the_target_on_real_data_only():
    looks = [(20, 0.80, 0.4), (40, 0.91, 0.8), (60, 0.95, 1.2)]
    entries = [{"step": step, "accuracy": share, "training_seconds": time} for step, share, time in looks]
    digits = make_record(accuracies=entries, final_accuracy=0.95)
    blind = make_record("torch_single", accuracies=entries[-1:], final_accuracy=0.95)
    generated = dataclasses.replace(digits, strategy="tf_mirrored", config=digits.config | {"preset": "pathway"})
    table = tables.accuracies(named(digits, blind, generated))
    assert sorted(table["strategy"]) == ["torch_ddp", "torch_single"]
    assert cell(table, "torch_ddp", 1)["target_seconds"] == 0.8
    assert cell(table, "torch_ddp", 1)["accuracy"] == 0.95
    assert math.isnan(cell(table, "torch_single", 1)["target_seconds"])


def test_too_few_launches_rank_nothing():
    records = named(make_record("torch_ddp", 1, (1.0, 1.0)), make_record("tf_mirrored", 1, (9.0, 9.0)))
    [sentence] = findings.fastest(tables.cells(tables.launches(records)))
    assert "too few launches to rank" in sentence
    assert "n = 1, 6 needed" in sentence
    assert "fastest" not in sentence


def test_six_launches_with_intervals_apart_name_the_fastest():
    fast = [make_record("torch_ddp", 1, (1.0 + index / 100,) * 2) for index in range(6)]
    slow = [make_record("tf_mirrored", 1, (2.0 + index / 100,) * 2) for index in range(6)]
    [sentence] = findings.fastest(tables.cells(tables.launches(named(*slow, *fast))))
    assert "torch_ddp was the fastest" in sentence
    assert "n = 6" in sentence


def test_other_maths_is_measured_and_not_ranked():
    exact = [make_record("torch_ddp", 1, (2.0 + index / 100,) * 2) for index in range(6)]
    single = [make_record("torch_single", 1, (1.5 + index / 100,) * 2) for index in range(6)]
    rounded = [varied("torch_ddp", 1, (1.0 + index / 100,) * 2, bf16_autocast=True) for index in range(6)]
    cells = tables.cells(tables.launches(named(*exact, *single, *rounded)))
    assert cell(cells, "torch_ddp, bf16_autocast, other maths", 1)["n"] == 6
    [sentence] = findings.fastest(cells)
    assert "torch_single was the fastest" in sentence
    assert "bf16_autocast" not in sentence


def test_a_strategy_with_servers_beside_its_workers_is_named_where_it_alone_has_too_many_threads():
    servers = make_record("tf_parameter_server", 2, oversubscribed=True)
    others = [make_record("torch_ddp", workers) for workers in (2, 4)]
    sentence = findings.oversubscription(tables.launches(named(servers, *others)))
    assert sentence.startswith("With 4 workers and 2 workers of tf_parameter_server, which has other")
    assert findings.oversubscription(tables.launches(named(others[0]))) == ""


def test_overlapping_intervals_name_nobody():
    one = [make_record("torch_ddp", 1, (1.0 + index / 100,) * 2) for index in range(6)]
    other = [make_record("tf_mirrored", 1, (1.03 + index / 100,) * 2) for index in range(6)]
    [sentence] = findings.fastest(tables.cells(tables.launches(named(*one, *other))))
    assert "nobody is clearly fastest" in sentence


def test_an_outlying_launch_a_slow_start_and_a_wide_spread_are_each_cautioned():
    steady = [make_record("torch_ddp", 1, (2.0 + index / 1000,) * 4) for index in range(6)]
    outlying = make_record("torch_ddp", 1, (4.0,) * 4)
    slow_start = make_record("torch_single", 1, (3.0, 2.0, 2.0, 2.0))
    records = named(*steady, outlying, slow_start)
    found = {caution.what: caution for caution in cautions(tables.launches(records), records)}
    assert "torch_ddp at 1 (2.00 times the median)" in found["An outlying launch"].where[0]
    assert "torch_ddp at 1 (100 %, n = 7)" in found["Launches spread by more than 10 %"].where[0]
    assert "torch_single at 1" in found["First windows slower than later ones"].where[0]
    assert all(caution.cause and caution.remedy for caution in found.values())


def test_a_quiet_comparison_has_no_caution():
    steady = [make_record("torch_ddp", 1, (200.0 + index,) * 4) for index in range(6)]
    records = named(*steady)
    assert cautions(tables.launches(records), records) == []


def test_a_worker_that_was_lost_and_came_back_is_cautioned():
    records = named(make_record("tf_parameter_server", 2, synchronous=False, restarted_workers=2))
    [caution] = [found for found in cautions(tables.launches({}), records) if "started again" in found.what]
    assert caution.where == ["tf_parameter_server at 2, digits: 2 times (tf_parameter_server-2w-00)"]
    assert caution.cause
    assert caution.remedy
