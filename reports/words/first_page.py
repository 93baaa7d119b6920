"""The first page, for the PDF, the page and the terminal: which strategy to take, how sure that is, what to do next."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations import numbers
from common.observations.answers import EQUIVALENT, FASTEST, NOT_RANKED, UNDECIDED
from common.records import calibration, manifest
from common.records.certificate import DEVIATES
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import DASH, Block, shortened
from reports.charts import bars, style
from reports.tables import ranking as ranking_tables
from reports.tables import summaries
from reports.tables.decomposition import REST, UNDIVIDED, WAITING
from reports.tables.disturbances import disturbed_rounds
from reports.tables.material import Material
from reports.tables.standings import MOST_ROWS, of_regime
from reports.words import certainty, certificate
from reports.words.scaling import batch_in_words

_LIMITS = {WAITING: "straggler", UNDIVIDED: "exchange, computing", REST: "unexplained"}
"""Two words at most for each part of a step; the others' own names serve."""

_MOST_OTHERS = 4  # The first page has room for the fastest strategies of so many other configurations.
COLUMNS = ["strategy", "samples/s", "relative", "95 % interval", "speed-up", "limited by", "certificate", "verdict"]


def section(material: Material) -> list[Block]:
    """The answer in a sentence, the ranking table, a figure, how sure it is, and what to do next.

    They are those of the first regime; of the others the fastest strategies have a row each.
    """
    rows = of_regime(material, material.regimes[0]) if material.regimes else None
    certainty, commands = _certainty(material), _commands(material, rows)
    ending = [blocks.answers([("How sure", certainty), *([("What next", commands)] if commands else [])])]
    if rows is None:
        nothing = "No launch ended ok with a measurement, so there is no speed to compare."
        return [blocks.heading("Finding"), blocks.headline(nothing), *ending]
    first, *further = material.regimes
    cell = rows.iloc[0]
    about = f"Preset {cell['preset']}, {cell['scaling']} scaling, {batch_in_words(rows)}"
    return [
        blocks.heading("Finding"),
        blocks.headline(headline(rows)),
        blocks.text(f"{about}, {blocks.workers(cell['workers'])}."),
        ranking_table(rows),
        *others({material.names[regime]: of_regime(material, regime) for regime in further}),
        _figure(material, first, rows),
        *ending,
    ]


def _certainty(material: Material) -> list[str]:
    """What the tests can tell, whether all computed the same, and what happened to the launches: a line each.

    Files that differ, and strategies that are missing, stand beside them.
    """
    tested = certainty.resolution(material.ranking, material.regimes[0]) if material.regimes else ""
    ended = [ending_counts(material.endings)]
    if rounds := disturbed_rounds(material.disturbances):
        ended.append(f"{len(rounds)} round{'s were' if len(rounds) > 1 else ' was'} disturbed.")
    if found := len(certainty.cautions(material.launches, material.results.records)):
        ended.append(f"Cautions, in \u201cHow sure\u201d: {found}.")
    return [
        *(f"It counts as not run: {sentence}" for sentence in material.results.damaged.values()),
        *manifest.in_words(material.results.origin.differences),
        tested or f"No test: that takes {FEWEST_LAUNCHES} rounds of two strategies.",
        certificate.sentence(material.certificates),
        " ".join(ended),
        *missing_strategies(material.endings, material.results.left_out),
    ]


def ending_counts(table: pd.DataFrame) -> str:
    """How many launches of `endings` ended how; planned ones that have no record count as not run."""
    planned = int(table["planned"].sum())
    head = f"{planned} launches were planned" if planned else f"{len(table)} launches were recorded, without a plan"
    if 0 < planned < len(table):
        head += f" ({len(table) - planned} more were recorded beside the plan)"
    counts = [f"{(table['ending'] == ending).sum()} {ending}" for ending in ("ok", "unsupported", "failed", "not run")]
    return f"{head}: {', '.join(counts)}."


def missing_strategies(table: pd.DataFrame, minutes: Mapping[str, float]) -> list[str]:
    """A sentence for each reason in `endings` why strategies have no `ok` launch, and on lack of `minutes`."""
    is_ok = (table["ending"] == "ok").groupby(table["bare_strategy"]).transform("any")
    ended = table[~is_ok & table["ending"].isin(["unsupported", "failed"])].drop_duplicates("bare_strategy")
    said = [
        f"Not compared: {blocks.listed(sorted(own['bare_strategy']))}. {str(reason).rstrip('.')}."
        for reason, own in ended.groupby("reason")
    ]
    if minutes:
        names = [f"{name} (--minutes {math.ceil(each)} would do)" for name, each in minutes.items()]
        said.append(f"The time didn't suffice for {blocks.listed(names)}.")
    return said


def _commands(material: Material, rows: pd.DataFrame | None) -> list[str]:
    """At most two commands, each with what it is good for."""
    commands, command = [], material.results.origin.command
    unmade = int(material.endings["ending"].isin(["failed", "not run"]).sum())
    if unmade and command:
        launches = "launch that failed or is" if unmade == 1 else f"{unmade} launches that failed or are"
        commands.append(f"{command}: makes the {launches} missing.")
    if rows is not None:
        again = "nox -s compare -- --repetitions"
        tested = ranking_tables.tested(material.ranking.comparisons)
        if tested.empty and len(material.ranking.comparisons):
            commands.append(f"{again} {FEWEST_LAUNCHES}: so many rounds can be tested.")
        elif len(tested) and rows["verdict"].iloc[0] == UNDECIDED:
            commands.append(f"{again} {2 * rows['n'].iloc[0]}: twice as many rounds narrow intervals by about 30 %.")
        if len(tested) and not (material.results.folder / calibration.FILE).exists():
            commands.append("nox -s calibrate tells whether these tests keep their promises on this machine.")
        commands.append(f"nox -s {rows['bare_strategy'].iloc[0]}: trains with it; -- --help lists its options.")
    return commands[:2]


def _figure(material: Material, regime: str, rows: pd.DataFrame) -> Block:
    """The rate of every strategy of the table, and of their bases with one worker; of very many the fastest ones'."""
    cells = summaries.with_exchange(material.cells, regime)
    keys = ["strategy", "workers", "placement"]
    ranked = rows.sort_values("samples_per_second", ascending=False)[keys][:MOST_ROWS].merge(cells, on=keys)
    is_base = (cells["workers"] == 1) & cells["strategy"].isin(ranked["base"])
    bases = cells[is_base].sort_values("samples_per_second", ascending=False)
    shown = pd.concat([ranked, bases]).drop_duplicates(keys)
    launches = summaries.with_exchange(material.launches, regime).merge(shown[keys], on=keys)
    draw = partial(bars.headline, shown, launches, style.styles(material.colors))
    only = f" The fastest {MOST_ROWS} of {len(rows)}." if len(rows) > MOST_ROWS else ""
    beside = " Pale: one worker of a base." if len(shown) > len(ranked) else ""
    oversubscribed = f" {blocks.DAGGER} more threads than cores." if shown["oversubscribed"].any() else ""
    caption = (
        f"Samples per second, {material.names[regime]}: medians over n = {blocks.span(shown['n'])} launches."
        f"{beside}{oversubscribed}{only}"
    )
    fastest = ranked.iloc[0]
    rate = f"{fastest['samples_per_second']:,.0f} samples per second"
    alt = f"A bar for each strategy, from {fastest['strategy']} with {rate} down; the table of cells has all numbers."
    return blocks.figure("headline", draw, caption, alt, stacks=True)


def ranking_table(rows: pd.DataFrame) -> Block:
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
