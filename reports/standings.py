"""The ranking table of the first page as typed rows, which serve the PDF, the page and the terminal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from reports import blocks, certificate, ranking, summaries
from reports.blocks import DASH, Block
from reports.material import Material
from reports.tables.decomposition import REST, UNDIVIDED, WAITING, largest

FASTEST, EQUIVALENT, SLOWER, UNDECIDED, NOT_RANKED = "fastest", "equivalent", "slower", "can't tell", "not ranked"

MOST_ROWS = 12
"""The table and the figure of the first page have room for as many strategies, the fastest of more."""

_MOST_OTHERS = 4
"""The first page has room for the fastest strategies of so many other configurations."""

COLUMNS = ["strategy", "samples/s", "relative", "95 % interval", "speed-up", "limited by", "certificate", "verdict"]

_VERDICTS = {"faster": SLOWER, "alike": EQUIVALENT, "can't tell": UNDECIDED}
"""What the verdict of a pair, the fastest first, says of the other strategy."""

_LIMITS = {WAITING: "straggler", UNDIVIDED: "exchange, computing", REST: "unexplained"}


@dataclass(frozen=True)
class Standing:
    """One strategy beside the fastest with the same number of workers on the same hosts."""

    strategy: str
    workers: int
    n: int
    """Launches."""
    rate: float
    """Samples per second of the median launch."""
    relative: float
    """How many times as long as the fastest it takes for the same work."""
    low: float
    high: float
    """The family's simultaneous 95 % interval of `relative`; NaN where none was worked out."""
    baseline: str | None
    baseline_rate: float
    """Samples per second of one worker of the baseline, the median of `baseline_n` launches."""
    baseline_n: int
    speed_up: float
    """Over one worker of the baseline; NaN without a baseline."""
    limit: str
    """The largest part of a step beyond the ideal one, with its share of the step."""
    certificate: str
    verdict: str
    reason: str
    """Why it isn't ranked; empty where it is."""


def of_regime(material: Material, regime: str) -> list[Standing]:
    """The strategies with the regime's largest tested number of workers, the fastest first, unranked ones last.

    Without a test those of the largest number of workers that have a core for each thread, if there are any.
    """
    cells = summaries.over_fastest_links(summaries.with_exchange(material.cells, regime))
    comparisons = material.ranking.comparisons
    family = ranking.main_family(comparisons[comparisons["regime"] == regime])
    cells = _of_world(cells, family)
    leader = "" if family.empty else ranking.fastest_of(family)
    pairs = _beside(family, leader)
    reasons = _reasons(material.ranking.unranked, regime, cells)
    best = cells.loc[(cells["strategy"] == leader) | (not leader), "samples_per_second"].max()
    limits = _limits(material.scaling, regime)
    certificates = _certificates(material)
    rows = []
    for cell in cells.sort_values("samples_per_second", ascending=False).to_dict("records"):
        name, workers = cell["strategy"], int(cell["workers"])
        by_medians = float(best / cell["samples_per_second"]), math.nan, math.nan, ""
        relative, low, high, verdict = pairs.get(name, by_medians)
        reason = reasons.get(name, "")
        key = cell["preset"], cell["global_batch"], name, workers
        rows.append(
            Standing(
                strategy=name,
                workers=workers,
                n=int(cell["n"]),
                rate=cell["samples_per_second"],
                relative=relative,
                low=low,
                high=high,
                baseline=cell["base"] if isinstance(cell["base"], str) else None,
                baseline_rate=cell["base_samples_per_second"],
                baseline_n=int(cell["base_n"]),
                speed_up=cell["speed_up"],
                limit=limits.get((name, workers), DASH),
                certificate=certificates.get(key, DASH),
                verdict=verdict or (NOT_RANKED if reason else UNDECIDED),
                reason="" if verdict else reason,
            )
        )
    return sorted(rows, key=lambda row: (row.verdict == NOT_RANKED, row.strategy != leader))


def _of_world(cells: pd.DataFrame, family: pd.DataFrame) -> pd.DataFrame:
    """The cells of the family's world, or else of the largest one that fits the machine."""
    if len(family):
        first = family.iloc[0]
        return cells[(cells["workers"] == first["workers"]) & (cells["placement"] == first["placement"])]
    fitting = cells[~cells["oversubscribed"].astype(bool)]
    fitting = cells if fitting.empty else fitting
    largest = fitting[fitting["workers"] == fitting["workers"].max()]
    return largest[largest["hosts"] == largest["hosts"].max()]


