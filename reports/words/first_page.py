"""The first page: which strategy to take and what limits it, how sure that is, and what to do next."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations.answers import UNDECIDED
from common.records import calibration, manifest
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import bars, style
from reports.tables import ranking as ranking_tables
from reports.tables import summaries
from reports.tables.disturbances import disturbed_rounds
from reports.tables.material import Material
from reports.tables.standings import MOST_ROWS, of_regime
from reports.words import certainty, certificate, ranking, standings
from reports.words.scaling import batch_in_words


def section(material: Material) -> list[blocks.Block]:
    """The answer in a sentence, the ranking table, a figure, how sure it is, and what to do next.

    They are those of the first regime; of the others the fastest strategies have a row each.
    """
    rows = of_regime(material, material.regimes[0]) if material.regimes else None
    certainty, commands = _certainty(material), _commands(material, rows)
    ending = [blocks.answers([("How sure", certainty), *([("What next", commands)] if commands else [])])]
    if rows is None:
        nothing = "No launch ended ok with a measurement, so there is no speed to compare."
        return [blocks.heading("Finding"), blocks.headline(nothing), *ending]
    first, *others = material.regimes
    cell = rows.iloc[0]
    about = f"Preset {cell['preset']}, {cell['scaling']} scaling, {batch_in_words(rows)}"
    return [
        blocks.heading("Finding"),
        blocks.headline(standings.headline(rows)),
        blocks.text(f"{about}, {blocks.workers(cell['workers'])}."),
        standings.table(rows),
        *standings.others({material.names[regime]: of_regime(material, regime) for regime in others}),
        _figure(material, first, rows),
        *ending,
    ]


def _certainty(material: Material) -> list[str]:
    """What the tests can tell, whether all computed the same, and what happened to the launches: a line each.

    Files that differ, and strategies that are missing, stand beside them.
    """
    tested = ranking.resolution(material.ranking, material.regimes[0]) if material.regimes else ""
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


def _figure(material: Material, regime: str, rows: pd.DataFrame) -> blocks.Block:
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
