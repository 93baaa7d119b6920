"""What a step takes beyond the ideal one, when it pays, and what would make it shorter: worked out by hand."""

import math
from collections.abc import Sequence

import pandas as pd
import pytest
from msgspec import structs

from common.records.training import Record
from reports.tables import decomposition
from reports.words import decomposition as words
from tests.changes import changed
from tests.reports.materials import material_of, replays
from tests.reports.pieces import first, items
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, task_of, unfinished

DRIFT = (0.0, 1.0, 5.0, 2.0, 9.0, 3.0)
"""How many per cent slower the machine is in each of six rounds."""


def launch(milliseconds: float, name: str = "amber_ring", workers: int = 2, **facts: object) -> Record:
    """A launch of so many milliseconds a step, of which it `waits` so many for its rows.

    The other facts are changes of its `task`, its `rank_factors`, and options of its strategy.
    """
    waits, factors, task = facts.pop("waits", None), facts.pop("rank_factors", None), facts.pop("task", {})
    options = MadeUpOptions(**facts)
    record = make_record(name, workers, (milliseconds,) * 3, task_of(workers, **task), options, factors)
    if waits is None:
        return record
    waited = [structs.replace(window, input_seconds=waits * window.steps / 1000) for window in record.windows]
    return changed(record, windows=waited)


def base(milliseconds: float = 2.0, **facts: object) -> Record:
    return launch(milliseconds, "amber_single", 1, **facts)


def alone(milliseconds: float, name: str = "amber_ring", **facts: object) -> Record:
    return launch(milliseconds, name, exchange=False, **facts)


def rounds(of_base: float, step: float, computing: float, n: int = 6, name: str = "amber_ring") -> list[Record]:
    """n rounds of the base, the strategy and the strategy without exchange."""
    records = []
    for factor in (1 + per_cent / 100 for per_cent in DRIFT[:n]):
        records += [base(factor * of_base), launch(factor * step, name), alone(factor * computing, name)]
    return records


def table(*records: Record, rounds: Sequence[int] = ()) -> pd.DataFrame:
    return material_of(*records, rounds=rounds).parts


def parts(found: pd.DataFrame) -> dict[str, object]:
    """The parts of the only configuration in milliseconds; they add up to what is measured beyond the ideal."""
    beyond = found["measured_seconds"].iloc[0] - found["ideal_seconds"].iloc[0]
    assert found["seconds"].sum() == pytest.approx(beyond, abs=1e-12)
    return pytest.approx(dict(zip(found["part"], 1000 * found["seconds"], strict=True)), abs=1e-9)


STRONG = {"task": {"scaling": "strong"}}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            [base(4.0, **STRONG), launch(3.5, **STRONG), alone(2.5, **STRONG)],
            {"computing": 0.5, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0},
        ),
        # Without exchange the ranks take 2.4 and 3.0 ms, 2.7 in the middle: the slowest makes others wait 0.3 ms.
        (
            [base(2.0, waits=0.1), launch(4.0, waits=0.2), alone(3.0, waits=0.4, rank_factors=(0.8, 1.0))],
            {"computing": 0.4, "rows": 0.3, "slowest rank": 0.3, "exchange": 1.0, "the rest": 0.0},
        ),
        (
            [base(2.0), launch(4.0, waits=0.2), alone(3.0, waits=0.4)],
            {"computing": 0.6, "rows": 0.4, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0},
        ),
        (
            [base(2.0, waits=0.1), launch(2.5, workers=1, waits=0.2)],
            {"computing": 0.4, "rows": 0.1, "the rest": 0.0},
        ),
        ([base(2.0), launch(4.0, waits=0.5)], {"rows": 0.5, "not divided": 1.5, "the rest": 0.0}),
        # Computing takes 0, 3 and 1 ms, exchange 1, 1 and 3: in the middle 1 and 1, the step 4 beyond the base.
        (
            [*(base(each) for each in (2.0, 2.0, 9.0)), *(alone(each) for each in (2.0, 5.0, 10.0))]
            + [launch(each) for each in (3.0, 6.0, 13.0)],
            {"computing": 1.0, "slowest rank": 0.0, "exchange": 1.0, "the rest": 2.0},
        ),
    ],
    ids=[
        "an N-th of the base's step under strong scaling",
        "the slowest rank, and rows waited for longer than in the base",
        "a base that waits for no rows",
        "one worker, which exchanges nothing",
        "not divided without a launch without exchange",
        "medians over several rounds leave a rest",
    ],
)
def test_the_parts_of_a_step_are_those_worked_out_by_hand(records, expected):
    found = table(*records)
    assert parts(found) == expected
    assert found["ideal_seconds"].tolist() == pytest.approx([0.002] * len(expected))


