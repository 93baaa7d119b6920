"""The first page: which strategy to take, what limits it, whether all computed the same, how sure, and what next."""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from common.records import manifest
from common.sessions import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block, listed
from reports.charts import speed as speed_charts
from reports.charts import style
from reports.tables import summaries
from reports.tables.ceilings import tried
from reports.tables.disturbances import disturbed_rounds
from reports.tables.material import Material
from reports.tables.ranking import fastest_of, main_family, open_pairs
from reports.tables.results import Results
from reports.tables.standings import MOST_ROWS, Standing, of_regime
from reports.words import (
    bandwidths,
    ceilings,
    configurations,
    decomposition,
    disturbances,
    findings,
    ranking,
    standings,
)
from reports.words.cautions import cautions

_NOTHING = "No launch ended ok with a measurement, so there is no speed to compare."

WORTH_TRYING = 0.05
"""From this gain on a setting that was tried is recommended."""


def section(material: Material, results: Results, regimes: Sequence[str]) -> list[Block]:
    """The answer in a sentence, the ranking table, a figure, how sure it is, and what to do next.

    They are those of the first of the regimes; of the others the fastest strategies have a row each.
    """
    rows = of_regime(material, regimes[0]) if regimes else []
    certainty, commands = _certainty(material, results, regimes), _commands(material, results, regimes, rows)
    ending = [blocks.answers([("How sure", certainty), *([("What next", commands)] if commands else [])])]
    if not regimes:
        return [blocks.heading("Finding"), blocks.headline(_NOTHING), *ending]
    names = material.names
    first, *others = regimes
    shown = summaries.with_exchange(material.cells, first)
    return [
        blocks.heading("Finding"),
        blocks.headline(standings.headline(rows)),
        blocks.text(
            f"{configurations.regime_in_words(shown)}, {configurations.batch_in_words(shown)}, "
            f"{blocks.workers(rows[0].workers)}."
        ),
        standings.table(rows),
        *standings.others({names[regime]: of_regime(material, regime) for regime in others}),
        _figure(material, first, shown),
        *ending,
    ]


def _certainty(material: Material, results: Results, regimes: Sequence[str]) -> list[str]:
    """What the tests can tell, whether all computed the same, and what happened to the launches: a line each.

    Two kinds of things stand beside them where there are any: files that differ, and strategies that are missing.
    """
    tested = ranking.resolution(material.ranking, regimes[0]) if regimes else ""
    ended = [findings.endings(material.endings)]
    if rounds := disturbed_rounds(material.disturbances):
        ended.append(f"{len(rounds)} round{'s were' if len(rounds) > 1 else ' was'} disturbed (‡).")
    return [
        *manifest.in_words(results.differences),
        tested or f"No test: that takes {FEWEST_LAUNCHES} rounds of two strategies.",
        findings.certificate(material.certificates),
        " ".join([*ended, *_cautioned(material, results)]),
        *findings.left_out(material.endings),
    ]


def _commands(material: Material, results: Results, regimes: Sequence[str], rows: Sequence[Standing]) -> list[str]:
    """The two most urgent commands, each with what it is for."""
    commands = []
    unmade = int(material.endings["ending"].isin(["failed", "not run"]).sum())
    if unmade and results.command:
        launches = "launch that failed or is" if unmade == 1 else f"{unmade} launches that failed or are"
        commands.append(f"{results.command}: makes the {launches} missing.")
    comparisons = material.ranking.comparisons
    pairs = comparisons[comparisons["regime"] == regimes[0]] if regimes else comparisons
    if len(pairs):
        family = main_family(pairs)
        unknown = open_pairs(family, fastest_of(family)) if len(family) else family
        again = "nox -s compare -- --repetitions"
        if family.empty:
            commands.append(f"{again} {FEWEST_LAUNCHES}: so many rounds can be tested.")
        elif len(unknown):
            rounds = f"{unknown['fewest'].max():.0f}"
            commands.append(f"{again} {rounds}: {rounds} rounds or more show strategies to be equivalent, if they are.")
    commands += _calibrate(material, results)
    if rows:
        commands.append(f"nox -s {rows[0].bare_strategy}: trains with it; -- --help lists its options.")
    return commands[:2]


def in_words(material: Material, results: Results, regimes: Sequence[str]) -> list[Block]:
    """What the first page's table rests on, question by question, for the back of the report."""
    parts = [blocks.heading("The finding in words", level=2)]
    for question, sentences in _answers(material, results, regimes):
        parts += [blocks.heading(question, level=3), blocks.items(sentences)]
    return parts


