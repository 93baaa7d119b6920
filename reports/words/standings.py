"""The sentence and the ranking table of the first page, for the PDF, the page and the terminal."""

import math
from collections.abc import Mapping

import pandas as pd

from common.observations import numbers
from common.observations.answers import EQUIVALENT, FASTEST, NOT_RANKED, UNDECIDED
from common.records.certificate import DEVIATES
from reports import blocks
from reports.blocks import DASH, Block, shortened
from reports.tables.decomposition import REST, UNDIVIDED, WAITING
from reports.tables.standings import MOST_ROWS

_LIMITS = {WAITING: "straggler", UNDIVIDED: "exchange, computing", REST: "unexplained"}
"""Two words at most for each part of a step; the others' own names serve."""

_MOST_OTHERS = 4  # The first page has room for the fastest strategies of so many other configurations.
COLUMNS = ["strategy", "samples/s", "relative", "95 % interval", "speed-up", "limited by", "certificate", "verdict"]


def table(rows: pd.DataFrame) -> Block:
    """The ranking table, with its baselines and the reasons of those that aren't ranked below it."""
    own = rows.dropna(subset=["base"]).sort_values("base").drop_duplicates("base")
    bases = [f"{row.base} ({row.base_samples_per_second:,.0f} samples/s, n = {row.base_n})" for row in own.itertuples()]
    over = f" Speed-up: over one worker of {blocks.some(bases, 4)}." if bases else ""
    notes = [f"Relative: its time over that of the fastest. n = {blocks.span(rows['n'])} launches each.{over}"]
    for reason, unranked in rows[rows["reason"] != ""].groupby("reason", sort=False):
        notes.append(f"Not ranked {reason}: {blocks.some([*map(shortened, unranked['strategy'])], 4)}.")
    if len(rows) > MOST_ROWS:
        notes.append(f"The fastest {MOST_ROWS} of {len(rows)}; the table \u201ccells\u201d has all.")
    return blocks.table(COLUMNS, _lines(rows[:MOST_ROWS]), notes, warned=DEVIATES)


def _lines(rows: pd.DataFrame) -> list[list[str]]:
    return [
        [
            shortened(row.strategy),
            f"{row.samples_per_second:,.0f}",
            f"{row.relative:.2f}",
            numbers.interval(row.low, row.high),
            numbers.ratio(row.speed_up),
            _limit_in_words(row.part, row.share, row.is_limit),
            row.certificate or DASH,
            row.verdict,
        ]
        for row in rows.itertuples()
    ]


def _limit_in_words(part: str, share: float, is_limit: bool) -> str:
    """What takes most of a step beyond the ideal one, in two words, with its share of the step."""
    if math.isnan(share):
        return DASH
    return f"{_LIMITS.get(part, part)} {share_in_words(share)}" if is_limit else "nothing"


def share_in_words(share: float) -> str:
    """A part's share of the measured step: a part that few rounds have may be longer than the median step."""
    return numbers.percent(share) if share <= 1 else "over 100 %"


def headline(rows: pd.DataFrame) -> str:
    """Which strategy to take, how much faster than one worker it is, and how sure that is, in one sentence."""
    first, ranked = rows.iloc[0], rows[rows["verdict"] != NOT_RANKED]
    others = ranked[1:]
    undecided = [*others[others["verdict"] == UNDECIDED]["strategy"]]
    equivalent = [*ranked[ranked["verdict"] == EQUIVALENT]["strategy"]]
    name, place, gain = shortened(first["strategy"]), f"with {blocks.workers(first['workers'])}", ""
    if first["workers"] > 1 and not math.isnan(first["speed_up"]):
        gain = f", {numbers.ratio(first['speed_up'])} times as fast as one worker of {first['base']} by the medians"
    if first["verdict"] not in (FASTEST, UNDECIDED) or rows["low"].isna().all():
        return f"No test ranks the strategies {place}: {name} had the highest rate{gain}."
    if undecided:
        return f"No strategy is shown to be the fastest {place}: {name} can't be told from {_rivals(undecided)}{gain}."
    advice = f"Don't distribute. {name} {place}" if gain and first["speed_up"] <= 1 else f"Take {name} {place}"
    shown = f"equivalent to {_rivals(equivalent)}" if equivalent else f"the fastest of {len(ranked)}"
    return f"{advice}: {shown} at 95 % confidence{gain}."


def _rivals(names: list[str]) -> str:
    return shortened(names[0]) if len(names) == 1 else f"{len(names)} others"


def others(by_regime: Mapping[str, pd.DataFrame]) -> list[Block]:
    """The fastest strategy of other configurations by their short names, a row each; nothing without any."""
    if not by_regime:
        return []
    columns = ["other configuration", "workers", "strategy", "samples/s", "speed-up", "certificate", "verdict"]
    lines = []
    for name, rows in [*by_regime.items()][:_MOST_OTHERS]:
        strategy, rate, _, _, speed_up, _, certificate, verdict = _lines(rows[:1])[0]
        lines.append([name, str(rows["workers"].iloc[0]), strategy, rate, speed_up, certificate, verdict])
    unshown = len(by_regime) - _MOST_OTHERS
    notes = [f"{unshown} more configurations are in the table \u201ccells\u201d."] if unshown > 0 else []
    return [blocks.table(columns, lines, notes, warned=DEVIATES)]


def in_text(rows: pd.DataFrame, encoding: str = "utf-8") -> str:
    """The sentence and the ranking table for a terminal; letters that it can't show become `?`."""
    lines = [[_for_terminal(cell, encoding) for cell in line] for line in (COLUMNS, *_lines(rows))]
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
