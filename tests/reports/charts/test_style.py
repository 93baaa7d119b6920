"""What figures share: looks that tell strategies and parts apart, names in lines, and where a step's parts stand."""

from itertools import pairwise

import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from reports.charts import style
from reports.tables.decomposition import PARTS
from tests.reports.pieces import looks_of
from tests.reports.records import AMBER, COBALT, TEAL


def hsv_of(look: style.Style) -> tuple[float, float, float]:
    return tuple(rgb_to_hsv(to_rgb(look.color)))


def test_twenty_strategies_have_twenty_looks_and_families_their_hue():
    families = {"amber": AMBER.colors, "cobalt": COBALT.colors, "teal": TEAL.colors, "none": ()}
    looks = style.styles({f"{name}_{index}": families[name] for name in families for index in range(5)})
    assert len({(look.color, look.marker) for look in looks.values()}) == 20
    assert len({look.color for look in looks.values()}) == 20
    hues = {name: {round(hsv_of(looks[f"{name}_{index}"])[0], 1) for index in range(5)} for name in ("amber", "cobalt")}
    assert not hues["amber"] & hues["cobalt"]


def test_a_strategy_is_drawn_in_the_colors_of_its_record():
    [alone] = style.styles({"mine": ("#102030", "#102030", "#102030")}).values()
    assert alone.color == "#102030"


@pytest.mark.parametrize("colors", [(), ("#0072b2",), ("no color", "#0072b2")])
def test_without_colors_from_dark_to_light_a_strategy_is_drawn_in_grey(colors):
    [alone] = style.styles({"mine": colors}).values()
    assert hsv_of(alone)[1] < 0.1


def test_the_many_labels_of_a_family_differ_in_marker_or_line_even_where_colours_are_near():
    looks = looks_of([f"amber_{index:02d}" for index in range(18)])
    assert len({(look.marker, look.line) for look in looks.values()}) == 18
    neighbours = list(looks.values())
    assert all(one.color != other.color for one, other in pairwise(neighbours))


def test_a_long_name_is_broken_between_words_only():
    name = "amber_ring, a rather long name, 2 loader workers, other maths"
    assert style.wrapped(name) == "amber_ring, a rather long name, 2\nloader workers, other maths"
    assert style.wrapped("amber_ring, half_precision") == "amber_ring, half_precision"


def test_every_part_that_a_step_can_have_has_a_look_of_its_own():
    assert [*style.PARTS] == ["ideal", *PARTS]
    assert len(set(style.PARTS.values())) == len(style.PARTS)