def test_differences_are_of_launches_of_the_same_round_and_have_intervals_from_six_on():
    # Rounds differ by far more than the parts, which are the same in each.
    records = [kind(time + each) for each in DRIFT for kind, time in ((base, 2.0), (launch, 4.0), (alone, 2.4))]
    found = table(*records)
    assert parts(found) == {"computing": 0.4, "slowest rank": 0.0, "exchange": 1.6, "the rest": 0.0}
    shown = found[found["part"].isin(["computing", "exchange"])]
    assert shown[["low", "high"]].to_numpy().ravel().tolist() == pytest.approx([0.0004] * 2 + [0.0016] * 2)
    assert shown["n"].tolist() == [6, 6]
    few = table(*records[:-3])
    assert few["n"].tolist() == [5] * 4
    assert few[["low", "high"]].isna().all(axis=None)


def test_a_base_of_other_rounds_is_taken_by_its_median_and_gives_no_interval():
    records = [base(2.0), base(3.0), base(2.2), *(launch(4.0 + index) for index in range(6))]
    found = table(*records, rounds=range(1, 10))
    [row] = found[found["part"] == "not divided"].to_dict("records")
    assert (row["seconds"], row["n"], row["is_paired"]) == (pytest.approx(0.0043), 6, False)
    assert pd.isna(row["low"])


def test_where_the_base_is_in_some_rounds_only_those_are_compared_with_it_and_a_round_counts_by_its_median():
    records = [base(2.0, waits=0.1), launch(4.0), launch(6.0), launch(4.0)]
    records += [alone(3.0, waits=0.2), alone(9.0, waits=0.9)]
    material = material_of(*records, rounds=[1, 1, 1, 2, 1, 2])
    found = material.parts.set_index("part")
    assert found["n"].to_dict() == {"computing": 1, "rows": 1, "slowest rank": 2, "exchange": 2, "the rest": 3}
    # With exchange the rounds take 5 and 4 ms, without it 3 and 9.
    assert found.loc[["computing", "rows", "exchange"], "seconds"].tolist() == pytest.approx([0.0009, 0.0001, -0.0015])
    assert material.exposed["exposed_seconds"].tolist() == pytest.approx([-0.0015])


def test_the_time_of_a_step_is_split_where_the_same_cell_was_measured_without_exchange_or_had_its_bytes_counted():
    counted = make_record("cobalt_replicas", 2, (6.0,) * 3, wire_bytes_per_step=5.0)
    records = [launch(5.0), alone(3.0), alone(3.0), launch(9.0, workers=4), launch(7.0, "amber_sharded"), counted]
    records += [launch(2.0, workers=1), alone(2.0, workers=1), launch(2.0, "cobalt_replicas", task={"batch": 16})]
    split = material_of(*records).exposed
    columns = ["workers", "step_seconds", "step_n", "compute_seconds", "compute_n", "exposed_seconds", "wire_bytes"]
    assert [*split["strategy"]] == ["amber_ring", "cobalt_replicas"]
    assert split[columns].to_numpy(float).tolist() == [
        pytest.approx([2, 0.005, 1, 0.003, 2, 0.002, math.nan], nan_ok=True),
        pytest.approx([2, 0.006, 1, math.nan, 0, math.nan, 5.0], nan_ok=True),
    ]
    # Two workers send the 17,226 parameters twice, as float32.
    assert split["formula_bytes"].tolist() == [137_808] * 2
    assert split["formula"].str.contains("ring all-reduce").all()
    assert split["formula_source"].str.contains("2009").all()


