"""The first page: which strategy to take and what limits it, how sure that is, and what to do next."""

from functools import partial

import pandas as pd

from common.observations.answers import in_front
from common.records import calibration, manifest
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import speed as speed_charts
from reports.charts import style
from reports.tables import summaries
from reports.tables.disturbances import disturbed_rounds
from reports.tables.material import Material
from reports.tables.ranking import as_pairs, main_family
from reports.tables.standings import MOST_ROWS, of_regime
from reports.words import certificate, endings, ranking, standings
from reports.words.cautions import cautions
from reports.words.scaling import batch_in_words

_NOTHING = "No launch ended ok with a measurement, so there is no speed to compare."


def section(material: Material) -> list[blocks.Block]:
    """The answer in a sentence, the ranking table, a figure, how sure it is, and what to do next.

    They are those of the first regime; of the others the fastest strategies have a row each.
    """
    regimes = material.regimes
    rows = of_regime(material, regimes[0]) if regimes else None
    certainty, commands = _certainty(material), _commands(material, rows)
    ending = [blocks.answers([("How sure", certainty), *([("What next", commands)] if commands else [])])]
    if not regimes:
        return [blocks.heading("Finding"), blocks.headline(_NOTHING), *ending]
    names = material.names
    first, *others = regimes
    shown = summaries.with_exchange(material.cells, first)
    cell = shown.iloc[0]
    return [
        blocks.heading("Finding"),
        blocks.headline(standings.headline(rows)),
        blocks.text(
            f"Preset {cell['preset']}, {cell['scaling']} scaling, {batch_in_words(shown)}, "
            f"{blocks.workers(rows['workers'].iloc[0])}."
        ),
        standings.table(rows),
        *standings.others({names[regime]: of_regime(material, regime) for regime in others}),
        _figure(material, first, rows),
        *ending,
    ]


def _certainty(material: Material) -> list[str]:
    """What the tests can tell, whether all computed the same, and what happened to the launches: a line each.

    Files that differ, and strategies that are missing, stand beside them.
    """
    tested = ranking.resolution(material.ranking, material.regimes[0]) if material.regimes else ""
    ended = [endings.sentence(material.endings)]
    if rounds := disturbed_rounds(material.disturbances):
        ended.append(f"{len(rounds)} round{'s were' if len(rounds) > 1 else ' was'} disturbed.")
    if found := len(cautions(material.launches, material.results.records)):
        kinds = "1 more thing makes" if found == 1 else f"{found} more things make"
        ended.append(f"{kinds} some numbers less certain: see \u201cHow sure\u201d.")
    damaged = [f"It counts as not run: {sentence}" for sentence in material.results.damaged.values()]
    return [
        *damaged,
        *manifest.in_words(material.results.origin.differences),
        tested or f"No test: that takes {FEWEST_LAUNCHES} rounds of two strategies.",
        certificate.sentence(material.certificates),
        " ".join(ended),
        *endings.left_out(material.endings),
        *endings.out_of_time(material.results.left_out),
    ]


def _commands(material: Material, rows: pd.DataFrame | None) -> list[str]:
    commands, command = [], material.results.origin.command
    unmade = int(material.endings["ending"].isin(["failed", "not run"]).sum())
    if unmade and command:
        launches = "launch that failed or is" if unmade == 1 else f"{unmade} launches that failed or are"
        commands.append(f"{command}: makes the {launches} missing.")
    comparisons = material.ranking.comparisons
    pairs = comparisons[comparisons["regime"] == material.regimes[0]] if material.regimes else comparisons
    if len(pairs):
        family = main_family(pairs)
        # Pairs of the leader that can't be told apart yet, and that more rounds may decide.
        unknown = family[(family["verdict"] == "can't tell") & (family["most"] > family["n"])]
        leader = in_front(as_pairs(family)) if len(family) else ""
        unknown = unknown[(unknown[["strategy", "other"]] == leader).any(axis=1)]
        again = "nox -s compare -- --repetitions"
        if family.empty:
            commands.append(f"{again} {FEWEST_LAUNCHES}: so many rounds can be tested.")
        elif len(unknown):
            rounds = f"{unknown['fewest'].max():.0f}"
            commands.append(f"{again} {rounds}: {rounds} rounds or more show strategies to be equivalent, if they are.")
    is_tested = (comparisons["n"] >= FEWEST_LAUNCHES).any()
    if is_tested and not (material.results.folder / calibration.FILE).exists():
        commands.append("nox -s calibrate tells whether these tests keep their promises on this machine.")
    if rows is not None:
        commands.append(f"nox -s {rows['bare_strategy'].iloc[0]}: trains with it; -- --help lists its options.")
    return commands[:2]


def _figure(material: Material, regime: str, rows: pd.DataFrame) -> blocks.Block:
    """The rate of every strategy of the table, and of their bases with one worker; of very many the fastest ones'."""
    cells = summaries.with_exchange(material.cells, regime)
    keys = ["strategy", "workers", "placement"]
    ranked = rows.sort_values("samples_per_second", ascending=False)[keys][:MOST_ROWS].merge(cells, on=keys)
    is_base = (cells["workers"] == 1) & cells["strategy"].isin(ranked["base"])
    bases = cells[is_base].merge(ranked[keys], "left", keys, indicator=True).query("_merge == 'left_only'")
    shown = pd.concat([ranked, bases.sort_values("samples_per_second", ascending=False)[[*ranked.columns]]])
    launches = summaries.with_exchange(material.launches, regime).merge(shown[keys], on=keys)
    draw = partial(speed_charts.headline, shown, launches, style.styles(material.colors))
    only = f" The fastest {MOST_ROWS} of {len(rows)}." if len(rows) > MOST_ROWS else ""
    beside = " Pale: one worker of a base." if len(bases) else ""
    oversubscribed = f" {blocks.DAGGER} more threads than cores." if shown["oversubscribed"].any() else ""
    caption = (
        f"Samples per second, {material.names[regime]}: medians over n = {blocks.span(shown['n'])} launches."
        f"{beside}{oversubscribed}{only}"
    )
    slowest, fastest = ranked.iloc[-1], ranked.iloc[0]
    alt = f"A bar for each strategy: {fastest['strategy']} with {fastest['samples_per_second']:,.0f} samples per second"
    if len(ranked) > 1:
        alt += f", down to {slowest['strategy']} with {slowest['samples_per_second']:,.0f}"
    return blocks.figure("headline", draw, caption, f"{alt}.", stacks=True)
