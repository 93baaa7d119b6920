"""What a step takes beyond the ideal one, when it pays, and what would make it shorter: worked out by hand."""

import dataclasses

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from common.contract.task import PRESETS
from common.records.training import Record
from reports.tables import decomposition
from reports.words import decomposition as words
from tests.changes import changed
from tests.reports.materials import material_of, replay, replayed
from tests.reports.pieces import drawings_of, items
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, unfinished, varied

DRIFT = (0.0, 1.0, 5.0, 2.0, 9.0, 3.0)
"""How many per cent slower the machine is in each of six rounds."""


def launch(
    milliseconds: float,
    name: str = "amber_ring",
    workers: int = 2,
    *,
    waits: float | None = None,
    strong: bool = False,
    batch: int = 64,
    preset: str = "digits",
    rank_factors: tuple[float, ...] | None = None,
    **options: object,
) -> Record:
    """A launch of so many milliseconds a step, of which it `waits` so many for its rows."""
    # Windows of as many rows, as whoever tries another batch chooses them.
    lengths = {"steps": 60 * 64 // batch, "warmup_steps": 20 * 64 // batch, "window_steps": 10 * 64 // batch}
    scaling = "strong" if strong else "weak"
    task = dataclasses.replace(PRESETS[preset], scaling=scaling, workers=workers, batch=batch, **lengths)
    record = make_record(
        name, workers, (milliseconds,) * 3, task, options=MadeUpOptions(**options), rank_factors=rank_factors
    )
    if waits is None:
        return record
    waited = [structs.replace(window, input_seconds=waits * window.steps / 1000) for window in record.windows]
    return changed(record, windows=waited)


def base(milliseconds: float = 2.0, **facts: object) -> Record:
    return launch(milliseconds, "amber_single", 1, **facts)


def alone(milliseconds: float, name: str = "amber_ring", **facts: object) -> Record:
    return launch(milliseconds, name, exchange=False, **facts)


def plan_of(records: list[Record], rounds: list[int]) -> pd.DataFrame:
    """A plan that has these launches, by the names that `named` gives them, in these rounds."""
    return pd.DataFrame({"launch": list(named(*records)), "repetition": rounds})


def rounds(
    of_base: float | None, step: float, alone: float | None = None, n: int = 6, name: str = "amber_ring"
) -> list[Record]:
    """n rounds of the base, the strategy and the strategy without exchange; what takes no time has no launch."""
    records = []
    for factor in (1 + per_cent / 100 for per_cent in DRIFT[:n]):
        records += [base(factor * of_base)] if of_base else []
        records.append(launch(factor * step, name))
        records += [launch(factor * alone, name, exchange=False)] if alone else []
    return records


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


# In words


def section(*records: Record) -> tuple[list[dict], dict]:
    blocks = words.section(material_of(*records))
    return blocks, drawings_of(blocks)


def said_in(blocks: list[dict]) -> str:
    return " ".join(" ".join(block.get("items", [block.get("text", "")])) for block in blocks)


def test_the_largest_part_of_each_strategy_is_named_with_its_share_and_what_would_remove_it():
    exchanging, computing = rounds(2.0, 4.0, 2.2), rounds(None, 4.0, 3.9, name="amber_library")
    [ring, library, *_] = items(section(*exchanging, *computing)[0])[::-1]
    assert ring.startswith("amber_ring with 2 workers: exchange takes 45 % of the step (1.8")
    assert "a larger batch per worker, fewer bytes (compression) or a faster link" in ring
    assert library.startswith("amber_library with 2 workers: computing takes 4")
    assert "fewer workers on this machine" in library


def test_a_part_that_is_longer_than_the_median_step_is_over_a_hundred_per_cent():
    disturbed = [*rounds(2.0, 9.0, 2.2, n=1), *rounds(2.0, 4.0, n=5)]
    [said] = items(section(*disturbed)[0])
    assert said.startswith("amber_ring with 2 workers: exchange takes over 100 % of the step (6.80 of 4.")
    assert ", n = 1); " in said


def test_a_strategy_without_a_part_that_counts_has_no_sentence_of_its_own():
    assert items(section(*rounds(2.0, 2.0, 2.0))[0]) == [
        "No part beyond the ideal counts in the steps of amber_ring at 2."
    ]


@pytest.mark.parametrize(
    ("step", "computing", "sentence"),
    [
        # 64 rows times 1 ms over 2 ms (2 - 1.6).
        (4.2, 3.2, "It surely doesn't pay; by extrapolation it would from 80 rows per worker on."),
        (9.4, 5.0, "It surely doesn't pay, with no batch, since contention is as large as the number of workers."),
        (3.2, 2.9, "It surely pays."),
    ],
)
def test_whether_it_pays_is_told_with_the_batch_from_which_on_it_would(step, computing, sentence):
    records = [each for _ in range(6) for each in rounds(2.0, step, computing, n=1)]
    assert sentence in items(section(*records)[0])[0]


def test_what_a_replay_of_the_messages_tells_stands_beside_the_exchange():
    records = rounds(2.0, 4.0, 2.2)
    stems = [name for name, record in named(*records).items() if record.strategy == "amber_ring" and record.exchange]
    for milliseconds, word in ((0.5, "take longer beside computing"), (9.0, "a part of them is hidden")):
        replays = {
            f"replay-{place}": replay(milliseconds + place / 100, place, replayed=replayed(stem))
            for place, stem in enumerate(stems, 1)
        }
        assert word in items(words.section(material_of(*records, replays=replays)))[0]


def test_who_has_no_bar_is_named_with_the_reason():
    servers, lonely = launch(4.0, "cobalt_servers"), launch(4.0, "cobalt_replicas")
    blocks, _ = section(base(), launch(4.0), servers, lonely, unfinished("failed", "It broke.", "amber_library"))
    assert "Left out for asynchronous updates, which belong to one worker each: cobalt_servers." in said_in(blocks)
    reason = "Left out, since cobalt_single wasn't measured on the same work: cobalt_replicas at 2."
    assert reason in said_in(blocks)


@pytest.mark.parametrize("records", [(), (base(),), (launch(4.0),), (unfinished("failed", "It broke."),)])
def test_without_a_strategy_beside_its_base_there_is_no_figure(records):
    blocks, drawings = section(*records)
    assert "nothing tells how long a step should ideally take." in said_in(blocks)
    assert drawings == {}


def test_of_too_many_bars_the_largest_world_with_a_core_each_is_drawn(monkeypatch):
    monkeypatch.setattr(words, "_MOST_BARS", 5)
    names = [f"amber_{index:02d}" for index in range(2)]
    records = [launch(3.0 + workers, name, workers) for name in names for workers in (1, 2, 4)]
    blocks, drawings = section(base(), *records)
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert figure["caption"].endswith("Only 2 workers; the table \u201cparts\u201d has all.")
    drawn = drawings["steps"]().decode()
    assert ">2 workers<" in drawn
    assert ">1 worker<" not in drawn


def test_the_bars_are_those_over_the_fastest_links():
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    records += [over_hosts(milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    [figure] = [block for block in words.section(material_of(*records)) if block["kind"] == "figure"]
    assert set(figure["draw"].args[0]["strategy"]) == {"amber_ring, 2 hosts, 100 Mbit/s"}
    assert "Of several links the fastest." in figure["caption"]
