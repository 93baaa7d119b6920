"""The figures: vectors, the same for the same input, and with all that must be on them."""

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pandas as pd
import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from reports import certificate, figures, scaling, summaries
from reports.results import Results
from tests.reports.records import AMBER, COBALT, TEAL, make_record, named, varied


def looks_of(names: list[str]) -> dict[str, figures.Style]:
    return figures.styles(dict.fromkeys(names, AMBER.colors))


def drawn(*records, kind=figures.headline) -> str:
    launches = summaries.launches(named(*records))
    looks = looks_of(launches["strategy"].tolist())
    return kind(summaries.cells(launches), launches, looks).decode()


def hue_of(look: figures.Style) -> float:
    return rgb_to_hsv(to_rgb(look.color))[0]


def saturation_of(look: figures.Style) -> float:
    return rgb_to_hsv(to_rgb(look.color))[1]


def words(svg: str) -> list[str]:
    """The texts of a figure, which stand beside their outlines as comments."""
    return re.findall(r"<!-- (.*?) -->", svg, re.DOTALL)


def height_of(svg: str) -> float:
    return float(ElementTree.fromstring(svg).get("height").removesuffix("pt"))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_a_figure_is_svg_without_pixels_and_names_its_strategies(kind):
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 2), kind=kind)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<image" not in svg
    assert {"amber_single", "amber_ring"} <= set(words(svg))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_the_same_input_gives_the_same_bytes(kind):
    records = (make_record("amber_single"), make_record("amber_ring", 2))
    assert drawn(*records, kind=kind) == drawn(*records, kind=kind)


def test_the_headline_has_an_ideal_line_for_each_measured_base():
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 2))
    assert "ideal: N times amber_single" in words(svg)
    assert "ideal: N times amber_single" not in words(drawn(make_record("amber_ring", 1), make_record("amber_ring", 2)))


@pytest.mark.parametrize(("kind", "mark"), [(figures.headline, "4 workers †"), (figures.curves, "4†")])
def test_more_threads_than_cores_are_marked_on_the_plot(kind, mark):
    records = [make_record("amber_ring", workers) for workers in (1, 2, 4)]
    assert mark in words(drawn(*records, kind=kind))
    assert not [word for word in words(drawn(*records[:2], kind=kind)) if "†" in word]


def test_the_headline_has_a_panel_for_each_number_of_workers_and_the_number_of_every_median():
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 1), make_record("amber_ring", 2, (4.0,) * 3))
    assert {"1 worker", "2 workers"} <= set(words(svg))
    # 64 rows in 2 ms, and 128 in 4.
    assert words(svg).count("32,000") == 3


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    cells = summaries.cells(summaries.launches(named(*slow, *fast, alone)))
    assert figures.in_order_of_speed(cells) == ["amber_library", "amber_ring", "amber_single"]


def test_a_ground_is_shaded_only_where_every_strategy_has_more_threads_than_cores():
    servers = make_record("cobalt_servers", 2, oversubscribed=True)
    svg = drawn(make_record("amber_ring", 1), make_record("amber_ring", 2), servers)
    assert not [word for word in words(svg) if "†" in word]


def test_every_launch_is_a_point():
    few, many = (
        drawn(*[make_record("amber_ring", 1, (2 + index / 9,) * 3) for index in range(count)]) for count in (3, 9)
    )
    assert many.count("<use") - few.count("<use") == 6


def test_twenty_strategies_have_twenty_looks_and_families_their_hue():
    families = {"amber": AMBER.colors, "cobalt": COBALT.colors, "teal": TEAL.colors, "none": ()}
    looks = figures.styles({f"{name}_{index}": families[name] for name in families for index in range(5)})
    assert len({(look.color, look.marker) for look in looks.values()}) == 20
    assert len({look.color for look in looks.values()}) == 20
    hues = {name: {round(hue_of(looks[f"{name}_{index}"]), 1) for index in range(5)} for name in ("amber", "cobalt")}
    assert not hues["amber"] & hues["cobalt"]


