"""The figure of a sweep: what must be on it, and that it is the same for the same input."""

from functools import cache

from common.records.training import Record
from reports.charts import sweep
from tests.reports.charts.read_marks import read
from tests.reports.drawings import drawing_of_sweep, words
from tests.reports.records import MadeUpOptions, named, over_hosts

MEGABITS = (10.0, 100.0, 1000.0)


def swept(*, n: int = 1, hosts: tuple[int, ...] = (2,), **facts: object) -> list[Record]:
    return [
        over_hosts(workers=count, hosts=count, milliseconds=(100 / place + number,) * 3, megabits=megabits, **facts)
        for count in hosts
        for place, megabits in enumerate(MEGABITS, start=1)
        for number in range(n)
    ]


def drawn(*records: Record) -> str:
    return drawing_of_sweep(*records, over_hosts("amber_single", 1, 1, (4.0,) * 3))().decode()


@cache
def usual() -> str:
    """Two numbers of hosts, more threads than cores, and two strategies with an option, one of which is other maths."""
    options = [MadeUpOptions(compiled=True), MadeUpOptions(rounding="half")]
    changed = [record for each in options for record in swept(options=each)]
    return drawn(*swept(), *swept(hosts=(4,), oversubscribed=True), *changed)


@cache
def plain() -> str:
    """One strategy on two hosts, of which each link has two launches."""
    return drawn(*swept(n=2))


def test_it_has_a_panel_for_each_number_of_hosts_and_either_measure():
    assert {"2 hosts: ms per step", "4 hosts", "2 hosts: samples per second"} <= set(words(usual()))
    assert words(usual()).count("4 hosts") == 2
    assert "4 hosts" not in words(plain())
    assert {"Mbit/s from host to host", "10", "100", "1 k"} <= set(words(usual()))


def test_it_is_svg_without_pixels_and_the_same_for_the_same_records():
    assert "<image" not in usual()
    assert drawn(*swept(n=2)) == plain()


def test_it_names_the_strategy_one_host_alone_and_the_bound():
    said = " ".join(" ".join(words(plain())).split())
    assert "amber_ring" in said
    assert "one host alone: amber_single" in said
    assert "the ring's lower bound on the link" in said
    # A strategy with an option is a line of its own.
    assert "amber_ring, compiled" in " ".join(words(usual()))


def test_every_launch_is_a_mark_in_both_rows():
    said = [mark.tip["launch (n = 1)"] for mark in read(plain().encode()) if "launch (n = 1)" in mark.tip]
    assert sorted(said) == sorted([*named(*swept(n=2))] * 2)


def test_other_maths_is_dashed_and_the_same_maths_is_not():
    dashes = sweep._DASHES[1][0] * 1.2  # Of a line of this width.
    # In the legend and in either row.
    assert usual().count(f"stroke-dasharray:{dashes:g}") == 3
    assert f"stroke-dasharray:{dashes:g}" not in plain()


def test_oversubscribed_medians_are_hollow_and_explained():
    assert "† more threads than cores" in words(usual())
    assert not [word for word in words(plain()) if "more threads than cores" in word]


def test_panels_say_how_many_workers_are_on_each_host_where_these_are_several():
    records = [over_hosts(workers=4, hosts=2, milliseconds=(5.0,) * 3, megabits=each) for each in MEGABITS]
    assert "2 hosts, 2 workers each: ms per step" in words(drawn(*records))


def test_of_very_many_launches_the_slowest_and_the_fastest_are_drawn(monkeypatch):
    monkeypatch.setattr("reports.charts.layout.MOST_POINTS", 8)
    svg = drawn(*swept(n=9))
    said = [mark.tip["ms per step"] for mark in read(svg.encode()) if "launch (n = 1)" in mark.tip]
    assert said == ["108", "100", "58.0", "50.0", "41.3", "33.3"] * 2
    assert "Drawn are 2 launches of each strategy and link, from the slowest to the fastest." in words(svg)
