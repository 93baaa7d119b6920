"""The figure of launches that suffered a fault: the steps of every process over time, before it and after."""

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes

from common.records.recovery import Moment
from common.records.recovery_rows import Row, Suffered
from reports import blocks
from reports.charts import layout, style, svg

_HEIGHT = 13.0  # Millimetres.
_TAIL = 1.03  # Of the longest launch: where the axis ends.


def steps_over_time(rows: Sequence[Row]) -> bytes:
    """A panel for each row: of its launch with the median duration each process's steps, and when the fault came."""
    handles = [
        layout.mark_handle("x", 5, 1.2, "the fault"),
        layout.mark_handle("o", 2.4, 0.6, "a process before its first step"),
    ]
    drawn = [typical(row) for row in rows]
    longest = max(each.account.total_seconds for each in drawn)
    with matplotlib.rc_context(style.SETTINGS):
        figure, panels = layout.panels(
            len(rows), [_HEIGHT] * len(rows), left=12, between=0, above=6.0, under=6.5, handles=handles
        )
        for axes, row, each in zip(panels, rows, drawn, strict=True):
            title = f"{row.strategy}: {row.fault}"
            axes.set_title(style.literal(style.shortened(title)), pad=3, loc="left")
            svg.panel(axes, f"{title}: steps over seconds")
            _draw(axes, row, each)
            axes.set_xlim(0, _TAIL * longest)
            axes.set_ylim(0, 1.05 * each.record.task.steps)
            axes.set_ylabel("steps")
        panels[-1].set_xlabel("seconds since the launch began")
        return svg.svg(figure)


def typical(row: Row) -> Suffered:
    """The row's launch whose duration is the median, the shorter one of two."""
    ordered = sorted(row.launches, key=lambda each: (each.account.total_seconds, each.launch))
    return ordered[(len(ordered) - 1) // 2]


def _draw(axes: Axes, row: Row, each: Suffered) -> None:
    """The lines of the processes, from where each began, in their order, and the fault."""
    color = row.colors[0] if row.colors else style.INK
    lives: dict[int, list[Moment]] = {}
    for life, moment in each.account.lives:
        lives.setdefault(life, []).append(moment)
    for own in lives.values():
        seconds, steps = [moment.seconds for moment in own], [moment.step for moment in own]
        look = {"linestyle": "-" if own[0].rank == 0 else (0, (2.5, 1.2)), "linewidth": 1.1, "color": color}
        [line] = axes.plot(seconds, steps, **look)
        tip = {"rank": own[0].rank, "steps": f"{steps[0]} to {steps[-1]}", "until": f"{blocks.number(seconds[-1])} s"}
        svg.mark(line, [f"rank {own[0].rank}"], tip)
        axes.plot(seconds[:1], steps[:1], "o", markersize=2.4, color=color, markerfacecolor=style.PAPER)
    if (injected := each.account.injected_seconds) is not None:
        reached = max((moment.step for moment in each.account.moments if moment.seconds <= injected), default=0)
        axes.axvline(injected, color=style.FAINT, linewidth=0.6)
        [cross] = axes.plot([injected], [reached], "x", color=style.INK, markersize=5, markeredgewidth=1.2)
        svg.mark(cross, ["the fault"], {"fault": row.fault, "at": f"{blocks.number(injected)} s", "step": reached})
