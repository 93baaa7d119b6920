"""The sentence and the ranking table of the first page, for the PDF, the page and the terminal."""

import math
from collections.abc import Mapping, Sequence

from common.records.certificate import DEVIATES
from reports import blocks
from reports.blocks import DASH, Block
from reports.tables.decomposition import REST, UNDIVIDED, WAITING
from reports.tables.standings import EQUIVALENT, FASTEST, MOST_ROWS, NOT_RANKED, UNDECIDED, Limit, Standing

_LIMITS = {WAITING: "straggler", UNDIVIDED: "exchange, computing", REST: "unexplained"}
"""Two words at most for each part of a step; the others' own names serve."""

_MOST_OTHERS = 4
"""The first page has room for the fastest strategies of so many other configurations."""

COLUMNS = ["strategy", "samples/s", "relative", "95 % interval", "speed-up", "limited by", "certificate", "verdict"]


def table(rows: Sequence[Standing]) -> Block:
    """The ranking table, with its baselines and the reasons of those that aren't ranked below it."""
    baselines = [
        f"{name} ({rate:,.0f} samples/s, n = {n})"
        for name, rate, n in sorted({(row.baseline, row.baseline_rate, row.baseline_n) for row in rows if row.baseline})
    ]
    over = f" Speed-up: over one worker of {blocks.some(baselines, 4)}." if baselines else ""
    n = blocks.span(row.n for row in rows)
    notes = [f"Relative: how many times as long as the fastest it takes. n = {n} launches each.{over}"]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.strategy)
    notes += [f"Not ranked {reason}: {blocks.some(names, 4)}." for reason, names in reasons.items()]
    if len(rows) > MOST_ROWS:
        notes.append(f"The fastest {MOST_ROWS} of {len(rows)}; \u201cSpeed\u201d has all.")
    return blocks.table(COLUMNS, [_cells(row) for row in rows[:MOST_ROWS]], notes, left=(0, 5, 6, 7), warned=DEVIATES)


def _cells(row: Standing) -> list[str]:
    return [
        row.strategy,
        f"{row.rate:,.0f}",
        f"{row.relative:.2f}",
        blocks.interval(row.low, row.high),
        blocks.ratio(row.speed_up),
        limit_in_words(row.limit),
        row.certificate or DASH,
        row.verdict,
    ]


def limit_in_words(limit: Limit | None) -> str:
    """The part in two words, with its share of the step."""
    if limit is None:
        return DASH
    return f"{_LIMITS.get(limit.part, limit.part)} {blocks.percent(limit.share)}" if limit.counts else "nothing"


def headline(rows: Sequence[Standing]) -> str:
    """Which strategy to take, how much faster than one worker it is, and how sure that is, in one sentence."""
    first, ranked = rows[0], [row for row in rows if row.verdict != NOT_RANKED]
    undecided = [row for row in ranked[1:] if row.verdict == UNDECIDED]
    equivalent = [row for row in ranked if row.verdict == EQUIVALENT]
    place = f"with {blocks.workers(first.workers)}"
    gain, pays = "", True
    if first.workers > 1 and first.baseline and not math.isnan(first.speed_up):
        gain = f", {blocks.ratio(first.speed_up)} times as fast as one worker of {first.baseline} by the medians"
        pays = first.speed_up > 1
    if first.verdict not in (FASTEST, UNDECIDED) or all(math.isnan(row.low) for row in rows):
        return f"No test ranks the strategies {place}: {first.strategy} had the highest rate{gain}."
    if undecided:
        rivals = undecided[0].strategy if len(undecided) == 1 else f"{len(undecided)} others"
        return f"No strategy is shown to be the fastest {place}: {first.strategy} can't be told from {rivals}{gain}."
    advice = f"Take {first.strategy} {place}" if pays else f"Don't distribute. {first.strategy} {place}"
    if equivalent:
        rivals = equivalent[0].strategy if len(equivalent) == 1 else f"{len(equivalent)} others"
        return f"{advice}: equivalent to {rivals} at 95 % confidence{gain}."
    return f"{advice}: the fastest of {len(ranked)} at 95 % confidence{gain}."


def others(by_regime: Mapping[str, Sequence[Standing]]) -> list[Block]:
    """The fastest strategy of other configurations by their short names, a row each; nothing without any."""
    columns = ["other configuration", "workers", "strategy", "samples/s", "speed-up", "certificate", "verdict"]
    rows = [
        [
            name,
            str(fastest.workers),
            fastest.strategy,
            f"{fastest.rate:,.0f}",
            blocks.ratio(fastest.speed_up),
            fastest.certificate or DASH,
            fastest.verdict,
        ]
        for name, [fastest, *_] in by_regime.items()
    ]
    unshown = len(rows) - _MOST_OTHERS
    more = [f"{unshown} more configurations are in \u201cTables\u201d."] if unshown > 0 else []
    return [blocks.table(columns, rows[:_MOST_OTHERS], more, left=(0, 2, 5, 6), warned=DEVIATES)] if rows else []


def in_text(rows: Sequence[Standing], encoding: str = "utf-8") -> str:
    """The sentence and the ranking table for a terminal; letters that it can't show become `?`."""
    lines = [[_for_terminal(cell, encoding) for cell in line] for line in (COLUMNS, *map(_cells, rows))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    written = [
        "  ".join(
            cell.rjust(width) if 1 <= index <= 4 else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([_for_terminal(headline(rows), encoding), "", *written])


def _for_terminal(text: str, encoding: str) -> str:
    printable = "".join(letter if letter.isprintable() else "?" for letter in text.replace(DASH, "-"))
    return printable.encode(encoding, "replace").decode(encoding)
