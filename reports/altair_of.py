"""Tables to charts that answer to the mouse: for figures of the report, from the same arguments, the same marks."""

from collections.abc import Callable
from functools import partial

from reports import bandwidth_charts, deviation_charts, scaling_charts, speed_charts, strategy_charts
from reports.chart_parts import Chart
from reports.charts import deviation as deviation_figures
from reports.charts import speed as speed_figures
from reports.charts import steps as scaling_figures
from reports.charts import strategy as strategy_figures
from reports.charts import sweep as bandwidth_figures


def chart_of(draw: Callable[[], bytes]) -> Chart | None:
    """The chart of a figure that `draw` would draw as an SVG; none where that has no chart."""
    make = _CHARTS.get(draw.func) if isinstance(draw, partial) else None
    return make(*draw.args, **draw.keywords) if make else None


_CHARTS = {
    speed_figures.headline: speed_charts.headline,
    speed_figures.curves: speed_charts.curves,
    # One plot tells many strategies apart where a click on a name shows it alone.
    speed_figures.multiples: speed_charts.curves,
    deviation_figures.losses: deviation_charts.losses,
    deviation_figures.residuals: deviation_charts.residuals,
    scaling_figures.scaling: scaling_charts.scaling,
    strategy_figures.strategy: strategy_charts.strategy,
    bandwidth_figures.sweep: bandwidth_charts.sweep,
}
"""By the function that draws a figure the one that makes a chart of the same arguments."""
