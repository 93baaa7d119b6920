"""What a step takes beyond the ideal one, against parts worked out by hand, and what the report says of them."""

import dataclasses

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from common.contract.task import PRESETS
from common.records.training import Record
from reports import document, scaling, summaries
from reports.blocks import DASH
from reports.material import regime_names
from reports.results import Results
from tests.changes import changed
from tests.reports.pieces import answers, headings
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, unfinished

MINUS = "\N{MINUS SIGN}"

_CEILINGS = ["regime", "strategy", "workers", "products_seconds"]


def launch(
    milliseconds: float,
    name: str = "amber_ring",
    workers: int = 2,
    *,
    waits: float | None = None,
    strong: bool = False,
    rank_factors: tuple[float, ...] | None = None,
    **options: object,
) -> Record:
    """A launch of so many milliseconds a step, of which it `waits` so many for its rows."""
    lengths = {"steps": 60, "warmup_steps": 20, "window_steps": 10}
    task = dataclasses.replace(PRESETS["digits"], scaling="strong" if strong else "weak", workers=workers, **lengths)
    known = {"task": task, "options": MadeUpOptions(**options), "rank_factors": rank_factors}
    record = make_record(name, workers, (milliseconds,) * 3, **known)
    if waits is None:
        return record
    waited = [structs.replace(window, input_seconds=waits * window.steps / 1000) for window in record.windows]
    return changed(record, windows=waited)


def base(milliseconds: float = 2.0, **facts: object) -> Record:
    return launch(milliseconds, "amber_single", 1, **facts)


def alone(milliseconds: float, name: str = "amber_ring", **facts: object) -> Record:
    return launch(milliseconds, name, exchange=False, **facts)


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    launches = summaries.launches(named(*records))
    return scaling.table(summaries.cells(launches), launches, plan)


def plan_of(records: list[Record], rounds: list[int]) -> pd.DataFrame:
    """A plan that has these launches, by the names that `named` gives them, in these rounds."""
    return pd.DataFrame({"launch": list(named(*records)), "repetition": rounds})


def parts(found: pd.DataFrame, strategy: str = "amber_ring", workers: int = 2) -> dict[str, object]:
    """The parts of one cell in milliseconds; they add up to what is measured beyond the ideal."""
    own = found[(found["strategy"] == strategy) & (found["workers"] == workers)]
    beyond = own["measured_seconds"].iloc[0] - own["ideal_seconds"].iloc[0]
    assert own["seconds"].sum() == pytest.approx(beyond, abs=1e-12)
    return pytest.approx(dict(zip(own["part"], 1000 * own["seconds"], strict=True)), abs=1e-9)


def section(*records: Record) -> tuple[list[dict], dict]:
    launches = summaries.launches(named(*records))
    cells, drawings = summaries.cells(launches), {}
    names = regime_names(cells)
    shown = {name: names[name] for name in summaries.regimes(launches)}
    found, nothing = scaling.table(cells, launches, None), pd.DataFrame(columns=_CEILINGS)
    story = scaling.story(found, cells, nothing, shown, drawings)
    return [*story, *scaling.tables(found, cells, shown)], drawings


def tables_of(blocks: list[dict]) -> list[dict]:
    return [block for block in blocks if block["kind"] == "table"]


def said_in(blocks: list[dict]) -> str:
    return " ".join(" ".join(block.get("items", [block.get("text", "")])) for block in blocks)


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


def test_the_base_is_of_the_other_scaling_where_it_was_measured_in_that_alone():
    found = table(base(4.0), launch(3.5, strong=True), alone(2.5, strong=True))
    assert parts(found) == {"computing": 0.5, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}


@pytest.mark.parametrize(("of_base", "rows"), [(0.1, 0.3), (None, 0.4)])
def test_rows_are_what_is_waited_for_them_longer_than_in_the_base(of_base, rows):
    found = table(base(2.0, waits=of_base), launch(4.0, waits=0.2), alone(3.0, waits=0.4))
    assert parts(found) == {
        **{"computing": 1.0 - rows, "rows": rows, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}
    }


def test_under_strong_scaling_the_base_waits_for_as_many_rows_as_a_worker():
    strong = {"strong": True}
    found = table(base(4.0, waits=0.2, **strong), launch(3.5, **strong), alone(2.5, waits=0.3, **strong))
    assert parts(found) == {**{"computing": 0.3, "rows": 0.2, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}}


