"""The figures of predictions: steps, rates and efficiency over workers; what was predicted over what was measured."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from common.records.prediction import Predicted
from reports import blocks
from reports.charts import layout, style, svg

_HEIGHT, _PANEL_HEIGHT = 80.0, 55.0  # Millimetres.

Measure = Callable[[Predicted, float], float]
"""What a panel shows of a prediction, from the seconds of its step or an end of their band."""

_MEASURES: Mapping[str, Measure] = {
    "milliseconds of a step": lambda each, seconds: 1e3 * seconds,
    "samples per second": lambda each, seconds: each.workers * each.rows / seconds,
    "a worker's rate, in % of one alone": lambda each, seconds: 100 * each.alone_seconds / seconds,
}


def _looks(predicted: Sequence[Predicted]) -> Mapping[str, style.Style]:
    return style.styles({each.strategy: each.colors for each in predicted})


def scaling_out(predicted: Sequence[Predicted], width: float = style.WIDTH) -> bytes:
    """A step, the rate and the efficiency over workers, with bands of 80 % and 95 %, the narrower one darker.

    A line is dashed where more workers than were verified are asked for.
    """
    looks, sizes = _looks(predicted), sorted({each.workers for each in predicted})
    handles = [layout.line_handle(name, look) for name, look in looks.items()]
    with matplotlib.rc_context(style.SETTINGS):
        heights = [_PANEL_HEIGHT] * (1 if width > style.NARROW else 3)
        figure, panels = layout.panels(3, heights, left=10, between=10, handles=handles, width=width)
        for axes, (title, measure) in zip(panels, _MEASURES.items(), strict=True):
            for name, look in looks.items():
                own = sorted((each for each in predicted if each.strategy == name), key=lambda each: each.workers)
                _draw_strategy(axes, own, look, title, measure)
            axes.set_title(title)
            svg.panel(axes, title)
            layout.measured_places(axes, {size: f"{size:,}" for size in sizes}, "workers")
        for axes in panels[:2]:
            axes.set_yscale("log")
            layout.plain_log_axis(axes)
        panels[2].set_ylim(bottom=0)
        return svg.svg(figure)


def _draw_strategy(axes: Axes, own: Sequence[Predicted], look: style.Style, title: str, measure: Measure) -> None:
    workers, is_extrapolated = [each.workers for each in own], any(each.is_extrapolated for each in own)
    for lows, highs in (("low_95", "high_95"), ("low_80", "high_80")):
        ends = [[measure(each, getattr(each, name)) for each in own] for name in (lows, highs)]
        axes.fill_between(workers, *ends, color=look.color, alpha=0.1, linewidth=0)
    values = [measure(each, each.seconds) for each in own]
    [line] = axes.plot(workers, values, look.marker, color=look.color, linewidth=1.1, markersize=3.6)
    line.set_linestyle((0, (2.5, 1.2)) if is_extrapolated else "-")
    line.set_markerfacecolor(style.PAPER if is_extrapolated else look.color)
    about = {"strategy": own[0].strategy}
    tips = [{"workers": each.workers, title: blocks.number(value)} for each, value in zip(own, values, strict=True)]
    svg.mark(line, [own[0].strategy], *(about | tip for tip in tips))


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