def test_a_strategy_is_drawn_in_the_colors_of_its_record():
    [alone] = figures.styles({"mine": ("#102030", "#102030", "#102030")}).values()
    assert alone.color == "#102030"


@pytest.mark.parametrize("colors", [(), ("#0072b2",), ("no color", "#0072b2")])
def test_without_colors_from_dark_to_light_a_strategy_is_drawn_in_grey(colors):
    [alone] = figures.styles({"mine": colors}).values()
    assert saturation_of(alone) < 0.1


def test_strategies_of_two_families_without_colors_still_differ_in_shade():
    looks = figures.styles({"mine": (), "yours": ()})
    assert looks["mine"].color != looks["yours"].color


def test_the_many_labels_of_a_family_differ_in_marker_or_line_even_where_colours_are_near():
    looks = looks_of([f"amber_{index:02d}" for index in range(18)])
    assert len({(look.marker, look.line) for look in looks.values()}) == 18
    neighbours = list(looks.values())
    assert all(one.color != other.color for one, other in pairwise(neighbours))


@pytest.mark.parametrize("kind", [figures.headline, figures.curves])
def test_with_many_strategies_the_figure_grows_and_names_every_one(kind):
    names = [f"amber_{index:02d}" for index in range(24)]
    svg = drawn(*(make_record(name, workers) for name in names for workers in (1, 2)), kind=kind)
    assert set(names) <= set(words(svg))
    few = drawn(*(make_record("amber_00", workers) for workers in (1, 2)), kind=kind)
    assert height_of(svg) > height_of(few)


def test_many_strategies_have_a_panel_each_with_the_others_in_grey():
    names = [f"amber_{index:02d}" for index in range(12)]
    records = [make_record(name, workers) for name in names for workers in (1, 2)]
    svg = drawn(make_record("amber_single"), *records, kind=figures.multiples)
    assert {*names, "amber_single", "the others", "ideal: N times its base"} <= set(words(svg))
    assert svg == drawn(make_record("amber_single"), *records, kind=figures.multiples)
    assert height_of(drawn(*records[:8], kind=figures.multiples)) < height_of(svg)


def test_a_long_name_is_broken_between_its_options_only():
    name = "amber_ring, a rather long name, 2 loader workers, other maths"
    assert figures._wrapped(name) == "amber_ring, a rather long name,\n2 loader workers, other maths"
    assert figures._wrapped("amber_ring, half_precision") == "amber_ring, half_precision"


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
def test_a_label_is_a_curve_of_its_own(kind):
    svg = drawn(make_record("cobalt_replicas", 2), varied("cobalt_replicas", 2, compiled=True), kind=kind)
    assert "cobalt_replicas" in words(svg)
    assert "cobalt_replicas, compiled" in " ".join(" ".join(words(svg)).split())


def residuals(**logs: list[float]) -> str:
    rows = [{"strategy": name, "other": "base", "rounds": [*range(1, 7)], "logs": each} for name, each in logs.items()]
    return figures.residuals(pd.DataFrame(rows)).decode()


def test_the_residuals_are_drawn_for_every_round_and_the_farthest_named():
    quiet = {f"quiet_{index}": [index, index, index + 0.01, index, index - 0.01, index] for index in range(5)}
    wild = {f"wild_{index}": [0.0, 0.0, 0.3, 0.0, -0.1 * index, 0.0] for index in range(3)}
    svg = residuals(**wild, **quiet)
    assert {word for word in words(svg) if word.endswith(" over")} == {f"{name} over" for name in wild}
    assert {"round", "ratio of a pair over its mean"} <= set(words(svg))
    assert residuals(**wild, **quiet) == svg
    assert svg.count("<use") - residuals(**wild).count("<use") == 5 * 6


def test_residuals_are_off_the_mean_of_their_own_pair():
    assert residuals(one=[0.0, 0.1, 0.0, 0.0, 0.0, 0.0]) == residuals(one=[2.0, 2.1, 2.0, 2.0, 2.0, 2.0])


