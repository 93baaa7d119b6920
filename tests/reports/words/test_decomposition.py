"""What the report says of what a step takes beyond the ideal one, and of what would make it shorter."""

import pytest

from common.records.training import Record
from reports.words import decomposition
from tests.reports.materials import material_of, replay, replayed
from tests.reports.pieces import drawings_of, items
from tests.reports.records import named, over_hosts, unfinished
from tests.reports.steps import base, launch, rounds


def section(*records: Record) -> tuple[list[dict], dict]:
    blocks = decomposition.section(material_of(*records))
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
        assert word in items(decomposition.section(material_of(*records, replays=replays)))[0]


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
    assert figure["caption"].endswith("Only 2 workers; the table \u201cparts\u201d has all.")
    drawn = drawings["steps"]().decode()
    assert ">2 workers<" in drawn
    assert ">1 worker<" not in drawn


def test_the_bars_are_those_over_the_fastest_links():
    records = [over_hosts("amber_single", 1, 1, (2.0,) * 3)]
    records += [over_hosts(milliseconds=(9.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    [figure] = [block for block in decomposition.section(material_of(*records)) if block["kind"] == "figure"]
    assert set(figure["draw"].args[0]["strategy"]) == {"amber_ring, 2 hosts, 100 Mbit/s"}
    assert "Of several links the fastest." in figure["caption"]
