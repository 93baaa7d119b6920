"""The chapter on why N workers aren't N times as fast: what a step consists of, and what would make it shorter."""

import math
from functools import partial

import pandas as pd

from common.observations.numbers import MINUS
from reports import blocks
from reports.blocks import Block, milliseconds
from reports.charts import bars
from reports.tables import decomposition, summaries
from reports.tables.exchanges import CONTENTION, OVERLAP
from reports.tables.material import Material
from reports.words.first_page import share_in_words

_NOTHING = "No strategy was measured beside its base, so nothing tells how long a step should ideally take."
_DEFINITIONS = (
    "If N workers were N times as fast, a step would take the ideal time: an N-th of the time in which the base "
    f"computes as many rows. Exchange is T_step {MINUS} T_comp: the step as trained less the same without gradient "
    "exchange, so it is what isn't hidden behind computing. The slowest rank is T_comp less its median rank's. Rows "
    "are the wait for input. Computing is what is left of T_comp: shared caches, memory and clock rate, and the "
    "machinery of distribution. Each is a median of differences within rounds, the rest what medians leave."
)
_MOST_BARS, _FEW_SENTENCES, _MOST_SENTENCES = 36, 6, 12
# Millimetres that panels, bars and sentences share, around a panel's bars, of a sentence, and at least of the bars.
_PAGE_HEIGHT, _PANEL_HEIGHT, _SENTENCE_HEIGHT, _LEAST_HEIGHT = 175.0, 15.0, 7.5, 60.0

_REMEDIES = {
    decomposition.EXCHANGE: "a larger batch per worker, fewer bytes (compression) or a faster link would shorten it",
    decomposition.COMPUTING: "fewer workers on this machine, or cores and memory of its own for each, would shorten it",
    decomposition.WAITING: "workers on cores that nothing else uses would shorten it",
    decomposition.ROWS: "data on the device, or more loader workers, would shorten it",
    decomposition.UNDIVIDED: "launches without gradient exchange would divide it",
    decomposition.REST: "more rounds would tell it",
}
"""By the part of a step what would remove it."""

_REPLAYED = {
    OVERLAP: " A replay of its messages tells that a part of them is hidden behind computing.",
    CONTENTION: " A replay of its messages tells that they take longer beside computing.",
}


def section(material: Material) -> list[Block]:
    """The bars of the first regime that has any, a sentence for each strategy, and what the parts are."""
    parts = material.parts
    first = next((regime for regime in material.regimes if (parts["regime"] == regime).any()), None)
    if first is None:
        return [blocks.text(" ".join([_NOTHING, *_left_out(material.cells)]))]
    rows = parts[parts["regime"] == first]
    sentences = [*_limits(material, rows), *_left_out(material.cells)]
    panels_height = _PANEL_HEIGHT * rows["workers"].nunique()
    sentences_height = _SENTENCE_HEIGHT * min(len(sentences), _MOST_SENTENCES)
    bars_height = max(_LEAST_HEIGHT, _PAGE_HEIGHT - panels_height - sentences_height)
    return [
        _figure(rows, material.ceilings, material.names[first], bars_height),
        *blocks.items_of_a_page(sentences, _MOST_SENTENCES, small=len(sentences) > _FEW_SENTENCES),
        blocks.text(_DEFINITIONS) | {"small": True},
    ]


