"""The first page: answers that are true for any records, and one figure."""

import pandas as pd
import pytest

from common.records.manifest import Differences
from common.records.training import Record
from common.sessions import calibration
from reports import document
from reports.tables import standings
from reports.tables.results import Results
from reports.words import first_page
from tests.reports.pieces import answers
from tests.reports.probes import AS_TRAINED, probe
from tests.reports.records import certified, make_record, named, unfinished, varied


def figure(tmp_path, *records: Record) -> dict:
    """The first figure of the document."""
    blocks = document.compose(Results(tmp_path, named(*records), None))[0]["blocks"]
    return next(block for block in blocks if block["kind"] == "figure")


def page(tmp_path, *records: Record, **facts: object) -> dict[str, list[str]]:
    return answers(document.compose(Results(tmp_path, named(*certified(tmp_path, *records)), None, **facts))[0])


def rounds(name: str, milliseconds: float, workers: int = 2, n: int = 6, **facts: object) -> list[Record]:
    """Launches of several rounds, which take a little longer from one to the next."""
    return [make_record(name, workers, (milliseconds * (1 + index / 100),) * 3, **facts) for index in range(n)]


def test_it_asks_what_to_take_what_limits_it_whether_it_is_the_same_how_sure_and_what_next(tmp_path):
    told = page(tmp_path, *rounds("amber_single", 2.0, 1), *rounds("amber_ring", 3.0), *rounds("amber_library", 4.0))
    assert [*told] == ["Which to take", "What limits it", "The same maths", "How sure", "What next"]
    assert "Take amber_ring with 2 workers: the fastest of 2" in told["Which to take"][0]
    assert told["The same maths"] == ["3 of 3 compared settings follow the float64 oracle."]


def test_the_fastest_of_several_workers_stands_beside_the_fastest_base(tmp_path):
    alone, several = make_record("amber_single", 1, (2.0,) * 3), make_record("amber_ring", 2, (2.5,) * 3)
    said = page(tmp_path, alone, several)["Which to take"][-1]
    assert said == (
        "The fastest with several, amber_ring at 2, has 1.60 times the rate of amber_single, the fastest without "
        "distribution (32,000 samples/s); medians of n = 1 and 1, not tested."
    )
    slow = page(tmp_path, alone, make_record("amber_ring", 2, (5.0,) * 3))["Which to take"][-1]
    assert "has 0.80 times the rate of amber_single" in slow
    assert "(32,000 samples/s), so distributing doesn't pay here;" in slow


@pytest.mark.parametrize("others", [(), (make_record("amber_ring", 4),), (varied("amber_ring", 2, rounding="half"),)])
def test_oversubscribed_worlds_and_other_maths_are_no_gain(tmp_path, others):
    said = page(tmp_path, make_record("amber_single"), *others)["Which to take"]
    assert not [sentence for sentence in said if sentence.startswith("The fastest with several")]


def test_the_first_step_is_told_apart_from_the_rates(tmp_path):
    slow = make_record("amber_library", 2, time_to_first_step_s=6.0)
    said = page(tmp_path, make_record("amber_ring", 2), slow)["What limits it"]
    assert said == [
        "The first step is done from 1.50 s after its start (amber_ring, n = 1) to 6.00 s (amber_library, n = 1) with "
        "2 workers, which is no part of these rates."
    ]


def test_what_failed_deviates_or_lacks_comes_first_of_what_to_do(tmp_path):
    wrong = make_record("amber_broken", 2, losses=[loss * 1.01 for loss in make_record(workers=2).losses])
    told = page(tmp_path, make_record("amber_ring", 2), wrong, unfinished("failed", "It broke."))
    assert told["What next"][:2] == [
        "Read why 1 launch failed (\u201cHow every launch ended\u201d); the same command tries them again.",
        "Don't take amber_broken at 2 before the deviation from the oracle is explained.",
    ]
    records = named(make_record("amber_ring", 2))
    about = {"strategy": "amber_ring", "label": "", "preset": "digits", "scaling": "weak", "workers": 2}
    plan = pd.DataFrame({"launch": [*records, "another"], "repetition": [1, 2], "order_seed": 1})
    results = Results(tmp_path, records, plan.assign(**about, exchange=True, purpose="throughput"))
    [first, *_] = answers(document.compose(results)[0])["What next"]
    assert first == "Start the same command again: it makes the launch that the plan still lacks."


def test_a_setting_that_surely_saves_time_is_recommended_with_its_interval(tmp_path):
    plain, quick = (
        rounds("cobalt_replicas", 4.0),
        [varied("cobalt_replicas", 2, (2.0 * (1 + index / 100),) * 3, compiled=True) for index in range(6)],
    )
    [said] = [each for each in page(tmp_path, *plain, *quick)["What next"] if "Settings" in each]
    assert said == (
        "Settings that save time by their own interval: cobalt_replicas, compiled at 2: a step takes 0.50 times as "
        "long as with cobalt_replicas (0.50 to 0.50, n = 6 pairs)."
    )
    few = page(tmp_path, *plain[:5], *quick[:5])["What next"]
    assert not [each for each in few if "Settings" in each]