def test_one_worker_of_a_strategy_computes_and_waits_for_rows_alone():
    found = table(base(2.0, waits=0.1), launch(2.5, workers=1, waits=0.2))
    assert parts(found, workers=1) == {"computing": 0.4, "rows": 0.1, "the rest": 0.0}


def test_what_distributes_nothing_has_no_parts():
    assert table(base(), launch(1.0, "amber_single", 1, compiled=True)).empty
    assert table().empty


def test_replicas_in_one_process_have_no_slowest_rank():
    one = {"name": "amber_threads", "rank_factors": (1.0,)}
    found = table(base(2.0), launch(4.0, **one), alone(3.0, **one))
    assert parts(found, "amber_threads") == {"computing": 1.0, "exchange": 1.0, "the rest": 0.0}


def test_without_a_launch_without_exchange_the_step_is_not_divided():
    found = table(base(2.0), launch(4.0, waits=0.5))
    assert parts(found) == {"rows": 0.5, "not divided": 1.5, "the rest": 0.0}
    text = said_in(section(base(2.0), launch(4.0))[0])
    assert "Not divided, since no launch without exchange shares a round: amber_ring at 2." in text


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


def test_launches_beside_the_plan_share_no_round():
    records = [base(2.0), launch(4.0), alone(3.0)]
    found = table(*records, plan=plan_of(records[:1], [1]))
    assert parts(found) == {"not divided": 2.0, "the rest": 0.0}
    assert not found.loc[found["part"] == "not divided", "is_paired"].any()


def test_where_the_base_is_in_some_rounds_only_those_are_compared_with_it():
    records = [base(2.0, waits=0.1), launch(4.0), launch(4.0), alone(3.0, waits=0.2), alone(9.0, waits=0.9)]
    found = table(*records, plan=plan_of(records, [1, 1, 2, 1, 2])).set_index("part")
    assert found["n"].to_dict() == {"computing": 1, "rows": 1, "slowest rank": 2, "exchange": 2, "the rest": 2}
    assert found.loc[["computing", "rows"], "seconds"].tolist() == pytest.approx([0.0009, 0.0001])


def test_a_launch_without_exchange_of_another_round_divides_nothing():
    records = [base(2.0), launch(4.0), alone(3.0)]
    assert parts(table(*records, plan=plan_of(records, [1, 1, 2]))) == {"not divided": 2.0, "the rest": 0.0}


@settings(max_examples=25, deadline=None)
@given(*[st.floats(0.5, 50.0)] * 3, st.floats(0.5, 1.0), st.floats(0.0, 0.4), st.floats(0.0, 0.4))
def test_in_one_round_the_parts_leave_no_rest(of_base, step, computing, factor, waits, base_waits):
    own = {"rank_factors": (factor, 1.0), "waits": waits}
    found = table(base(of_base, waits=base_waits), launch(step, waits=waits), alone(computing, **own))
    [rest] = found.loc[found["part"] == "the rest", "seconds"]
    assert abs(rest) < 1e-12
    assert found["seconds"].sum() == pytest.approx((step - of_base) / 1000, abs=1e-12)


def test_a_rest_beyond_two_per_cent_is_named_with_its_share():
    # Computing takes 0, 3 and 1 ms, exchange 1, 1 and 3: in the middle 1 and 1, where the step takes 4 beyond the base.
    rounds = [(2.0, 2.0, 3.0), (2.0, 5.0, 6.0), (9.0, 10.0, 13.0)]
    records = [each for first, second, third in rounds for each in (base(first), alone(second), launch(third))]
    assert parts(table(*records)) == {"computing": 1.0, "slowest rank": 0.0, "exchange": 1.0, "the rest": 2.0}
    [shown] = tables_of(section(*records)[0])
    assert shown["rows"][0][-3] == "2.00\n(33.3 %)"
    assert shown["notes"][0].endswith("That is in 1 of 1 rows, the largest 33.3 % (amber_ring at 2).")


def test_a_base_of_other_rounds_is_marked_in_the_table():
    records = [base(2.0), *(launch(4.0) for _ in range(7))]
    launches = summaries.launches(named(*records))
    cells = summaries.cells(launches)
    found = scaling.table(cells, launches, plan_of(records, [*range(8)]))
    [shown] = tables_of(scaling.tables(found, cells, regime_names(cells)))
    assert shown["rows"] == [["amber_ring", "2", "2.00", "2.00*", "0.00", "4.00\n(4.00 to 4.00)", "7"]]
    assert any(note.startswith("* No launch of the base shares a round") for note in shown["notes"])


