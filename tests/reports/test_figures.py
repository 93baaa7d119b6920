"""The figures: vectors, the same for the same input, and with all that must be on them."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from reports import certificate, figures, tables
from reports.results import Results
from tests.reports.records import make_record, named, varied


def drawn(*records, kind=figures.headline) -> str:
    launches = tables.launches(named(*records))
    looks = figures.styles(launches["strategy"].tolist())
    return kind(tables.cells(launches), launches, looks).decode()


def words(svg: str) -> list[str]:
    """The texts of a figure, which stand beside their outlines as comments."""
    return re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)


def height_of(svg: str) -> float:
    return float(ElementTree.fromstring(svg).get("height").removesuffix("pt"))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_a_figure_is_svg_without_pixels_and_names_its_strategies(kind):
    svg = drawn(make_record("torch_single"), make_record("torch_ddp", 2), kind=kind)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<image" not in svg
    assert {"torch_single", "torch_ddp"} <= set(words(svg))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_the_same_input_gives_the_same_bytes(kind):
    records = (make_record("torch_single"), make_record("torch_ddp", 2))
    assert drawn(*records, kind=kind) == drawn(*records, kind=kind)


def test_the_headline_has_an_ideal_line_for_each_measured_base():
    svg = drawn(make_record("torch_single"), make_record("torch_ddp", 2))
    assert "ideal: N times torch_single" in words(svg)
    assert "ideal: N times torch_single" not in words(drawn(make_record("torch_ddp", 1), make_record("torch_ddp", 2)))


def test_more_threads_than_cores_are_marked_on_the_plot():
    records = [make_record("torch_ddp", workers) for workers in (1, 2, 4)]
    svg = drawn(*records)
    assert "more threads than cores" in words(svg)
    assert "4†" in words(svg)
    assert "more threads than cores" not in words(drawn(*records[:2]))


def test_a_ground_is_shaded_only_where_every_strategy_has_more_threads_than_cores():
    servers = make_record("tf_parameter_server", 2, oversubscribed=True)
    svg = drawn(make_record("torch_ddp", 1), make_record("torch_ddp", 2), servers)
    assert "more threads than cores" not in words(svg)
    assert "2†" not in words(svg)


def test_every_launch_is_a_point():
    few, many = (
        drawn(*[make_record("torch_ddp", 1, (2 + index / 9,) * 3) for index in range(count)]) for count in (3, 9)
    )
    assert many.count("<use") - few.count("<use") == 6


def test_twenty_strategies_have_twenty_looks_and_families_their_hue():
    names = [f"{family}_{index}" for family in ("torch", "tf", "horovod", "mpi") for index in range(5)]
    looks = figures.styles(names)
    assert len({(look.color, look.marker) for look in looks.values()}) == 20
    assert len({look.color for look in looks.values()}) == 20


def test_the_many_variants_of_a_family_differ_in_marker_or_line_even_where_colours_are_near():
    looks = figures.styles([f"torch_{index:02d}" for index in range(18)])
    assert len({(look.marker, look.line) for look in looks.values()}) == 18
    neighbours = list(looks.values())
    assert all(one.color != other.color for one, other in pairwise(neighbours))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_with_many_curves_every_name_stands_in_a_legend_below_the_plot(kind):
    names = [f"torch_{index:02d}" for index in range(24)]
    svg = drawn(*(make_record(name, workers) for name in names for workers in (1, 2)), kind=kind)
    assert set(names) <= set(words(svg))
    few = drawn(*(make_record("torch_00", workers) for workers in (1, 2)), kind=kind)
    assert height_of(svg) > height_of(few)


def test_a_long_name_is_broken_between_its_options_only():
    name = "torch_ddp, powersgd gradient hook, 2 loader workers, other maths"
    assert figures._wrapped(name) == "torch_ddp, powersgd gradient hook,\n2 loader workers, other maths"
    assert figures._wrapped("torch_ddp, bf16_autocast") == "torch_ddp, bf16_autocast"


def test_twenty_labels_stand_apart_and_inside():
    crowded = sorted([0.5] * 10 + [0.51] * 5 + [0.99] * 5)
    placed = figures._spread(crowded, [1] * 20)
    assert all(upper - lower > 0.0479 for lower, upper in pairwise(placed))
    assert min(placed) >= 0
    assert max(placed) <= 1


def test_labels_that_are_apart_stay_where_they_are():
    assert figures._spread([0.1, 0.5, 0.9], [1, 1, 1]) == pytest.approx([0.1, 0.5, 0.9])


def test_a_label_of_two_lines_gets_the_room_of_two():
    placed = figures._spread([0.5, 0.5, 0.5], [1, 2, 1])
    assert placed[1] - placed[0] == pytest.approx(1.5 * 0.048)
    assert placed[2] - placed[1] == pytest.approx(1.5 * 0.048)


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_a_variant_is_a_curve_of_its_own(kind):
    svg = drawn(make_record("tf_mirrored", 2), varied("tf_mirrored", 2, jit_compile=True), kind=kind)
    assert "tf_mirrored" in words(svg)
    assert "tf_mirrored, jit_compile" in " ".join(" ".join(words(svg)).split())


def test_the_loss_curves_lie_on_the_oracles(tmp_path):
    comparisons = certificate.compare(Results(tmp_path, named(make_record(), make_record("torch_single")), None))
    svg = figures.losses(comparisons, figures.styles(["torch_ddp", "torch_single"])).decode()
    assert {"oracle (NumPy, float64)", "torch_ddp", "torch_single", "tolerated over 60 steps"} <= set(words(svg))


def test_the_names_of_many_loss_curves_stand_in_a_legend_below_them(tmp_path):
    names = [f"torch_{index:02d}" for index in range(24)]
    comparisons = certificate.compare(Results(tmp_path, named(*map(make_record, names)), None))
    svg = figures.losses(comparisons, figures.styles(names)).decode()
    assert set(names) <= set(words(svg))
    assert height_of(svg) < 100 / 25.4 * 72
