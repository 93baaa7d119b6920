"""Faults: what became of launches that suffered one, in words and in a table."""

from collections.abc import Sequence
from functools import partial

from common.records.certificate import FOLLOWS
from common.records.recovery_rows import COLUMNS, ENDED, OTHER, Row, Saving, cells
from common.statistics.intervals import Interval
from reports import blocks


def headline(rows: Sequence[Row]) -> blocks.Block:
    """Which strategy lost least, and whether all that went on computed the same."""
    gone_on = [row for row in rows if row.goodput and set(row.became) - {ENDED, OTHER}]
    if not gone_on:
        return blocks.headline("No launch went on after its fault.")
    best = max(gone_on, key=lambda row: row.goodput.median if row.goodput else 0.0)
    assert best.goodput, "Those without were left out."
    wrong = [row.strategy for row in rows if OTHER in row.became]
    maths = (
        f"What went on of {blocks.some(wrong)} trained something else."
        if wrong
        else "All that went on followed the oracle to the end."
        if all(set(row.verdicts) == {FOLLOWS} for row in gone_on)
        else "Nothing that went on deviates from its oracle."
    )
    how = "started again from its checkpoint" if best.restarts else "in its own way"
    return blocks.headline(
        f"With {best.fault}, {best.strategy} kept most by the medians, {how}: {_share(best.goodput)} of the steps per "
        f"second of an undisturbed launch. {maths}"
    )


def _share(goodput: Interval) -> str:
    """A share in per cent, with the interval that it may have."""
    share = blocks.percent(goodput.median)
    if goodput.low is None or goodput.high is None:
        return share
    return f"{share} ({100 * goodput.low:.0f} to {blocks.percent(goodput.high)})"


def tables(rows: Sequence[Row]) -> list[blocks.Block]:
    """By fault each strategy: who noticed, what followed, and what it cost; what lost least comes first."""
    notes = [
        "Medians over n launches, from six on with an interval that covers the true median in 95 % of experiments.",
        "Of undisturbed: steps of the training per second of the whole launch, over those of the launch without a "
        "fault in the same round.",
    ]
    parts: list[blocks.Block] = []
    for fault in dict.fromkeys(row.fault for row in rows):
        own = [row for row in rows if row.fault == fault]
        own.sort(key=lambda row: (-(row.goodput.median if row.goodput else 0.0), row.strategy))
        columns = [name for name in COLUMNS if name != "fault"]
        lines = [[cell for name, cell in zip(COLUMNS, cells(row), strict=True) if name != "fault"] for row in own]
        parts.append(blocks.heading(blocks.capitalized(fault)))
        parts.append(blocks.table(columns, lines, notes, left=(0, 2, 3, 7), wide={0: 5, 2: 3, 3: 3, 7: 2}))
    return parts


def saving(rows: Sequence[Saving]) -> list[blocks.Block]:
    """What a checkpoint costs while nothing disturbs the training; none where no launch tells."""
    if not rows:
        return []
    lines = [
        [
            row.strategy,
            blocks.estimate(row.seconds, blocks.milliseconds),
            blocks.estimate(row.share, partial(blocks.percent, digits=1)),
            str(row.n),
        ]
        for row in rows
    ]
    notes = [
        "Of undisturbed launches: how much longer training stands still between two windows where it saves a "
        "checkpoint, which has the test accuracy as well, than elsewhere, and its share of the clocked training.",
    ]
    return [
        blocks.heading("What saving costs"),
        blocks.table(["strategy", "a checkpoint, ms", "of the training", "n"], lines, notes, left=(0,)),
    ]


def messages(rows: Sequence[Row]) -> list[blocks.Block]:
    """In which words each fault was noticed."""
    said = {f"{row.strategy} ({row.fault}): {row.message}" for row in rows if row.message}
    return [blocks.heading("In which words it was noticed"), blocks.items(sorted(said))] if said else []


def method(rows: Sequence[Row]) -> list[blocks.Block]:
    """How the numbers came about."""
    task = rows[0].launches[0].record.task
    return [
        blocks.heading("How to read these numbers"),
        blocks.items(
            [
                "A fault is a signal from outside to the process of one rank, or happens to a virtual host: its "
                "cable is pulled. Before the step that the fault names, a process waits until it has come; nothing in "
                "a strategy's loop knows of it.",
                "Noticed after: from the signal until the first process that the launch had started ended for it, "
                f"by whichever said so. An attempt is ended after {task.deadline_seconds:g} s at the latest.",
                "Then: a launch ends for good, is started again by `nox -s` from its checkpoint, which is saved every "
                f"{task.checkpoint_steps} steps, or goes on by itself: its own system starts the worker again, or does "
                "without.",
                "Next step after: from the signal until a window of steps was ended that nobody had computed before "
                "the signal, or that was computed from a checkpoint or a copy in memory. Steps again: those after "
                "that, computed twice.",
                "The maths then: updates and losses of what went on, held to the float64 oracle from the step "
                "on that it went on with, and its rows counted.",
            ]
        ),
    ]
