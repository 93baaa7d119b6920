"""The table of recipes and the figure of the losses beside the oracle's."""

import pytest

from reports.words import certificate
from tests.reports.charts.read_marks import read
from tests.reports.materials import material_of
from tests.reports.pieces import drawings_of
from tests.reports.records import SMOOTH, certified, make_record, mistaken

LAST = len(make_record(task=SMOOTH).losses)


def lines(*records) -> list:
    """The courses in the figure; a mark says something."""
    drawings = drawings_of(certificate.section(material_of(*records), 20))
    return [mark for mark in read(drawings["losses"]()) if mark.tip]


def test_long_courses_are_thinned_and_keep_their_largest_deviation(monkeypatch):
    losses = [*make_record(task=SMOOTH).losses]
    losses[31] *= 1.01
    record = make_record(task=SMOOTH, losses=losses)
    assert [len(mark.points) for mark in lines(record)] == [LAST]
    monkeypatch.setattr(certificate, "_MOST_STEPS", 20)
    [thinned] = lines(record)
    assert len(thinned.points) == 20
    [(step, worst)] = [point for point in thinned.points if point[1] > 1e-3]
    assert (step, worst) == (pytest.approx(30, abs=0.2), pytest.approx(0.01, rel=0.05))


def test_of_a_strategy_with_as_many_workers_the_launch_that_deviates_most_is_drawn():
    losses = [loss * 1.001 for loss in make_record(task=SMOOTH).losses]
    drawn = lines(
        make_record(task=SMOOTH),
        make_record(task=SMOOTH, losses=losses, shard_losses=[losses]),
        make_record(workers=2, task=SMOOTH),
    )
    assert sorted((mark.tip["workers"], float(mark.tip["largest deviation of a loss"]) > 5e-4) for mark in drawn) == [
        ("1", True),
        ("2", False),
    ]


def test_each_task_has_a_panel_with_what_is_tolerated():
    drawings = drawings_of(
        certificate.section(material_of(make_record(task=SMOOTH), make_record(workers=2, task=SMOOTH)), 20)
    )
    panels = {mark.panel for mark in read(drawings["losses"]())}
    assert len(panels) == 2
    assert "tolerated" in drawings["losses"]().decode()


def test_what_deviates_stands_first_and_of_many_rows_the_rest_is_in_the_table_of_all(tmp_path):
    good = certified(tmp_path, *(make_record(name) for name in ("amber_single", "amber_ring", "amber_library")))
    records = [*good, mistaken(make_record("teal_amber", 2))]
    blocks = certificate.section(material_of(*records, folder=tmp_path), 2)
    [table] = [block for block in blocks if block["kind"] == "table"]
    assert table["rows"][0][0] == "teal_amber"
    assert table["rows"][0][-1] == "deviates"
    assert table["notes"][0] == "teal_amber at 2: Summed, not averaged. Divide."
    assert table["notes"][-1] == "2 of 4 configurations; the table \u201ccertificates\u201d has all."