def test_the_table_has_ideal_parts_and_measured_step_with_intervals_and_rounds():
    records = [kind(time + index) for index in range(6) for kind, time in ((base, 2.0), (launch, 4.0), (alone, 2.4))]
    [shown] = tables_of(section(*records, launch(2.5, workers=1), launch(9.0, workers=4))[0])
    assert shown["columns"] == [
        *["strategy", "workers", "ideal, ms", "computing", "slowest rank", "exchange", "not divided", "the rest"],
        *["measured, ms", "n"],
    ]
    assert shown["rows"] == [
        ["amber_ring", "1", "4.50", "0.50", DASH, DASH, DASH, f"{MINUS}2.50\n({MINUS}100.0 %)", "2.50", "1"],
        [
            *["amber_ring", "2", "4.50", "0.40\n(0.40 to 0.40)", "0.00\n(0.00 to 0.00)", "1.60\n(1.60 to 1.60)", DASH],
            *["0.00", "6.50\n(4.00 to 9.00)", "6"],
        ],
        ["amber_ring", "4†", "4.50", DASH, DASH, DASH, "7.00", f"{MINUS}2.50\n({MINUS}27.8 %)", "9.00", "1"],
    ]
    assert any(note.startswith("† more threads") for note in shown["notes"])
    assert "No interval is given for fewer than 6 rounds." in shown["notes"]
    assert not any(note.startswith("*") for note in shown["notes"])


def test_what_computes_faster_than_its_base_is_said_to():
    records = [base(2.0), launch(2.5), alone(1.5)]
    assert parts(table(*records)) == {"computing": -0.5, "slowest rank": 0.0, "exchange": 1.0, "the rest": 0.0}
    assert "Computing is below zero, so faster than the base's: amber_ring at 2." in said_in(section(*records)[0])


def test_who_has_no_bar_is_named_with_the_reason():
    servers, lonely = launch(4.0, "cobalt_servers"), launch(4.0, "cobalt_replicas")
    blocks, _ = section(base(), launch(4.0), servers, lonely, unfinished("failed", "It broke.", "amber_library"))
    assert "Left out for asynchronous updates, which belong to one worker each: cobalt_servers." in said_in(blocks)
    reason = "Left out, since cobalt_single wasn't measured on the same work: cobalt_replicas at 2."
    assert reason in said_in(blocks)
    assert [row[0] for row in tables_of(blocks)[0]["rows"]] == ["amber_ring"]


@pytest.mark.parametrize("records", [(), (base(),), (launch(4.0),), (unfinished("failed", "It broke."),)])
def test_without_a_strategy_beside_its_base_there_is_no_table(records):
    blocks, drawings = section(*records)
    assert "nothing tells how long a step should ideally take." in said_in(blocks)
    assert (tables_of(blocks), drawings) == ([], {})


def test_of_many_undivided_or_faster_strategies_it_is_said_how_many_they_are():
    names = [f"amber_{index}" for index in range(7)]
    records = [each for name in names for each in (launch(4.0, name), launch(1.0, name, 1))]
    said = said_in(section(base(), *records)[0])
    assert "shares a round: 7 of 14 rows of the table." in said
    assert "faster than the base's: 7 of 14 rows of the table." in said


def test_every_regime_has_a_table_and_the_first_one_a_figure():
    weak, strong = [base(2.0), launch(4.0)], [base(2.0, strong=True), launch(1.5, strong=True)]
    blocks, drawings = section(*weak, *strong)
    assert [block["text"] for block in blocks if block["kind"] == "heading"] == [
        *["Why not N times", "From the ideal step to the measured one", "digits weak", "digits strong"]
    ]
    assert [shown["rows"][0][2] for shown in tables_of(blocks)] == ["2.00", "1.00"]
    assert [*drawings] == ["scaling.svg"]
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert "digits weak" in figure["caption"]


def test_of_too_many_bars_the_largest_world_without_crowding_is_drawn():
    names = [f"amber_{index:02d}" for index in range(14)]
    records = [launch(3.0 + workers, name, workers) for name in names for workers in (1, 2, 4)]
    blocks, drawings = section(base(), *records)
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert figure["caption"].endswith("Only 2 workers; the table has all.")
    drawn = drawings["scaling.svg"]().decode()
    assert ">2 workers<" in drawn
    assert ">1 worker<" not in drawn
    assert len(tables_of(blocks)[0]["rows"]) == 42


