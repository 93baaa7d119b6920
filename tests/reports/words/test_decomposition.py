"""What the report says of what a step takes beyond the ideal one."""

import pytest

from common.records.training import Record
from reports.words import decomposition
from tests.reports.drawings import drawings_of
from tests.reports.materials import material_of
from tests.reports.records import over_hosts, unfinished
from tests.reports.steps import base, launch


def section(*records: Record) -> tuple[list[dict], dict]:
    material = material_of(*records)
    story = decomposition.story(material)
    return story, drawings_of(story)


def said_in(blocks: list[dict]) -> str:
    return " ".join(" ".join(block.get("items", [block.get("text", "")])) for block in blocks)


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
    monkeypatch.setattr(decomposition, "_MOST_BARS", 5)
    names = [f"amber_{index:02d}" for index in range(2)]
    records = [launch(3.0 + workers, name, workers) for name in names for workers in (1, 2, 4)]
    blocks, drawings = section(base(), *records)
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert figure["caption"].endswith("Only 2 workers; the table has all.")
    drawn = drawings["scaling"]().decode()
    assert ">2 workers<" in drawn
    assert ">1 worker<" not in drawn


def test_the_bars_are_those_over_the_fastest_links():
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    records += [over_hosts(milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    [figure] = [block for block in decomposition.story(material_of(*records)) if block["kind"] == "figure"]
    assert set(figure["draw"].args[0]["strategy"]) == {"amber_ring, 2 hosts, 100 Mbit/s"}
    assert "Of several links the fastest; the table has all." in figure["caption"]
