"""What a step takes beyond the ideal one, and when it pays, against numbers worked out by hand."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.records.training import Record
from reports.tables import decomposition
from tests.reports.materials import material_of
from tests.reports.records import MadeUpOptions, make_record, over_hosts, varied
from tests.reports.steps import alone, base, launch, plan_of, rounds


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return material_of(*records, plan=plan).parts


def parts(found: pd.DataFrame, strategy: str = "amber_ring", workers: int = 2) -> dict[str, object]:
    """The parts of one cell in milliseconds; they add up to what is measured beyond the ideal."""
    own = found[(found["strategy"] == strategy) & (found["workers"] == workers)]
    beyond = own["measured_seconds"].iloc[0] - own["ideal_seconds"].iloc[0]
    assert own["seconds"].sum() == pytest.approx(beyond, abs=1e-12)
    return pytest.approx(dict(zip(own["part"], 1000 * own["seconds"], strict=True)), abs=1e-9)


def test_the_parts_are_those_worked_out_by_hand():
    # Without exchange the ranks take 2.4 and 3.0 ms, 2.7 in the middle: the slowest makes others wait 0.3 ms.
    found = table(base(2.0), launch(4.0), alone(3.0, rank_factors=(0.8, 1.0)))
    assert parts(found) == {"computing": 0.7, "slowest rank": 0.3, "exchange": 1.0, "the rest": 0.0}
    assert found["ideal_seconds"].tolist() == pytest.approx([0.002] * 4)
    assert found["measured_seconds"].tolist() == pytest.approx([0.004] * 4)


def test_under_strong_scaling_the_ideal_is_an_nth_of_the_bases_step():
    found = table(base(4.0, strong=True), launch(3.5, strong=True), alone(2.5, strong=True))
    assert found["ideal_seconds"].tolist() == pytest.approx([0.002] * 4)
    assert parts(found) == {"computing": 0.5, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}


@pytest.mark.parametrize(("of_base", "rows"), [(0.1, 0.3), (None, 0.4)])
def test_rows_are_what_is_waited_for_them_longer_than_in_the_base(of_base, rows):
    found = table(base(2.0, waits=of_base), launch(4.0, waits=0.2), alone(3.0, waits=0.4))
    assert parts(found) == {
        **{"computing": 1.0 - rows, "rows": rows, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}
    }


def test_one_worker_of_a_strategy_computes_and_waits_for_rows_alone():
    found = table(base(2.0, waits=0.1), launch(2.5, workers=1, waits=0.2))
    assert parts(found, workers=1) == {"computing": 0.4, "rows": 0.1, "the rest": 0.0}


def test_what_distributes_nothing_has_no_parts():
    assert table(base(), launch(1.0, "amber_single", 1, compiled=True)).empty
    assert table().empty


def test_without_a_launch_without_exchange_the_step_is_not_divided():
    found = table(base(2.0), launch(4.0, waits=0.5))
    assert parts(found) == {"rows": 0.5, "not divided": 1.5, "the rest": 0.0}


def test_differences_are_of_launches_of_the_same_round():
    # Rounds differ by far more than the parts, which are the same in each.
    slow = (0.0, 1.0, 5.0, 2.0, 9.0, 3.0)
    records = [kind(time + each) for each in slow for kind, time in ((base, 2.0), (launch, 4.0), (alone, 2.4))]
    found = table(*records)
    assert parts(found) == {"computing": 0.4, "slowest rank": 0.0, "exchange": 1.6, "the rest": 0.0}
    shown = found[found["part"].isin(["computing", "exchange"])]
    assert shown[["low", "high"]].to_numpy().ravel().tolist() == pytest.approx([0.0004] * 2 + [0.0016] * 2)
    assert shown["n"].tolist() == [6, 6]
    few = table(*records[:-3])
    assert few["n"].tolist() == [5] * 4
    assert few[["low", "high"]].isna().all(axis=None)


def test_the_rounds_are_those_of_the_plan():
    records = [base(2.0), base(8.0), base(28.0)]
    records += [launch(4.0), launch(10.0), launch(30.0), alone(8.4), alone(28.4), alone(2.4)]
    found = table(*records, plan=plan_of(records, [1, 2, 3, 1, 2, 3, 2, 3, 1]))
    assert parts(found) == {"computing": 0.4, "slowest rank": 0.0, "exchange": 1.6, "the rest": 0.0}
    assert found["is_paired"].all()


def test_a_base_of_other_rounds_is_taken_by_its_median_and_gives_no_interval():
    records = [base(2.0), base(3.0), base(2.2), *(launch(4.0 + index) for index in range(6))]
    found = table(*records, plan=plan_of(records, [*range(1, 10)]))
    [row] = found[found["part"] == "not divided"].to_dict("records")
    assert (row["seconds"], row["n"], row["is_paired"]) == (pytest.approx(0.0043), 6, False)
    assert pd.isna(row["low"])


def test_where_the_base_is_in_some_rounds_only_those_are_compared_with_it():
    records = [base(2.0, waits=0.1), launch(4.0), launch(4.0), alone(3.0, waits=0.2), alone(9.0, waits=0.9)]
    found = table(*records, plan=plan_of(records, [1, 1, 2, 1, 2])).set_index("part")
    assert found["n"].to_dict() == {"computing": 1, "rows": 1, "slowest rank": 2, "exchange": 2, "the rest": 2}
    assert found.loc[["computing", "rows"], "seconds"].tolist() == pytest.approx([0.0009, 0.0001])


def test_over_several_rounds_medians_leave_a_rest():
    # Computing takes 0, 3 and 1 ms, exchange 1, 1 and 3: in the middle 1 and 1, where the step takes 4 beyond the base.
    by_round = [(2.0, 2.0, 3.0), (2.0, 5.0, 6.0), (9.0, 10.0, 13.0)]
    records = [each for first, second, third in by_round for each in (base(first), alone(second), launch(third))]
    assert parts(table(*records)) == {"computing": 1.0, "slowest rank": 0.0, "exchange": 1.0, "the rest": 2.0}


@settings(max_examples=5, deadline=None)
@given(*[st.floats(0.5, 50.0)] * 3, st.floats(0.5, 1.0), st.floats(0.0, 0.4), st.floats(0.0, 0.4))
def test_in_one_round_the_parts_leave_no_rest(of_base, step, computing, factor, waits, base_waits):
    own = {"rank_factors": (factor, 1.0), "waits": waits}
    found = table(base(of_base, waits=base_waits), launch(step, waits=waits), alone(computing, **own))
    [rest] = found.loc[found["part"] == "the rest", "seconds"]
    assert abs(rest) < 1e-12
    assert found["seconds"].sum() == pytest.approx((step - of_base) / 1000, abs=1e-12)


def split_of(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return material_of(*records, plan=plan).exposed


def silent(milliseconds: float) -> Record:
    return varied("amber_ring", 2, (milliseconds,) * 2, exchange=False)


def test_the_time_of_a_step_is_split_where_the_same_cell_was_measured_without_exchange_or_had_its_bytes_counted():
    counted = make_record("cobalt_replicas", 2, (6.0, 6.0), wire_bytes_per_step=5.0)
    records = [make_record("amber_ring", 2, (5.0, 5.0)), silent(3.0), silent(3.0)]
    records += [make_record("amber_ring", 4, (9.0, 9.0)), make_record("amber_sharded", 2, (7.0, 7.0)), counted]
    records += [make_record("amber_ring", 1), varied("amber_ring", 1, exchange=False)]
    split = split_of(*records, launch(2.0, "cobalt_replicas", batch=16)).set_index("bare_strategy")
    times = ["workers", "step_seconds", "step_n", "compute_seconds", "compute_n", "exposed_seconds"]
    nan = float("nan")
    assert [pytest.approx(row, nan_ok=True) for row in split[[*times, "wire_bytes"]].to_dict("records")] == [
        dict(zip([*times, "wire_bytes"], (2, 0.005, 1, 0.003, 2, 0.002, nan), strict=True)),
        dict(zip([*times, "wire_bytes"], (2, 0.006, 1, nan, 0, nan, 5.0), strict=True)),
    ]
    assert [*split.index] == [*split["strategy"]] == ["amber_ring", "cobalt_replicas"]
    assert split["formula"].str.contains("ring all-reduce").all()
    assert split["formula_source"].str.contains("2009").all()


def test_every_table_has_the_same_exposed_communication_also_of_a_round_with_two_launches():
    records = [make_record("amber_ring", 2, (each,) * 2) for each in (5.0, 6.0, 7.0)]
    records += [make_record("amber_single", 1, (2.0, 2.0)), silent(3.0)]
    found = material_of(*records, plan=plan_of(records, [1, 1, 2, 1, 1]))
    exchange = found.parts[found.parts["part"] == decomposition.EXCHANGE]
    assert found.exposed[["exposed_seconds", "exposed_seconds_n"]].to_numpy().tolist() == [pytest.approx([0.0025, 1])]
    assert exchange[["seconds", "n"]].to_numpy().tolist() == [pytest.approx([0.0025, 1])]
    assert split_of(*records, plan=plan_of(records, [*range(5)]))["exposed_seconds_n"].tolist() == [0]


def test_launches_of_another_configuration_in_the_same_round_take_no_part():
    others = [{"preset": "pathway"}, {"strong": True}, {"batch": 32}, {"compiled": True}, {"workers": 4}]
    others.append({"name": "amber_library"})
    # Paired with another's launch without exchange, 2 ms of exposed communication would be -16.
    theirs = [launch(21.0, **facts) for facts in others]
    theirs += [launch(20.0, **facts, exchange=False) for facts in others]
    theirs += [
        over_hosts(milliseconds=(milliseconds,) * 3, options=MadeUpOptions(exchange=exchange))
        for milliseconds, exchange in ((21.0, True), (20.0, False))
    ]
    records = [base(2.0), launch(4.0), *theirs, alone(2.0)]
    for one_plan in (plan_of(records, [1] * len(records)), None):
        material = material_of(*records, plan=one_plan)
        found, split = material.parts, material.exposed
        ours = found[found["measured_seconds"] == 0.004]
        assert parts(ours) == {"computing": 0.0, "slowest rank": 0.0, "exchange": 2.0, "the rest": 0.0}
        pairs = sorted(zip(split["step_seconds"], split["exposed_seconds"], strict=True))
        assert pairs == [pytest.approx((0.004, 0.002)), *[pytest.approx((0.021, 0.001))] * (len(others) + 1)]
    # Without a launch of its own without exchange it has no exposed communication, whatever the others have.
    lonely = table(*records[:-1])
    assert decomposition.EXCHANGE not in lonely.loc[lonely["measured_seconds"] == 0.004, "part"].tolist()


@pytest.mark.parametrize("other", [{"preset": "pathway"}, {"batch": 32}], ids=["preset", "task"])
def test_the_baseline_of_another_preset_or_task_takes_no_part(other):
    # The baseline is of the other scaling, so no regime tells it from another preset's or task's.
    found = table(base(10.0, **other), base(4.0), launch(4.0, strong=True), alone(2.4, strong=True))
    assert parts(found) == {"computing": 0.4, "slowest rank": 0.0, "exchange": 1.6, "the rest": 0.0}


def test_what_limits_each_strategy_is_its_largest_part():
    found = table(base(2.0), launch(4.0), alone(2.4), launch(2.02, "amber_library"), launch(3.0, workers=4))
    rows = decomposition.largest(found).set_index(["strategy", "workers"])
    assert rows["part"].to_dict() == {
        **{("amber_library", 2): "not divided", ("amber_ring", 2): "exchange", ("amber_ring", 4): "not divided"}
    }
    assert rows["share"].tolist() == pytest.approx([0.02 / 2.02, 1.6 / 4.0, 1.0 / 3.0])
    # Below two per cent of the step nothing counts as a limit.
    assert rows["is_limit"].tolist() == [False, True, True]
    assert decomposition.largest(table()).empty


def test_a_part_whose_interval_reaches_down_to_zero_limits_nothing():
    times = (-1.0, -0.9, 1.0, 0.9, 1.1, 0.8)
    [row] = decomposition.largest(
        table(*(record for time in times for record in (base(2.0), launch(3.0 + time), alone(2.0))))
    ).to_dict("records")
    assert (row["part"], bool(row["share"] > 0.1), bool(row["is_limit"])) == ("exchange", True, False)


def paying(*records: Record) -> list:
    """The rows that the formula is about."""
    table = split_of(*records)
    return [*table[table["verdict"].notna()].itertuples()]


def test_the_columns_are_those_worked_out_by_hand():
    # One worker computes for 2 ms; two compute for 3 ms each beside one another, and take 4 ms with their exchange.
    [row] = paying(base(2.0), launch(4.0), launch(3.0, exchange=False))
    assert (row.batch, row.workers) == (64, 2)
    assert (row.ratio, row.contention, row.sync_share) == pytest.approx((1.0, 1.5, 1 / 3))
    assert row.exposed_seconds == pytest.approx(0.001)
    # 2 B* / (3 B* / 64 + 1) = B* / (2 B* / 64), so B* = 64.
    assert row.fewest_batch == pytest.approx(64)


def test_the_ratio_is_of_launches_of_the_same_round_with_its_interval():
    [row] = paying(*rounds(2.0, 3.2, 2.4))
    assert (row.ratio, row.ratio_low, row.ratio_high, row.ratio_n) == pytest.approx((1.25, 1.25, 1.25, 6))
    assert (row.contention, row.contention_low, row.contention_high) == pytest.approx((1.2, 1.2, 1.2))
    assert (row.verdict, row.by_formula, row.with_contention) == ("surely pays", "pays", "pays")
    # T_sync grows with the round: 0.8 ms and up to 9 % more.
    assert (row.exposed_seconds_low, row.exposed_seconds_high) == pytest.approx((0.0008, 0.0008 * 1.09))


def test_where_contention_explains_why_it_does_not_pay_only_the_formula_without_it_is_wrong():
    # 1.0 / 3.2 is less than 1, but two workers take 4.2 ms for what the base does in 4 ms.
    [row] = paying(*rounds(2.0, 4.2, 3.2, n=1) * 6)
    assert (row.verdict, row.by_formula, row.with_contention) == ("surely doesn't", "pays", "doesn't pay")
    # 64 rows times 1 ms over 2 ms (2 - 1.6).
    assert (row.contention, row.fewest_batch) == (pytest.approx(1.6), pytest.approx(80))


@pytest.mark.parametrize(
    "records",
    [
        (),
        (base(2.0), launch(2.5, workers=1)),
        (base(2.0, strong=True), launch(1.5, strong=True)),
        (launch(3.0), launch(2.5, exchange=False)),
        (base(2.0), launch(3.0, "amber_parts")),
    ],
    ids=["nothing", "one worker", "strong scaling", "no base", "parts of one model"],
)
def test_what_the_formula_is_not_about_has_no_row(records):
    assert paying(*records) == []


def test_asynchronous_workers_have_no_row():
    cobalt = [launch(2.0, "cobalt_single", 1), launch(3.0, "cobalt_servers"), launch(3.0, "cobalt_replicas")]
    assert [row.strategy for row in paying(*cobalt)] == ["cobalt_replicas"]
    together = launch(3.0, "cobalt_servers", updates="together")
    assert [row.strategy for row in paying(cobalt[0], together)] == ["cobalt_servers, together updates"]