def test_the_loss_curves_lie_on_the_oracles(tmp_path):
    comparisons = certificate.compare(Results(tmp_path, named(make_record(), make_record("amber_single")), None))
    svg = figures.losses(comparisons, looks_of(["amber_ring", "amber_single"])).decode()
    assert {"oracle (NumPy, float64)", "amber_ring", "amber_single", "tolerated over 60 steps"} <= set(words(svg))


def test_the_names_of_many_loss_curves_stand_in_a_legend_below_them(tmp_path):
    names = [f"amber_{index:02d}" for index in range(24)]
    comparisons = certificate.compare(Results(tmp_path, named(*map(make_record, names)), None))
    svg = figures.losses(comparisons, looks_of(names)).decode()
    assert set(names) <= set(words(svg))
    assert height_of(svg) < 100 / 25.4 * 72


def parts_of_steps(strategies: int = 1, workers: tuple[int, ...] = (2,), milliseconds: float = 4.0) -> str:
    records = [make_record("amber_single", 1, (2.0,) * 3)]
    for index in range(strategies):
        for count in workers:
            time = milliseconds if index == strategies - 1 else 4.0
            records.append(make_record(f"amber_{index:02d}", count, (time,) * 3))
            records.append(varied(f"amber_{index:02d}", count, (3.0,) * 3, exchange=False))
    launches = summaries.launches(named(*records))
    return drawn_parts(launches)


def drawn_parts(launches: pd.DataFrame, products_seconds: float = math.nan) -> str:
    found = scaling.table(summaries.cells(launches), launches, None)
    return figures.scaling(found.assign(products_seconds=products_seconds)).decode()


def test_what_the_products_alone_take_is_marked_where_a_probe_tells():
    launches = summaries.launches(named(make_record("amber_single"), make_record("amber_ring", 2)))
    assert "the framework's products alone" in words(drawn_parts(launches, 1e-3))
    assert "the framework's products alone" not in words(drawn_parts(launches))


def test_a_step_is_drawn_in_its_parts_with_its_strategy_and_its_milliseconds():
    svg = parts_of_steps()
    assert "<image" not in svg
    assert {"ideal", "computing", "exchange", "slowest rank", "the rest", "measured step"} <= set(words(svg))
    assert {"2 workers", "amber_00", "4.00 ms", "milliseconds per step"} <= set(words(svg))
    assert "not divided" not in words(svg)
    assert parts_of_steps() == svg


def test_every_part_that_a_step_can_have_has_a_look_of_its_own():
    assert [*figures.PARTS] == ["ideal", *scaling.PARTS]
    assert len(set(figures.PARTS.values())) == len(figures.PARTS)


def test_each_number_of_workers_has_a_panel_and_crowded_bars_are_marked():
    svg = parts_of_steps(2, (1, 2, 4))
    assert {"1 worker", "2 workers", "4 workers", "amber_00", "amber_00†"} <= set(words(svg))
    assert words(svg).count("amber_00") == 2
    assert "opacity: 0.4" in svg
    assert "opacity: 0.4" not in parts_of_steps(2, (1, 2))


def test_the_figure_of_the_parts_grows_with_its_bars_up_to_a_page():
    few, many, most = (height_of(parts_of_steps(count)) for count in (2, 12, 60))
    assert few < many < most < 250 / 25.4 * 72


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    assert "80.0 ms »" in words(parts_of_steps(4, milliseconds=80.0))
    assert "8.00 ms" in words(parts_of_steps(4, milliseconds=8.0))


def test_a_part_below_zero_stands_left_of_zero():
    # The strategy computes 1.5 ms faster than its base.
    records = [make_record("amber_single", 1, (3.0,) * 3), make_record("amber_ring", 2, (2.5,) * 3)]
    launches = summaries.launches(named(*records, varied("amber_ring", 2, (1.5,) * 3, exchange=False)))
    svg = drawn_parts(launches)
    assert "\N{MINUS SIGN}1" in " ".join(words(svg))
