"""The figures of predictions: efficiency over workers, and what was predicted over what was measured."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.ticker import NullLocator

from common.records.prediction import Predicted
from reports import blocks
from reports.charts import layout, style, svg
from reports.charts.style import Style

_HEIGHT = 80.0  # Millimetres.


def _looks(predicted: Sequence[Predicted]) -> Mapping[str, Style]:
    return style.styles({each.strategy: each.colors for each in predicted})


def efficiency(predicted: Sequence[Predicted]) -> bytes:
    """Efficiency over workers, with the 80 % band; dashed where more workers than were verified are asked for."""
    looks = _looks(predicted)
    handles = [layout.line_handle(name, look) for name, look in looks.items()]
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_HEIGHT], left=13, between=0, handles=handles)
        svg.panel(axes, "efficiency over workers")
        for name, look in looks.items():
            own = sorted((each for each in predicted if each.strategy == name), key=lambda each: each.workers)
            workers = [each.workers for each in own]
            is_extrapolated = any(each.is_extrapolated for each in own)
            lows = [100 * each.alone_seconds / each.high_80 for each in own]
            highs = [100 * each.alone_seconds / each.low_80 for each in own]
            axes.fill_between(workers, lows, highs, color=look.color, alpha=0.12, linewidth=0)
            [line] = axes.plot(
                workers,
                [100 * each.efficiency for each in own],
                color=look.color,
                marker=look.marker,
                markersize=3.6,
                markerfacecolor=style.PAPER if is_extrapolated else look.color,
                linestyle=(0, (2.5, 1.2)) if is_extrapolated else "-",
                linewidth=1.1,
            )
            tips = [{"workers": each.workers, "of one worker": blocks.percent(each.efficiency)} for each in own]
            svg.mark(line, [name], *({"strategy": name} | tip for tip in tips))
        axes.set_xscale("log")
        sizes = sorted({each.workers for each in predicted})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("workers")
        axes.set_title("samples per second of a worker, in per cent of one alone")
        return svg.svg(figure)


def held_out(predicted: Sequence[Predicted]) -> bytes:
    """Predicted over measured milliseconds of a step, each with its 95 % band; on the line both are the same."""
    looks = _looks(predicted)
    handles = [layout.line_handle(name, look) for name, look in looks.items()]
    handles.append(layout.dotted_handle("predicted as measured"))
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_HEIGHT], left=13, between=0, handles=handles)
        svg.panel(axes, "predicted over measured seconds of a step")
        every = [1e3 * seconds for each in predicted for seconds in each.measured_seconds]
        ends = [min(every), max(every)]
        axes.plot(ends, ends, color=style.INK, linestyle=layout.DOTS, linewidth=0.8)
        for each in predicted:
            look, measured = looks[each.strategy], 1e3 * float(np.median(each.measured_seconds))
            axes.vlines(measured, 1e3 * each.low_95, 1e3 * each.high_95, color=look.color, linewidth=0.8, alpha=0.5)
            fill = style.PAPER if each.oversubscribed else look.color
            [mark] = axes.plot([measured], [1e3 * each.seconds], look.marker, color=look.color, markerfacecolor=fill)
            mark.set_markersize(3.6)
            tip = {"strategy": each.strategy, "predicted": f"{blocks.milliseconds(each.seconds)} ms"}
            svg.mark(mark, [each.strategy], tip | {"measured": f"{blocks.number(measured)} ms"})
        for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
            scale("log")
            axis.set_major_formatter(lambda value, _: layout.short(value))
        axes.set_xlabel("measured: milliseconds of a step")
        axes.set_title("predicted: milliseconds of a step")
        return svg.svg(figure)
