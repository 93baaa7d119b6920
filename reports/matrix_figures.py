"""The picture of matrix products, time over size, alone and over workers: `python -m reports.matrix_figures`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import matplotlib
import tyro

from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, write_atomically
from common.records import matrix_rows
from common.records.matrix_products import MatrixRecord
from common.records.matrix_rows import Row
from common.records.presentation import read_presented
from reports import blocks
from reports.charts import layout, style, svg

_PANEL_HEIGHT = 92.0  # Millimetres.


def products(rows: Sequence[Row]) -> bytes:
    """Milliseconds of a product over the size of its matrices as SVG, both logarithmic: a line for each way.

    Every launch is a faint mark, a line joins the medians, whose intervals are upright lines. The legend has the fitted
    exponents of the ways in one process.
    """
    groups = {f"{own[0].title}, {own[0].workers}": own for own in matrix_rows.by_way(rows)}
    # What distributes has its family's hue, what is one process is grey.
    looks = style.styles({name: own[0].colors if own[0].workers > 1 else () for name, own in groups.items()})
    handles: list[layout.Handle] = []
    for name, own in groups.items():
        first, dagger = own[0], " \N{DAGGER}" * any(row.oversubscribed for row in own)
        fitted = matrix_rows.exponent(own) if first.workers == 1 else None
        way = first.title + (f", {first.workers} workers" if first.workers > 1 else "") + dagger
        handles.append(layout.line_handle(name, looks[name]))
        handles[-1].set_label(style.literal(way) + (f":\nsize^{fitted.value.value:.2f}" if fitted else ""))
    handles += layout.mark_handles(any(row.seconds.low is not None for row in rows), oversubscribed=False)
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_PANEL_HEIGHT], left=13, between=0, handles=handles)
        for name, own in groups.items():
            # A little aside, so that no way hides another.
            points = [_point(row, 2 ** looks[name].shift) for row in own]
            layout.draw_points(axes, name, points, looks[name])
        sizes = sorted({row.size for row in rows})
        axes.set(yscale="log", title="C = A B: milliseconds of one product")
        layout.plain_log_axis(axes)
        layout.measured_places(axes, {size: str(size) for size in sizes}, "rows and columns of the matrices")
        return svg.svg(figure)


def _point(row: Row, aside: float) -> layout.Point:
    times, seconds = [1000 * each for each in row.launch_seconds.values()], row.seconds
    interval = None if seconds.low is None or seconds.high is None else (1000 * seconds.low, 1000 * seconds.high)
    tip = {"size": row.size, "ms": blocks.milliseconds(seconds.median), "launches (n)": seconds.n}
    tips = [{"size": row.size, "a launch, ms": blocks.number(time)} for time in times]
    return layout.Point(row.size * aside, times, 1000 * seconds.median, interval, row.oversubscribed, tip, tips)


def write_figure(results: Path, out: Path = Path("reports/out/matrix_products.svg")) -> None:
    """Draw what a session of matrix products measured.

    Args:
        results: The session's folder, with its records (*.json).
        out: The SVG to write.
    """
    rows = matrix_rows.rows(read_presented(results, MatrixRecord))
    if not rows:
        raise UserError(f"{results} has no record of a launch that multiplied anything: name another --results.")
    ensure_writable(out)
    write_atomically(out, products(rows))
    print(f"{out}: {len(rows)} sizes of {len(matrix_rows.by_way(rows))} ways")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_figure, description=__doc__))
