"""What the report says of what a step takes beyond the ideal one."""

import pandas as pd
import pytest

from common.records.training import Record
from reports.blocks import DASH
from reports.tables.decomposition import parts
from reports.words import decomposition
from tests.reports.drawings import drawings_of
from tests.reports.materials import material_of
from tests.reports.records import named, over_hosts, unfinished
from tests.reports.steps import alone, base, cells_and_steps, launch, plan_of

MINUS = "\N{MINUS SIGN}"


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return parts(*cells_and_steps(named(*records), plan))


def section(*records: Record) -> tuple[list[dict], dict]:
    material = material_of(*records)
    story = decomposition.story(material)
    return [*story, *decomposition.tables(material)], drawings_of(story)


def tables_of(blocks: list[dict]) -> list[dict]:
    return [block for block in blocks if block["kind"] == "table"]


def said_in(blocks: list[dict]) -> str:
    return " ".join(" ".join(block.get("items", [block.get("text", "")])) for block in blocks)


def test_a_rest_beyond_two_per_cent_is_named_with_its_share():
    # Computing takes 0, 3 and 1 ms, exchange 1, 1 and 3: in the middle 1 and 1, where the step takes 4 beyond the base.
    rounds = [(2.0, 2.0, 3.0), (2.0, 5.0, 6.0), (9.0, 10.0, 13.0)]
    records = [each for first, second, third in rounds for each in (base(first), alone(second), launch(third))]
    [shown] = tables_of(section(*records)[0])
    assert shown["rows"][0][-3] == "2.00\n(33.3 %)"


def test_a_base_of_other_rounds_is_marked_in_the_table():
    records = [base(2.0), *(launch(4.0) for _ in range(7))]
    material = material_of(*records, plan=plan_of(records, [*range(8)]))
    [shown] = tables_of(decomposition.tables(material))
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


def test_every_regime_has_a_table_and_the_first_one_a_figure():
    weak, strong = [base(2.0), launch(4.0)], [base(2.0, strong=True), launch(1.5, strong=True)]
    blocks, drawings = section(*weak, *strong)
    assert [block["text"] for block in blocks if block["kind"] == "heading"] == [
        *["Why not N times", "From the ideal step to the measured one", "digits weak", "digits strong"]
    ]
    assert [shown["rows"][0][2] for shown in tables_of(blocks)] == ["2.00", "1.00"]
    assert [*drawings] == ["scaling"]
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert "digits weak" in figure["caption"]


def test_of_too_many_bars_the_largest_world_with_a_core_each_is_drawn(monkeypatch):
    monkeypatch.setattr(decomposition, "_MOST_BARS", 5)
    names = [f"amber_{index:02d}" for index in range(2)]
    records = [launch(3.0 + workers, name, workers) for name in names for workers in (1, 2, 4)]
    blocks, drawings = section(base(), *records)
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert figure["caption"].endswith("Only 2 workers; the table has all.")
    drawn = drawings["scaling"]().decode()
    assert ">2 workers<" in drawn
    assert ">1 worker<" not in drawn
    assert len(tables_of(blocks)[0]["rows"]) == 6


def test_the_bars_are_those_over_the_fastest_links():
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    records += [over_hosts(milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    [figure] = [block for block in decomposition.story(material_of(*records)) if block["kind"] == "figure"]
    assert set(figure["draw"].args[0]["strategy"]) == {"amber_ring, 2 hosts, 100 Mbit/s"}
    assert "Of several links the fastest; the table has all." in figure["caption"]