def test_what_limits_each_strategy_is_its_largest_part():
    found = table(base(2.0), launch(4.0), alone(2.4), launch(2.02, "amber_library"), launch(3.0, workers=4))
    assert scaling.limits(found) == {
        ("amber_library", 2): "no part surely takes 2 % of the step (2.02 ms, ideally 2.00)",
        ("amber_ring", 2): "exchange takes 40 % of the step (1.60 of 4.00 ms)",
        ("amber_ring", 4): "exchange and slower computing, not told apart, take 33 % of the step (1.00 of 3.00 ms)",
    }
    assert scaling.limits(table()) == {}


def test_a_part_whose_interval_reaches_down_to_zero_limits_nothing():
    times = (-1.0, -0.9, 1.0, 0.9, 1.1, 0.8)
    records = [record for time in times for record in (base(2.0), launch(3.0 + time), alone(2.0))]
    [said] = scaling.finding(table(*records), table(*records)["regime"].iloc[0])
    assert said.startswith("No part surely takes 2 % of the step with 2 workers of amber_ring (3.85 ms, ideally 2.00)")


def finding(*records: Record) -> list[str]:
    launches = summaries.launches(named(*records))
    [first, *_] = summaries.regimes(launches)
    return scaling.finding(table(*records), first)


def test_the_first_page_says_what_limits_the_largest_world_without_crowding():
    world = [base(2.0), launch(4.0), alone(2.4), launch(5.0, "amber_library"), alone(2.2, "amber_library")]
    others = [launch(9.0, workers=4), launch(9.0, workers=1)]
    exchange = (
        "With 2 workers exchange takes 56 % of the step with amber_library (2.80 of 5.00 ms) and 40 % with amber_ring "
        "(1.60 of 4.00 ms)"
    )
    assert finding(*world, *others) == [f"{exchange}; n = 1."]
    slow, ideal = [launch(4.0, "amber_sharded"), alone(3.92, "amber_sharded")], launch(2.02, "amber_parts")
    assert finding(*world, *slow, ideal) == [
        f"{exchange}; slower computing takes 48 % of the step with amber_sharded (1.92 of 4.00 ms); n = 1.",
        "No part surely takes 2 % of the step with 2 workers of amber_parts (2.02 ms, ideally 2.00); n = 1.",
    ]


def test_of_many_strategies_the_first_page_names_the_ends():
    records = [base(2.0)]
    for index in range(4):
        records += [launch(4.0 + index, f"amber_{index}"), alone(2.0, f"amber_{index}")]
    assert finding(*records) == [
        "With 2 workers exchange takes from 71 % of the step with amber_3 (5.00 of 7.00 ms) down to 50 % with amber_0 "
        "(2.00 of 4.00 ms), of 4 strategies; n = 1."
    ]


@pytest.mark.parametrize("records", [(base(),), (base(), launch(9.0, workers=4)), (base(), launch(2.5, workers=1))])
def test_without_several_workers_on_cores_of_their_own_the_first_page_says_nothing_of_limits(records):
    assert finding(*records) == []


def test_the_document_has_the_story_its_tables_and_its_finding_on_the_first_page(tmp_path):
    records = [base(2.0), launch(4.0), alone(2.4)]
    content, drawings = document.compose(Results(tmp_path, named(*records), None))
    found = headings(content["blocks"])
    assert found.index("Why not N times") == found.index("Where the time goes") + 1
    assert found.index("Tables") < found.index("From the ideal step to the measured one")
    assert "scaling.svg" in drawings
    said = "With 2 workers exchange takes 40 % of the step with amber_ring (1.60 of 4.00 ms); n = 1."
    assert said in answers(content)["What limits it"]


def test_where_exchange_takes_the_time_its_link_is_named():
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3), over_hosts(milliseconds=(9.0,) * 3)]
    records.append(over_hosts(milliseconds=(3.0,) * 3, options=MadeUpOptions(exchange=False)))
    launches = summaries.launches(named(*records))
    found = scaling.table(summaries.cells(launches), launches, None)
    assert scaling.finding(found, found["regime"].iloc[0]) == [
        "With 2 workers exchange takes 67 % of the step with amber_ring, 2 hosts, 100 Mbit/s (6.00 of 9.00 ms over a "
        "link of 95.6 Mbit/s); n = 1."
    ]


def test_the_bars_are_those_over_the_fastest_links(tmp_path):
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    records += [over_hosts(milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    content, drawings = document.compose(Results(tmp_path, named(*records), None))
    assert set(drawings["scaling.svg"].args[0]["strategy"]) == {"amber_ring, 2 hosts, 100 Mbit/s"}
    [caption] = [block["caption"] for block in content["blocks"] if block.get("file") == "scaling.svg"]
    assert "Of several links the fastest; the table has all." in caption