def test_what_computes_the_products_faster_is_recommended_for_a_try(tmp_path):
    probes = (probe(ways={AS_TRAINED: 2.0, "sideways": 1.0}), probe("cobalt", ways={AS_TRAINED: 2.0, "upwards": 1.99}))
    said = page(tmp_path, make_record("amber_single"), ceilings=probes)["What next"]
    assert [each for each in said if "products" in each] == [
        "amber's products ran at 5 GFLOP/s in place of 3 (sideways) (n = 1 probe each): worth a try in a training loop."
    ]


def test_oversubscribed_worlds_ask_for_a_machine_with_more_cores(tmp_path):
    said = page(tmp_path, make_record("amber_ring", 2), make_record("amber_ring", 4))
    assert (
        "What more workers than this machine's 2 cores are worth only a machine with more cores can tell."
        in (said["What next"])
    )


def test_tests_that_were_not_calibrated_ask_for_it(tmp_path):
    records = [*rounds("amber_ring", 3.0), *rounds("amber_library", 4.0)]
    asked = "nox -s calibrate tells whether these tests keep their promises on this machine."
    assert asked in page(tmp_path, *records)["What next"]
    (tmp_path / calibration.FILE).touch()
    results = Results(tmp_path, named(*certified(tmp_path, *records)), None)
    material = document.gather(results)
    assert asked not in first_page._next_steps(material, results, material.cells["regime"].iloc[0])


def test_a_folder_without_any_measurement_has_answers_all_the_same(tmp_path):
    told = page(tmp_path, unfinished("failed", "It broke."), left_out={"amber_library": 12.0})
    assert told["Which to take"] == ["No launch ended ok with a measurement, so there is no speed to compare."]
    assert told["The same maths"] == ["No launch could be compared with the oracle."]
    assert "The time didn't suffice for amber_library (--minutes 12 would do)." in told["How sure"]
    assert [*told][-1] == "What next"


def test_of_very_many_strategies_the_fastest_are_drawn_and_the_caption_says_so(tmp_path):
    records = [make_record(f"amber_{index:02d}", 2, (2.0 + index,) * 3) for index in range(standings.MOST_ROWS + 2)]
    shown = figure(tmp_path, *records)
    assert shown["caption"].endswith(f" The fastest {standings.MOST_ROWS} of 14; the tables have all.")
    assert "2 workers: from amber_11 with 9,846 to amber_00 with 64,000 samples per second" in shown["alt"]
    assert "2 workers: amber_00 with 64,000" in figure(tmp_path, records[0])["alt"]


def test_the_sentence_and_the_table_come_first_and_the_figure_says_what_is_oversubscribed(tmp_path):
    records = [make_record("amber_ring", 2), make_record("amber_ring", 4)]
    blocks = document.compose(Results(tmp_path, named(*records), None))[0]["blocks"]
    kinds = ["heading", "headline", "text", "table", "figure", "answers", "contents"]
    assert [block["kind"] for block in blocks[:7]] == kinds
    assert "Hollow, on grey: more threads than cores." in blocks[4]["caption"]
    assert "more threads" not in figure(tmp_path, records[0])["caption"]


def test_how_many_cautions_there_are_is_said(tmp_path):
    few = page(tmp_path, make_record("amber_ring", 2))["How sure"]
    assert few[-1] == "2 more things make some numbers less certain: see \u201cCautions\u201d."
    both = page(tmp_path, make_record("amber_ring", 4))["How sure"]
    assert both[-1].startswith("3 more things make some numbers")


def test_the_last_lines_are_three_on_certainty_and_two_commands(tmp_path):
    records = [*rounds("amber_ring", 3.0), *rounds("amber_library", 4.0)]
    [sure, following] = ending(tmp_path, *records)
    assert (sure["question"], len(sure["items"])) == ("How sure", 3)
    assert following["items"] == [
        "nox -s calibrate tells whether these tests keep their promises on this machine.",
        "nox -s amber_ring: trains with it; -- --help lists its options.",
    ]
    [_, following] = ending(tmp_path, *records[:5], *records[6:11])
    assert following["items"][0].startswith("nox -s compare -- --repetitions 6: ")


def test_what_is_missing_and_which_files_differ_stand_on_the_first_page_as_well(tmp_path):
    refused = unfinished("unsupported", "It has no ring: install one.", "amber_library")
    changed = Differences(exists=True, changed=("amber_ring-0.json",))
    [sure, *_] = ending(tmp_path, *rounds("amber_ring", 3.0), refused, differences=changed)
    assert sure["items"][0] == "amber_ring-0.json differs from what its launch left."
    assert sure["items"][-1] == "Not compared: amber_library. It has no ring: install one."


def ending(tmp_path, *records: Record, **facts: object) -> list[dict]:
    content = document.compose(Results(tmp_path, named(*certified(tmp_path, *records)), None, **facts))[0]
    return next(block for block in content["blocks"] if block["kind"] == "answers")["answers"]