def _answers(material: Material, results: Results, regimes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The questions that have an answer, with its sentences."""
    regime, taken, limits = regimes[0] if regimes else "", [_NOTHING], []
    if regimes:
        shown = summaries.with_exchange(material.cells, regime)
        taken = [
            standings.headline(of_regime(material, regime)),
            *ranking.untested(material.ranking, regime),
            *ranking.not_ranked(material.ranking, regime, material.left_out),
            *_gain(shown),
            *bandwidths.finding(material.bandwidths, regime),
        ]
        limits = _limits(material, regime, shown)
    maths = [
        findings.certificate(material.certificates),
        findings.without_exchange(material.certificates_without_exchange),
    ]
    sure = [
        *manifest.in_words(results.differences),
        *filter(None, [ranking.resolution(material.ranking, regime)]),
        *disturbances.finding(material.disturbances),
        findings.endings(material.endings),
        *findings.left_out(material.endings),
        *findings.out_of_time(material.left_out),
        *_cautioned(material, results),
    ]
    every = [
        ("Which to take", taken),
        ("What limits it", limits),
        ("The same maths", [*filter(None, maths)]),
        ("How sure", sure),
        ("What next", _next_steps(material, results, regime)),
    ]
    return [(question, sentences) for question, sentences in every if sentences]


def _cautioned(material: Material, results: Results) -> list[str]:
    """How many kinds of things make numbers less certain than they look; nothing where none does."""
    found = len(cautions(material.launches, results.records))
    kinds = "1 more thing makes" if found == 1 else f"{found} more things make"
    return [f"{kinds} some numbers less certain: see \u201cCautions\u201d."] if found else []


def _figure(material: Material, regime: str, shown: pd.DataFrame) -> Block:
    """Every strategy's rate by number of workers; of very many strategies the fastest ones'."""
    fastest = summaries.over_fastest_links(shown)
    only = " Of several links the fastest." if len(fastest) < len(shown) else ""
    shown = fastest
    names = speed_charts.in_order_of_speed(shown)
    if len(names) > MOST_ROWS:
        only += f" The fastest {MOST_ROWS} of {len(names)}; the tables have all."
        shown = shown[shown["strategy"].isin(names[:MOST_ROWS])]
    launches = summaries.with_exchange(material.launches, regime)
    launches = launches[launches["strategy"].isin(shown["strategy"])]
    draw = partial(speed_charts.headline, shown, launches, style.styles(material.colors))
    oversubscribed = " Hollow, on grey: more threads than cores." if shown["oversubscribed"].any() else ""
    many = f"n = {blocks.span(shown['n'])} launches each."
    caption = (
        f"Samples per second, {configurations.regime_name(shown)}: medians, with their numbers at the right. A dotted "
        f"line is N times a base without distribution.{oversubscribed} {many}{only}"
    )
    return blocks.figure("headline", draw, caption, _in_words(shown))


def _in_words(shown: pd.DataFrame) -> str:
    """What the figure shows, for who can't see it: the fastest and the slowest of each number of workers."""
    said = []
    for workers, cells in shown.sort_values("samples_per_second").groupby("workers"):
        slowest, fastest = cells.iloc[0], cells.iloc[-1]
        ends = f"{fastest['strategy']} with {fastest['samples_per_second']:,.0f}"
        if len(cells) > 1:
            ends = f"from {slowest['strategy']} with {slowest['samples_per_second']:,.0f} to {ends}"
        said.append(f"{blocks.workers(workers)}: {ends} samples per second")
    return f"A mark for the median of each strategy, a panel for each number of workers. {'; '.join(said)}."


def _gain(shown: pd.DataFrame) -> list[str]:
    """What the fastest world of several workers with a core each has over the fastest base; none without either."""
    fitting = shown[~shown["oversubscribed"].astype(bool) & shown["same_maths"].astype(bool)]
    bases, several = fitting[fitting["bare_strategy"] == fitting["named_base"]], fitting[fitting["workers"] > 1]
    if bases.empty or several.empty:
        return []
    base, best = (table.loc[table["samples_per_second"].idxmax()] for table in (bases, several))
    ratio = best["samples_per_second"] / base["samples_per_second"]
    verdict = "" if ratio > 1 else ", so distributing doesn't pay here"
    rate = f"{base['samples_per_second']:,.0f} samples/s"
    return [
        f"The fastest with several, {best['strategy']} at {best['workers']}, has {blocks.ratio(ratio)} times the rate "
        f"of {base['strategy']}, the fastest without distribution ({rate}){verdict}; "
        f"medians of n = {best['n']} and {base['n']}, not tested."
    ]


def _limits(material: Material, regime: str, shown: pd.DataFrame) -> list[str]:
    """What takes time beyond the ideal, what is the frameworks' own, and how long the start takes."""
    return [
        *decomposition.finding(material.scaling, regime),
        *ceilings.explanations(material.ceilings, regime),
        *_start(shown),
    ]


def _start(shown: pd.DataFrame) -> list[str]:
    """How long the first step takes to come, at the largest number of workers with a core for each."""
    fitting = shown[~shown["oversubscribed"].astype(bool)]
    if fitting.empty:
        return []
    largest = fitting[fitting["workers"] == fitting["workers"].max()].sort_values("first_step_seconds")
    quick, slow = largest.iloc[0], largest.iloc[-1]
    place = f"with {blocks.workers(int(quick['workers']))}"
    first = f"{blocks.number(quick['first_step_seconds'])} s after its start ({quick['strategy']}, n = {quick['n']})"
    if len(largest) == 1:
        return [f"The first step is done {first} {place}."]
    last = f"{blocks.number(slow['first_step_seconds'])} s ({slow['strategy']}, n = {slow['n']})"
    return [f"The first step is done from {first} to {last} {place}, which is no part of these rates."]


def _next_steps(material: Material, results: Results, regime: str) -> list[str]:
    """What would tell more, or train faster, each with what it rests on; the most urgent first."""
    summary = material.certificates
    return [
        *_mend(material, summary),
        *ranking.next_steps(material.ranking, regime),
        *_settings(material.settings, regime),
        *_tried(tried(results.ceilings)),
        *_machine(material.launches),
        *_calibrate(material, results),
    ]


def _mend(material: Material, summary: pd.DataFrame) -> list[str]:
    """What stands in the way of trusting these records."""
    said, endings = [], material.endings["ending"]
    failed, missing = int((endings == "failed").sum()), int((endings == "not run").sum())
    if failed:
        launches = "1 launch" if failed == 1 else f"{failed} launches"
        said.append(
            f"Read why {launches} failed (\u201cHow every launch ended\u201d); the same command tries them again."
        )
    if missing:
        launches = "launch" if missing == 1 else f"{missing} launches"
        said.append(f"Start the same command again: it makes the {launches} that the plan still lacks.")
    deviating = summary[summary["verdict"] == "deviates"] if len(summary) else summary
    if len(deviating):
        said.append(f"Don't take {blocks.who(deviating)} before the deviation from the oracle is explained.")
    return said


def _settings(settings: pd.DataFrame, regime: str) -> list[str]:
    """Options that save time by their own interval, of those that were tried: the best of each strategy."""
    saving = settings[(settings["regime"] == regime) & (settings["high"] < 1 - WORTH_TRYING)]
    said = []
    # The best of a strategy, on whatever hosts.
    bare = saving["first"].map(lambda name: name.partition(", ")[0])
    for _, group in saving.sort_values("factor").groupby(bare, sort=False):
        best = group.iloc[0]
        said.append(
            f"{best['second']} at {best['workers']}: a step takes {blocks.ratio(best['factor'])} times as long as with "
            f"{best['first']} ({blocks.ratio(best['low'])} to {blocks.ratio(best['high'])}, n = {best['pairs']} pairs)"
        )
    return [f"Settings that save time by their own interval: {'; '.join(said)}."] if said else []


def _tried(tried: pd.DataFrame) -> list[str]:
    """What computes a framework's products faster than the way in which it trained: the best of each framework."""
    worth = tried[tried["gain"] > WORTH_TRYING].sort_values("gain", ascending=False)
    said = [
        f"{row['framework']}'s products ran at {row['gigaflops']:,.0f} GFLOP/s in place of {row['usual']:,.0f} "
        f"({row['changed']})"
        for row in worth.drop_duplicates("framework").to_dict("records")
    ]
    return [f"{'; '.join(said)} (n = 1 probe each): worth a try in a training loop."] if said else []


def _machine(launches: pd.DataFrame) -> list[str]:
    """Which machine more workers would take."""
    if launches.empty or not launches["oversubscribed"].any():
        return []
    cores = listed([f"{count:g}" for count in sorted(launches["cores"].dropna().unique())])
    return [f"What more workers than this machine's {cores} cores are worth only a machine with more cores can tell."]


def _calibrate(material: Material, results: Results) -> list[str]:
    """Whether the tests' promises were held to on this machine; nothing where nothing was tested."""
    tested = (material.ranking.comparisons["n"] >= FEWEST_LAUNCHES).any()
    if not tested or (results.folder / calibration.FILE).exists():
        return []
    return ["nox -s calibrate tells whether these tests keep their promises on this machine."]
