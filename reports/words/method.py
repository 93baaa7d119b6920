"""How the numbers came about."""

from common.sessions import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.tables.material import Material


def section(material: Material) -> list[Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers", level=2),
        blocks.items(
            [
                "Every launch is a fresh process. Windows of many steps are clocked, after a warm-up; the slowest rank "
                "of each window sets its cost, and a launch counts by its median window.",
                "A number is the median over n launches. Its interval goes from one launch to another (order "
                f"statistics) and covers the true median in at least 95 % of experiments; below n = {FEWEST_LAUNCHES} "
                "no such interval exists, and none is printed. No launch is dropped; those that stopped on the way to "
                "save checkpoints serve the certificate and the accuracy, and are no part of the throughput.",
                "Two of these intervals, apart or not, decide nothing: who is faster, or alike, is said by tests of "
                "pairs within rounds.",
                "Launches of different scaling, preset or task never share a curve. A strategy's own options stand "
                "beside its name where they aren't at their default, and make a curve of their own; so do the hosts "
                "and the link between them where workers are on several, and virtual hosts never share one with real "
                "ones. Options that compute other maths are shown and not ranked.",
                "\u201cOver own 1\u201d is the speed-up over one worker of the same strategy. Ratios are those of "
                "medians and carry no interval of their own. Efficiency is the speed-up per worker. The time to the "
                "first step is no part of the throughput.",
                "Asynchronous launches are held to the oracle with one worker only: with more, a step is one worker's "
                "update, and the order of the updates isn't repeatable.",
                calibration.for_report(material.results.folder),
            ]
        ),
    ]
