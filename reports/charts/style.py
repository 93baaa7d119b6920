"""What the figures of a report share: widths, fonts and colors, the looks of strategies and of parts, names."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib import rcParamsDefault
from matplotlib.colors import LinearSegmentedColormap, is_color_like, to_hex

MILLIMETRE = 1 / 25.4
WIDTH, NARROW = 172.0, 88.0
"""Of a figure, in millimetres, and of one on a narrow page, whose panels stand below one another."""

FONT = "DejaVu Sans"

INK, FAINT, GREY, RULE, GROUND, PAPER = "#333333", "#8a8a8a", "#c2c1be", "#e4e4e4", "#f3f1ee", "#ffffff"
NEUTRALS = {INK: "ink", FAINT: "faint", GREY: "band", RULE: "rule", GROUND: "ground", PAPER: "paper"}
"""The variable of the page that stands for each color that is nobody's."""

PLATE = {"boxstyle": "square,pad=0.15", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.8}

_NEUTRAL = ("#2e2e33", "#6b6b73", "#a6a6ae")  # From dark to light, for strategies whose records have no colors.
_MARKERS = "osD^vPX<>ph*"
_LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
_LONGEST_LINE = 34  # Characters that fit into a third of the width, beside a handle.

PARTS = {
    "ideal": ("#dedbd4", ""),
    "computing": ("#3b4d8f", ""),
    "rows": ("#7fbfae", "\\\\\\\\"),
    "slowest rank": ("#f4dc8c", "----"),
    "exchange": ("#dd7e2d", "////"),
    "not divided": ("#b58bb3", "xxxx"),
    "the rest": (PAPER, ""),
}  # What a step consists of: colors that differ in lightness too, and hatches that survive a print in grey.

PART_COLORS = {color for color, _ in PARTS.values()} - NEUTRALS.keys()

SETTINGS = {
    # Not the user's own: charts are the same everywhere.
    **{name: value for name, value in rcParamsDefault.items() if not name.startswith(("backend", "interactive"))},
    "svg.hashsalt": "lockstep",
    "svg.fonttype": "none",
    "font.family": FONT,
    "font.size": 7,
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 7.5,
    "axes.titlelocation": "left",
    # Else it looks for ticks above the axes, which takes a sixth of a figure's time.
    "axes.titley": 1.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
}


@dataclass(frozen=True)
class Style:
    """How a strategy is drawn in every figure of a report, and its sideways shift in octaves of workers."""

    color: str
    marker: str
    line: str | tuple
    shift: float


def color_of(name: str, looks: Mapping[str, Style]) -> str:
    """The color of a strategy; that of nobody where it isn't drawn."""
    return looks[name].color if name in looks else FAINT


def styles(colors: Mapping[str, Sequence[str]]) -> dict[str, Style]:
    """One style per strategy, from the colors of each, from dark to light, which are those of its family.

    The hue says the family; shade, line and marker say which of its strategies it is.
    """
    ordered = sorted(colors)
    families: dict[tuple[str, ...], list[str]] = {}
    for name in ordered:
        known = tuple(color for color in colors[name] if is_color_like(color))
        families.setdefault(known if len(known) > 1 else _NEUTRAL, []).append(name)
    looks = {}
    for hue, members in families.items():
        shades = LinearSegmentedColormap.from_list("family", hue)
        # Neighbours, such as one strategy under several labels, are far apart in shade: dark, medium, light, dark, ...
        order = [index for start in range(3) for index in range(start, len(members), 3)]
        for position, name in enumerate(members):
            index = ordered.index(name)
            shift = 0.0 if len(ordered) == 1 else 0.16 * (index / (len(ordered) - 1) - 0.5)
            looks[name] = Style(
                color=to_hex(shades((order.index(position) + 0.5) / len(members))),
                marker=_MARKERS[index % len(_MARKERS)],
                # Every third has the same kind of shade, so those must differ in their lines.
                line=_LINES[(position + position // 3) % len(_LINES)],
                shift=shift,
            )
    return {name: looks[name] for name in ordered}


def literal(name: str) -> str:
    """`name` as Matplotlib shows it, which would set what stands between dollars as a formula."""
    return name.replace("$", r"\$")


def wrapped(name: str, longest: int = _LONGEST_LINE) -> str:
    """A strategy's name in lines, broken between words only where a line would get too long."""
    lines = textwrap.wrap(literal(name), longest, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)