def test_launches_of_another_configuration_in_the_same_round_take_no_part():
    others = [STRONG, {"task": {"preset": "pathway"}}, {"task": {"batch": 32}}]
    others += [{"compiled": True}, {"workers": 4}, {"name": "amber_library"}]
    # Paired with another's launch without exchange, 2 ms of exposed communication would be -16.
    theirs = [launch(21.0, **facts) for facts in others]
    theirs += [launch(20.0, **facts, exchange=False) for facts in others]
    records = [base(2.0), launch(4.0), *theirs, alone(2.0)]
    material = material_of(*records, rounds=[1] * len(records))
    ours = material.parts[material.parts["measured_seconds"] == 0.004]
    assert parts(ours) == {"computing": 0.0, "slowest rank": 0.0, "exchange": 2.0, "the rest": 0.0}
    pairs = sorted(zip(material.exposed["step_seconds"], material.exposed["exposed_seconds"], strict=True))
    assert pairs == [pytest.approx((0.004, 0.002)), *[pytest.approx((0.021, 0.001))] * len(others)]
    # Without a launch of its own without exchange it has no exposed communication, whatever the others have.
    lonely = table(*records[:-1])
    assert decomposition.EXCHANGE not in lonely.loc[lonely["measured_seconds"] == 0.004, "part"].tolist()


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
    records = [record for time in times for record in (base(2.0), launch(3.0 + time), alone(2.0))]
    [row] = decomposition.largest(table(*records)).to_dict("records")
    assert (row["part"], bool(row["share"] > 0.1), bool(row["is_limit"])) == ("exchange", True, False)


@pytest.mark.parametrize(
    ("times", "verdicts", "numbers"),
    [
        # 64 rows times 0.8 ms over 2 ms (2 - 1.2).
        ((2.0, 3.2, 2.4), ("surely pays", "pays", "pays"), (1.25, 1.2, 1 / 3, 32)),
        # 1.0 / 3.2 is less than 1, but two workers take 4.2 ms for what the base does in 4: contention explains it.
        ((2.0, 4.2, 3.2), ("surely doesn't", "pays", "doesn't pay"), (4 / 4.2, 1.6, 1 / 3.2, 80)),
    ],
)
def test_whether_it_pays_is_worked_out_by_hand_from_launches_of_the_same_round(times, verdicts, numbers):
    [row] = material_of(*rounds(*times)).exposed.itertuples()
    assert (row.batch, row.workers, row.ratio_n) == (64, 2, 6)
    assert (row.verdict, row.by_formula, row.with_contention) == verdicts
    assert (row.ratio, row.contention, row.sync_share, row.fewest_batch) == pytest.approx(numbers)
    assert [row.ratio_low, row.ratio_high, row.contention_low, row.contention_high] == pytest.approx(
        [row.ratio, row.ratio, row.contention, row.contention]
    )
    # T_sync grows with the round, by up to 9 %.
    exposed = (times[1] - times[2]) / 1000
    assert (row.exposed_seconds_low, row.exposed_seconds_high) == pytest.approx((exposed, exposed * 1.09))


@pytest.mark.parametrize(
    "records",
    [
        (),
        (base(2.0), launch(2.5, workers=1)),
        (base(2.0, **STRONG), launch(1.5, **STRONG)),
        (launch(3.0), launch(2.5, exchange=False)),
        (base(2.0), launch(3.0, "amber_parts")),
        (launch(2.0, "cobalt_single", 1), launch(3.0, "cobalt_servers")),
    ],
    ids=["nothing", "one worker", "strong scaling", "no base", "parts of one model", "asynchronous"],
)
def test_what_the_formula_is_not_about_has_no_row(records):
    assert material_of(*records).exposed["verdict"].isna().all()


