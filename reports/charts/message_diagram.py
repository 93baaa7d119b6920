"""The figure of who sends what when in an all-reduce by hand: a panel for each algorithm."""

import math
from collections.abc import Sequence
from fractions import Fraction

import matplotlib
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import Exchange, steps
from reports import blocks
from reports.charts import layout, style, svg

_ADDED, _IN_PLACE = style.PARTS["computing"][0], style.PARTS["exchange"][0]
_LOOKS = {True: ("added to the receiver's elements", _ADDED), False: ("in place of the receiver's elements", _IN_PLACE)}
"""By whether received elements are added."""

_COLUMNS = 3

_ELEMENTS_OF_RANK = 64  # So that halves of halves are whole elements.


def messages(names: Sequence[str], ranks: int, width: float = style.WIDTH) -> bytes:
    """An all-reduce among the ranks by each algorithm as SVG: a line for each rank, a column for each step.

    An arrow goes from the sender to the receiver. Its thickness is the message's share of the elements.
    """
    found = {name: steps(ALGORITHMS[name], ranks, _ELEMENTS_OF_RANK * ranks) for name in names}
    heights = [5.0 * ranks] * math.ceil(len(names) / (_COLUMNS if width > style.NARROW else 1))
    handles = [Line2D([], [], color=color, linewidth=1.8, label=label) for label, color in _LOOKS.values()]
    with matplotlib.rc_context(style.SETTINGS):
        figure, panels = layout.panels(len(names), heights, left=8, between=8, grid="", handles=handles, width=width)
        for axes, (name, exchanges) in zip(panels, found.items(), strict=True):
            shares = _draw(axes, name, exchanges, ranks)
            axes.set_title(f"{name}: {blocks.listed([str(each) for each in sorted(shares)])}")
            svg.panel(axes, axes.get_title(loc="left"))
            longest = max(map(len, found.values()))
            axes.set(xlim=(0, longest), ylim=(ranks - 0.6, -0.4), xlabel="step", yticks=range(ranks))
            axes.set_xticks([step + 0.5 for step in range(longest)], [str(step + 1) for step in range(longest)])
        panels[0].set_ylabel("rank")
        return svg.svg(figure)


def _draw(axes: Axes, name: str, found: Sequence[dict[int, Exchange]], ranks: int) -> set[Fraction]:
    axes.hlines(range(ranks), 0, len(found), color=style.GREY, linewidth=0.6, zorder=1)
    shares: set[Fraction] = set()
    for step, exchanges in enumerate(found):
        for sender, exchange in exchanges.items():
            receiver = exchange.send_to
            if receiver is None:
                continue
            share = Fraction(exchange.sent.stop - exchange.sent.start, _ELEMENTS_OF_RANK * ranks)
            shares.add(share)
            what, color = _LOOKS[exchanges[receiver].adds]
            ends = (step + 0.1, sender), (step + 0.9, receiver)
            arrow = FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=5, shrinkA=0, shrinkB=0, color=color)
            arrow.set_linewidth(0.5 + 1.7 * float(share))
            axes.add_patch(arrow)
            tip = {"algorithm": name, "step": step + 1, "from rank": sender, "to rank": receiver, "share": share}
            svg.mark(arrow, [name], tip | {"elements": what})
    return shares
