"""What the report says of when synchronous SGD pays."""

import dataclasses
import math

import pandas as pd
import pytest

from common.errors import UserError
from common.records.training import Record
from reports.blocks import DASH
from reports.tables import paying as numbers
from reports.tables import summaries
from reports.words import paying
from tests.reports.materials import material_of
from tests.reports.records import named
from tests.reports.steps import base, cells_and_steps, launch, rounds


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    stems = named(*records)
    launches = summaries.launches(stems)
    cells, steps = cells_and_steps(stems, plan)
    return numbers.table(launches, cells, steps, stems)


def section(*records: Record) -> list[dict]:
    return paying.section(material_of(*records))


def said(*records: Record) -> list[str]:
    return of_regime(section(*records))


def of_regime(blocks: list[dict]) -> list[str]:
    """The sentences on the first regime, but the one on its sizes."""
    found = [block["items"] for block in blocks if block["kind"] == "items"]
    return found[1][1:]


def shown(*records: Record) -> list[dict[str, str]]:
    """The rows of both tables of the first regime, put together."""
    tables = [block for block in section(*records) if block["kind"] == "table"]
    halves = [[dict(zip(block["columns"], row, strict=True)) for row in block["rows"]] for block in tables]
    return [left | right for left, right in zip(*halves, strict=True)]


def test_below_six_rounds_there_is_no_interval_and_no_verdict():
    [row] = table(*rounds(2.0, 3.2, 2.4, n=5)).to_dict("records")
    assert (row["n"], row["measured"], row["formula"]) == (5, "too few rounds", "pays")
    assert all(math.isnan(row[name]) for name in ("low", "high", "sync_low", "sync_high", "contention_low"))
    [line] = shown(*rounds(2.0, 3.2, 2.4, n=5))
    assert (line["ratio"], line["95 % interval"], line["n"]) == ("1.250", DASH, "5")
    assert said(*rounds(2.0, 3.2, 2.4, n=5))[0] == (
        "Of 1 row of the table, synchronous SGD has too few rounds to tell in 1. By the formula it pays in 1 of 1."
    )


def test_where_contention_explains_why_it_does_not_pay_the_sentence_says_what_computing_would_have_to_take():
    # 1.0 / 3.2 is less than 1, but two workers take 4.2 ms for what the base does in 4 ms.
    sentences = said(*[each for _ in range(6) for each in rounds(2.0, 4.2, 3.2, n=1)])
    assert sentences[1] == (
        "amber_ring with 2 workers would pay by the formula, since T_sync / T_comp is 0.313 and less than 1, but "
        "measured it surely doesn't: the base's epoch is 0.952 times (0.952 to 0.952, n = 6) as long as its own. "
        "Contention explains it: T_comp(2) is 1.60 times T_comp(1), 3.20 ms where it pays below 3.00 ms."
    )
    [line] = shown(*[each for _ in range(6) for each in rounds(2.0, 4.2, 3.2, n=1)])
    # 64 rows times 1 ms over 2 ms (2 - 1.6).
    assert line["would pay\nfrom, rows"] == "80"


def test_a_strategy_that_computes_faster_than_its_base_may_pay_against_the_formula():
    # 1.6 / 1.5 is more than 1, but 3.1 ms are less than twice 2 ms.
    [_, sentence] = said(*[each for _ in range(6) for each in rounds(2.0, 3.1, 1.5, n=1)])
    assert sentence.startswith("amber_ring with 2 workers wouldn't pay by the formula, since T_sync / T_comp is 1.07")
    assert sentence.endswith("T_comp(2) is 0.75 times T_comp(1), 1.50 ms where it pays below 2.40 ms.")


def test_exchange_longer_than_all_computing_leaves_nothing_to_contention():
    records = [each for _ in range(6) for each in rounds(2.0, 9.4, 5.0, n=1)]
    [_, sentence] = said(*records)
    assert sentence.endswith("T_comp(2) is 2.50 times T_comp(1); T_sync alone is longer than 2 T_comp(1).")
    # Contention is more than the number of workers.
    assert [line["would pay\nfrom, rows"] for line in shown(*records)] == ["none"]


