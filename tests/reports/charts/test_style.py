"""What figures share: looks that tell strategies and parts apart, names in lines, and where a step's parts stand."""

import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from reports.charts import style
from reports.tables.decomposition import PARTS
from tests.reports.records import AMBER, COBALT, TEAL


def test_twenty_strategies_have_twenty_looks_and_families_their_hue():
    families = {"amber": AMBER.colors, "cobalt": COBALT.colors, "teal": TEAL.colors, "none": ()}
    looks = style.styles({f"{name}_{index}": families[name] for name in families for index in range(5)})
    assert len({look.color for look in looks.values()}) == 20
    hues = {name: round(rgb_to_hsv(to_rgb(look.color))[0], 1) for name, look in looks.items()}
    assert not {hues[f"amber_{index}"] for index in range(5)} & {hues[f"cobalt_{index}"] for index in range(5)}


@pytest.mark.parametrize("colors", [("#102030",) * 3, (), ("#0072b2",), ("no color", "#0072b2")])
def test_a_strategy_is_drawn_in_the_colors_of_its_record_or_without_several_in_grey(colors):
    [alone] = style.styles({"mine": colors}).values()
    red, _, blue = to_rgb(alone.color)
    assert alone.color == "#102030" if len(colors) == 3 else blue - red < 0.05


def test_every_part_that_a_step_can_have_has_a_look_of_its_own():
    assert [*style.PARTS] == ["ideal", *PARTS]
    assert len(set(style.PARTS.values())) == len(style.PARTS)