def _beside(family: pd.DataFrame, leader: str) -> dict[str, tuple[float, float, float, str]]:
    """By strategy its time relative to the leader's with the ends of the interval, and the verdict."""
    pairs: dict[str, tuple[float, float, float, str]] = {}
    for row in family.to_dict("records"):
        if row["strategy"] == leader:
            pairs[row["other"]] = row["ratio"], row["low"], row["high"], _VERDICTS[row["verdict"]]
        elif row["other"] == leader:
            pairs[row["strategy"]] = 1 / row["ratio"], 1 / row["high"], 1 / row["low"], _VERDICTS[row["verdict"]]
    if leader:
        undecided = any(verdict == UNDECIDED for *_, verdict in pairs.values())
        pairs[leader] = 1.0, math.nan, math.nan, UNDECIDED if undecided else FASTEST
    return pairs


def _reasons(unranked: pd.DataFrame, regime: str, cells: pd.DataFrame) -> dict[str, str]:
    if cells.empty:
        return {}
    first = cells.iloc[0]
    here = unranked[(unranked["regime"] == regime) & (unranked["workers"] == first["workers"])]
    here = here[here["placement"] == first["placement"]]
    return dict(zip(here["strategy"], here["reason"], strict=True))


def _limits(parts: pd.DataFrame, regime: str) -> dict[tuple[str, int], str]:
    limits = {}
    for row in largest(parts[parts["regime"] == regime]).to_dict("records"):
        words = f"{_LIMITS.get(row['part'], row['part'])} {blocks.percent(row['share'])}"
        limits[row["strategy"], int(row["workers"])] = words if row["is_limit"] else "nothing"
    return limits


def _certificates(material: Material) -> dict[tuple[str, int, str, int], str]:
    """By preset, global batch, strategy and workers the verdict; of several the gravest."""
    rows = material.certificates.to_dict("records")
    rows.sort(key=lambda row: certificate.GRAVEST_FIRST.index(row["verdict"]), reverse=True)
    return {
        (row["preset"], row["global_batch"], row["strategy"], row["workers"]): certificate.verdict_in_words(row)
        for row in rows
    }


def table(rows: Sequence[Standing]) -> Block:
    """The ranking table, with its baselines and the reasons of those that aren't ranked below it."""
    baselines = [
        f"{name} ({rate:,.0f} samples/s, n = {n})"
        for name, rate, n in sorted({(row.baseline, row.baseline_rate, row.baseline_n) for row in rows if row.baseline})
    ]
    over = f" Speed-up: over one worker of {blocks.some(baselines, 4)}." if baselines else ""
    notes = [f"Relative: how many times as long as the fastest it takes. n = {_counts(rows)} launches each.{over}"]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.strategy)
    notes += [f"Not ranked {reason}: {blocks.some(names, 4)}." for reason, names in reasons.items()]
    if len(rows) > MOST_ROWS:
        notes.append(f"The fastest {MOST_ROWS} of {len(rows)}; \u201cSpeed\u201d has all.")
    return blocks.table(COLUMNS, [_cells(row) for row in rows[:MOST_ROWS]], notes, left=(0, 5, 6, 7), warned="deviates")


def _counts(rows: Sequence[Standing]) -> str:
    return blocks.span(pd.Series([row.n for row in rows]))


def _cells(row: Standing) -> list[str]:
    interval = DASH if math.isnan(row.low) else f"{row.low:.2f} to {row.high:.2f}"
    return [
        row.strategy,
        f"{row.rate:,.0f}",
        f"{row.relative:.2f}",
        interval,
        blocks.ratio(row.speed_up),
        row.limit,
        row.certificate,
        row.verdict,
    ]


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
            fastest.certificate,
            fastest.verdict,
        ]
        for name, [fastest, *_] in by_regime.items()
    ]
    unshown = len(rows) - _MOST_OTHERS
    more = [f"{unshown} more configurations are in \u201cTables\u201d."] if unshown > 0 else []
    return [blocks.table(columns, rows[:_MOST_OTHERS], more, left=(0, 2, 5, 6), warned="deviates")] if rows else []


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