def _limits(material: Material, rows: pd.DataFrame) -> list[str]:
    """For each strategy its largest part in its largest world with a core each, whether it pays, and what would help.

    Strategies without a limit share a sentence.
    """
    fitting = rows if rows["oversubscribed"].all() else rows[~rows["oversubscribed"]]
    several = fitting[fitting["workers"] > 1]
    most = several.groupby("strategy")["workers"].transform("max")
    limits = decomposition.largest(several[several["workers"] == most])
    keys = ["regime", "strategy", "workers"]
    paying = material.exposed[[*keys, "verdict", "fewest_batch"]]
    replayed = material.exchanges[[*keys, "verdict"]].rename(columns={"verdict": "replayed"})
    limits = limits.merge(paying, "left", keys).merge(replayed, "left", keys).sort_values("share", ascending=False)
    sentences = [
        f"{row.strategy} with {blocks.workers(row.workers)}: {row.part} takes {share_in_words(row.share)} of the step "
        f"({milliseconds(row.seconds)} of {milliseconds(row.measured_seconds)} ms, n = {row.n:.0f}); "
        f"{_REMEDIES[row.part]}.{_paying_in_words(row.verdict, row.fewest_batch)}{_REPLAYED.get(row.replayed, '')}"
        for row in limits[limits["is_limit"]].itertuples()
    ]
    if len(without := limits[~limits["is_limit"]]):
        sentences.append(f"No part beyond the ideal counts in the steps of {blocks.who(without)}.")
    return sentences


def _paying_in_words(verdict: str, fewest_batch: float) -> str:
    """Whether several workers pay, and from which batch on they would: an extrapolation, so in two digits."""
    if verdict == decomposition.SURELY_PAYS:
        return " It surely pays."
    if verdict != decomposition.SURELY_DOES_NOT:
        return ""
    if math.isinf(fewest_batch):
        return " It surely doesn't pay, with no batch, since contention is as large as the number of workers."
    if math.isnan(fewest_batch):
        return " It surely doesn't pay."
    rows = math.ceil(float(f"{fewest_batch:.2g}"))
    return f" It surely doesn't pay; by extrapolation it would from {rows:,} rows per worker on."


def _figure(rows: pd.DataFrame, ceilings: pd.DataFrame, name: str, height: float) -> Block:
    """Draw the bars of one regime: of all its worlds, or of the largest with a core each where they are too many."""
    shown = summaries.over_fastest_links(rows)
    only = " Of several links the fastest." if len(shown) < len(rows) else ""
    if len(shown.drop_duplicates(["strategy", "workers"])) > _MOST_BARS:
        fitting = shown.loc[~shown["oversubscribed"], "workers"]
        workers = fitting.max() if len(fitting) else shown["workers"].min()
        shown = shown[shown["workers"] == workers]
        fastest = shown.drop_duplicates("strategy").nsmallest(_MOST_BARS, "measured_seconds")["strategy"]
        shown = shown[shown["strategy"].isin(fastest)]
        only = f" Only {blocks.workers(workers)}; the table \u201cparts\u201d has all."
    keys = ["regime", "strategy", "workers"]
    own = ceilings["products_seconds"] + ceilings["exchange_seconds"].fillna(0.0)
    shown = shown.merge(ceilings[keys].assign(ceiling_seconds=own), on=keys, how="left")
    oversubscribed = " † in grey: more threads than cores." if shown["oversubscribed"].any() else ""
    caption = (
        f"A step from ideal to measured, {name}: medians over n = {blocks.span(shown['n'])} rounds. Left of zero: time "
        f"saved. »: the bar is cut.{oversubscribed}{only}"
    )
    alt = (
        "A bar for each strategy and number of workers, from the ideal step to the measured one, divided into what "
        "takes time. The table of these parts has all numbers."
    )
    return blocks.figure("steps", partial(bars.steps, shown, height), caption, alt)


def _left_out(cells: pd.DataFrame) -> list[str]:
    """Which distributed strategies have no bar, and why."""
    own = cells[decomposition.is_distributed(cells)]
    asynchronous = own[~own["synchronous"]]
    alone = own[own["synchronous"] & own["base_samples_per_second"].isna()]
    sentences = []
    if len(asynchronous):
        names = blocks.listed(sorted(asynchronous["strategy"].unique()))
        sentences.append(f"Left out for asynchronous updates, which belong to one worker each: {names}.")
    for base, group in alone.groupby("named_base"):
        sentences.append(f"Left out, since {base} wasn't measured on the same work: {blocks.who(group)}.")
    return sentences
