"""How the numbers came about."""

from common.records import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.tables.material import Material
from reports.words import disturbances


def section(material: Material) -> list[blocks.Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers", level=2),
        blocks.items(
            [
                "Every launch is a fresh process. Windows of many steps are clocked, after a warm-up; the slowest rank "
                "of each window sets its cost, and a launch counts by its median window.",
                "A number is the median over n launches, with an interval by order statistics that covers the true "
                f"median in at least 95 % of experiments; below n = {FEWEST_LAUNCHES} there is none. No launch is "
                "dropped, but those that stopped on the way to save checkpoints are no part of the throughput.",
                "Two of these intervals, apart or not, decide nothing: tests of pairs within rounds say who is faster.",
                "Launches of different scaling, preset or task never share a curve, nor do virtual hosts and real "
                "ones. Options that aren't at their default, hosts and links stand behind the strategy's name, and "
                "make a curve of their own. Options that compute other maths are shown and not ranked.",
                "\u201cOver own 1\u201d is the speed-up over one worker of the same strategy. Ratios are those of "
                "medians and carry no interval. The time to the first step is no part of the throughput.",
                "Asynchronous launches of several workers aren't held to the oracle: the order of their updates isn't "
                "repeatable.",
                "Weak scaling keeps the rows of each worker, strong scaling those of all workers together. A round is "
                "a block of launches, each configuration once. The straggler is the slowest rank of a synchronous "
                "step, for which all others wait. A p value is how often strategies that are equally fast would differ "
                "by as much: it is no size of a difference.",
                f"Was the machine quiet? {disturbances.finding(material.disturbances)}",
                calibration.for_report(material.results.folder),
            ]
        ),
    ]
