"""The picture of matrix products, time over size, alone and over workers: `python -m reports.matrix_figures`."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import tyro
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, write_atomically
from common.records import matrix_rows
from common.records.matrix_products import MatrixRecord
from common.records.matrix_rows import Row
from common.records.presentation import read_presented
from reports.charts import layout, style, svg
from reports.charts.style import Style

_PANEL_HEIGHT = 92.0  # Millimetres.


def products(rows: Sequence[Row]) -> bytes:
    """Milliseconds of a product over the size of its matrices as SVG, both logarithmic: a line for each way.

    Every launch is a faint mark, a line joins the medians, whose intervals are upright lines. The legend has the fitted
    exponents of the ways in one process.
    """
    groups = matrix_rows.by_way(rows)
    looks = _looks(groups)
    handles = []
    for own, look in zip(groups, looks, strict=True):
        handle = layout.line_handle(own[0].title, look)
        handle.set_label(_label(own))
        handles.append(handle)
    handles += layout.mark_handles(any(row.seconds.low is not None for row in rows), oversubscribed=False)
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, style.WIDTH, [_PANEL_HEIGHT], left=13, between=0, handles=handles)
        for own, look in zip(groups, looks, strict=True):
            _draw(axes, own, look)
        sizes = sorted({row.size for row in rows})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        layout.plain_log_axis(axes)
        axes.set_xlabel("rows and columns of the matrices")
        axes.set_title("C = A B: milliseconds of one product")
        return svg.svg(figure)


def _looks(groups: Sequence[Sequence[Row]]) -> list[Style]:
    """What distributes in its family's hue, what is one process in grey."""
    names = [f"{own[0].title}, {own[0].workers}" for own in groups]
    colors = [own[0].colors if own[0].workers > 1 else () for own in groups]
    found = style.styles(dict(zip(names, colors, strict=True)))
    return [found[name] for name in names]


def _label(own: Sequence[Row]) -> str:
    first = own[0]
    name = first.title + (f", {first.workers} workers" if first.workers > 1 else "")
    if any(row.oversubscribed for row in own):
        name += " \N{DAGGER}"
    fitted = matrix_rows.exponent(own) if first.workers == 1 else None
    return style.literal(name) + (f":\nsize^{fitted.value.value:.2f}" if fitted else "")


def _draw(axes: Axes, own: Sequence[Row], look: Style) -> None:
    """One way: its launches, its medians and their intervals, a little aside so that no way hides another."""
    aside = 2**look.shift
    for row in own:
        times = [1000 * seconds for seconds in row.launch_seconds.values()]
        axes.plot(
            *([row.size * aside] * len(times), times),
            **{"linestyle": "none", "marker": "o", "markersize": 2.2, "alpha": 0.3, "markeredgewidth": 0},
            **{"color": look.color},
        )
        if row.seconds.low is not None:
            ends = (1000 * row.seconds.low, 1000 * row.seconds.high)
            axes.vlines(row.size * aside, *ends, color=look.color, linewidth=2.2, alpha=0.5)
    fill = style.PAPER if any(row.oversubscribed for row in own) else look.color
    axes.plot(
        *([row.size * aside for row in own], [1000 * row.seconds.median for row in own]),
        **{"color": look.color, "linestyle": look.line, "marker": look.marker, "markersize": 3.8},
        **{"markerfacecolor": fill, "markeredgewidth": 0.8},
    )


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


def main() -> None:
    """Run the command line. Raises UserError for records that can't be read, and where the file can't be written."""
    tyro.cli(write_figure, description=__doc__)


if __name__ == "__main__":
    exit_with_one_line(main)