def test_what_contention_does_not_explain_is_said_not_to_be_explained():
    # In the median round two workers beside one another compute as fast as one, and by that they'd pay.
    material = material_of(*rounds(2.0, 4.2, 3.2))
    found = material.paying.assign(contention=1.0, with_contention="pays")
    [sentence] = of_regime(paying.section(dataclasses.replace(material, paying=found)))[1:]
    assert sentence.endswith(
        "Contention doesn't explain it: T_comp(2) is 1.00 times T_comp(1), and with that the formula says the same."
    )


def test_a_batch_that_was_tried_is_a_regime_with_tables_of_its_own():
    # By the account from 64 rows times 1.7 ms over 2 ms (2 - 1.6) on, which are 136: not with 64.
    might_pay = [each for _ in range(6) for each in rounds(2.0, 4.9, 3.2, n=1)]
    found = section(*might_pay, *rounds(2.5, 4.0, batch=140))
    titles = [block["text"] for block in found if block["kind"] == "heading"]
    assert sorted(titles[1:]) == ["digits weak, 140 rows", "digits weak, 64 rows"]
    tables = [block for block in found if block["kind"] == "table" and "contention" in block["columns"]]
    assert sorted(row[3:8] == [DASH] * 5 for block in tables for row in block["rows"]) == [False, True]
    assert sorted(row[-1] for block in tables for row in block["rows"]) == ["140", DASH]


def test_a_ratio_close_to_one_does_not_look_like_one():
    [line] = shown(*rounds(2.0, 4.01))
    assert (line["95 % interval"], line["measured"]) == ("0.998 to 0.998", "surely doesn't")


def test_where_formula_and_measurement_agree_nothing_is_to_be_explained():
    assert said(*rounds(2.0, 3.2, 2.4)) == [
        "Of 1 row of the table, synchronous SGD pays by its own interval in 1. By the formula it pays in 1 of 1."
    ]


def test_of_many_rows_that_differ_six_are_explained():
    material = material_of(*rounds(2.0, 4.2, 3.2))
    rows = [material.paying.assign(strategy=f"amber_{index}") for index in range(8)]
    sentences = of_regime(paying.section(dataclasses.replace(material, paying=pd.concat(rows, ignore_index=True))))
    assert sum("Contention explains it" in sentence for sentence in sentences) == 6
    assert "Formula and measurement differ in 2 more of the table." in sentences


def test_without_runs_without_exchange_there_are_dashes():
    [line] = shown(*rounds(2.0, 3.2))
    unknown = ["T_comp(R),\nms", "contention", "T_sync, ms", "T_sync /\nT_comp(R)", "by the\nformula"]
    assert [line[name] for name in [*unknown, "would pay\nfrom, rows"]] == [DASH] * 6
    # The median of rounds that are 2 % and 3 % slower.
    assert (line["ratio"], line["measured"], line["T_comp(1),\nms"]) == ("1.250", "surely pays", "2.05")
    assert said(*rounds(2.0, 3.2)) == [
        "Of 1 row of the table, synchronous SGD pays by its own interval in 1. No launch without exchange shares a "
        "round, so the formula has no T_comp and no T_sync."
    ]


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
def test_what_the_formula_is_not_about_has_no_section(records):
    assert section(*records) == []


def test_oversubscribed_rows_have_a_dagger_and_its_note():
    records = rounds(2.0, 12.0, 8.4, workers=4)
    [line] = shown(*records)
    assert line["R"] == "4†"
    assert "† more threads than cores: shows that it works, not how it scales." in section(*records)[-1]["notes"]
    assert "amber_ring with 4 workers †" in " ".join(said(*records))


def test_without_the_training_set_there_are_ratios_and_no_epochs(monkeypatch):
    def missing(task: object) -> None:
        raise UserError("A file is missing: fetch it.")

    monkeypatch.setattr(numbers.dataset, "load", missing)
    [line] = shown(*rounds(2.0, 3.2))
    assert (line["epoch, s"], line["the base's, s"], line["95 % interval"]) == (DASH, DASH, "1.250 to 1.250")
    assert section(*rounds(2.0, 3.2))[3]["items"][0] == (
        "N isn't known here, since the training set isn't to be had; B = 64 rows per worker."
    )