def sentences(*records: Record, **more: object) -> list[str]:
    return items(words.section(material_of(*records, **more)))


def test_the_largest_part_of_each_strategy_is_named_with_its_share_and_what_would_remove_it():
    exchanging, computing = rounds(2.0, 4.0, 2.2), rounds(2.0, 4.0, 3.9, name="amber_library")
    [ring, library, *_] = sentences(*exchanging, *computing)[::-1]
    assert ring.startswith("amber_ring with 2 workers: exchange takes 45 % of the step (1.8")
    assert "a larger batch per worker, fewer bytes (compression) or a faster link" in ring
    assert library.startswith("amber_library with 2 workers: computing takes 4")
    assert "fewer workers on this machine" in library


@pytest.mark.parametrize(
    ("step", "computing", "sentence"),
    [
        # 64 rows times 1 ms over 2 ms (2 - 1.6).
        (4.2, 3.2, "It surely doesn't pay; by extrapolation it would from 80 rows per worker on."),
        (9.4, 5.0, "It surely doesn't pay, with no batch, since contention is as large as the number of workers."),
        (3.2, 2.9, "It surely pays."),
        (2.0, 2.0, "No part beyond the ideal counts in the steps of amber_ring at 2."),
    ],
)
def test_whether_it_pays_is_told_with_the_batch_from_which_on_it_would(step, computing, sentence):
    assert sentence in sentences(*rounds(2.0, step, computing, n=1) * 6)[0]


@pytest.mark.parametrize(
    ("milliseconds", "phrase"), [(0.5, "take longer beside computing"), (9.0, "a part of them is hidden")]
)
def test_what_a_replay_of_the_messages_tells_stands_beside_the_exchange(milliseconds, phrase):
    records = rounds(2.0, 4.0, 2.2)
    stems = [name for name, record in named(*records).items() if record.strategy == "amber_ring" and record.exchange]
    assert phrase in sentences(*records, replays=replays(stems, milliseconds))[0]


def test_who_has_no_bar_is_named_with_the_reason():
    servers, lonely = launch(4.0, "cobalt_servers"), launch(4.0, "cobalt_replicas")
    said = sentences(base(), launch(4.0), servers, lonely, unfinished("failed", "It broke.", "amber_library"))
    assert "Left out for asynchronous updates, which belong to one worker each: cobalt_servers." in said
    assert "Left out, since cobalt_single wasn't measured on the same work: cobalt_replicas at 2." in said


@pytest.mark.parametrize(
    "records",
    [(), (base(), launch(1.0, "amber_single", 1, compiled=True)), (launch(4.0),)],
    ids=["nothing", "what distributes nothing", "no base"],
)
def test_without_a_strategy_beside_its_base_there_is_no_figure(records):
    blocks = words.section(material_of(*records))
    assert "nothing tells how long a step should ideally take." in blocks[0]["text"]
    assert "figure" not in {block["kind"] for block in blocks}


def test_of_too_many_bars_the_largest_world_with_a_core_each_is_drawn_over_the_fastest_links(monkeypatch):
    monkeypatch.setattr(words, "_MOST_BARS", 5)
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    for workers, flag in ((1, False), (2, False), (4, True)):
        for name in ("amber_0", "amber_1"):
            records.append(over_hosts(name, workers, 1, (3.0 + workers,) * 3, oversubscribed=flag))
    records += [over_hosts("amber_0", milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    figure = first(words.section(material_of(*records)), "figure")
    assert figure["caption"].endswith("Only 2 workers; the table \u201cparts\u201d has all.")
    [shown, *_] = figure["draw"].args
    assert {*shown["strategy"]} == {"amber_0", "amber_1", "amber_0, 2 hosts, 100 Mbit/s"}
    assert {*shown["workers"]} == {2}
