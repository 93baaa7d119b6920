"""Who is said to pay, and whose exchange is said to be hidden."""

import pytest

from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import verdicts
from tests.reports.materials import material_of
from tests.reports.pieces import headings, items
from tests.reports.records import make_record, named
from tests.reports.replays import replay, replayed
from tests.reports.steps import rounds


@pytest.mark.parametrize(
    ("step", "computing", "sentence"),
    [
        # 64 rows times 1 ms over 2 ms (2 - 1.6).
        (4.2, 3.2, "digits weak: amber_ring at 2 would pay from 80 rows per worker on, by extrapolation."),
        (
            9.4,
            5.0,
            "digits weak: amber_ring at 2 would pay with no batch, since contention is as large as the number of",
        ),
    ],
)
def test_the_batch_from_which_on_it_would_pay_is_told(step, computing, sentence):
    records = [each for _ in range(6) for each in rounds(2.0, step, computing, n=1)]
    verdict, more = items(verdicts.section(material_of(*records)))
    assert verdict == "digits weak, surely doesn't: amber_ring at 2."
    assert more.startswith(sentence)


def test_an_exchange_that_was_replayed_has_its_verdict_and_one_that_was_not_has_none(tmp_path):
    records, refused = named(make_record("amber_ring", 2)), {"1": replay(1.0, status="failed", reason="It ended.")}
    assert verdicts.section(Material(Results(tmp_path, records, None, replays=refused))) == []
    [stem] = records
    sent = {"1": replay(1.0, replayed=replayed(stem))}
    blocks = verdicts.section(Material(Results(tmp_path, records, None, replays=sent)))
    assert headings(blocks) == ["The exchange replayed alone"]
    assert items(blocks) == ["digits weak, no shared round: amber_ring at 2."]


def test_who_has_more_threads_than_cores_stands_apart():
    blocks = verdicts.section(material_of(*rounds(2.0, 3.2), *rounds(None, 5.0, workers=4)))
    assert items(blocks) == [
        "digits weak, surely pays: amber_ring at 2.",
        "digits weak, surely pays with more threads than cores: amber_ring at 4.",
    ]
