"""The chapter on why N workers aren't N times as fast: what a step consists of, and what would make it shorter."""

import itertools
import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations.numbers import MINUS
from reports import blocks
from reports.blocks import Block, listed
from reports.charts import steps
from reports.tables import summaries
from reports.tables.ceilings import ALIKE, EXPLAINED
from reports.tables.decomposition import (
    COMPUTING,
    EXCHANGE,
    REST,
    ROWS,
    UNDIVIDED,
    WAITING,
    is_distributed,
    largest,
)
from reports.tables.exchanges import CONTENTION, OVERLAP
from reports.tables.material import Material
from reports.tables.paying import SURELY_DOES_NOT, SURELY_PAYS
from reports.words.standings import share_in_words

_NOTHING = (
    "No strategy was measured beside the undistributed base that it names, so nothing tells how long a step should "
    "ideally take."
)
_DEFINITIONS = (
    "If N workers were N times as fast, a step would take the ideal time: an N-th of the time in which the base "
    f"computes as many rows. Exchange is T_step {MINUS} T_comp: the step as trained less the same without gradient "
    "exchange, so it is what isn't hidden behind computing. The slowest rank is T_comp less its median rank's. Rows "
    "are the wait for input. Computing is what is left of T_comp: shared caches, memory and clock rate, and the "
    "machinery of distribution. Each is a median of differences within rounds, the rest what medians leave."
)
_MOST_BARS, _FEW_SENTENCES, _MOST_SENTENCES = 36, 6, 12
_PAGE_HEIGHT, _SENTENCE_HEIGHT = 150.0, 7.5
"""Millimetres of a page that its bars and sentences share, and of a sentence."""

_REMEDIES = {
    EXCHANGE: "a larger batch per worker, fewer bytes (compression) or a faster link would hide or shorten it",
    COMPUTING: "fewer workers on this machine, or cores and memory of its own for each, would shorten it",
    WAITING: "workers on cores that nothing else uses would shorten it",
    ROWS: "data on the device, or more loader workers, would shorten it",
    UNDIVIDED: "launches without gradient exchange would divide it",
    REST: "more rounds would tell it",
}
"""By the part of a step what would remove it."""

_REPLAYED = {
    OVERLAP: "that a part of them is hidden behind computing",
    CONTENTION: "that they take longer beside computing",
}
"""What a replay of a step's messages tells, by its verdict."""

_PAYS = {SURELY_PAYS: "It surely pays", SURELY_DOES_NOT: "It surely doesn't pay"}
"""By the verdict on several workers beside one of the base; others say nothing."""


def section(material: Material) -> list[Block]:
    """The bars of the first regime that has any, a sentence for each strategy, and what the parts are."""
    rows = material.parts
    first = next((regime for regime in material.regimes if (rows["regime"] == regime).any()), None)
    if first is None:
        return [blocks.text(" ".join([_NOTHING, *_left_out(material.cells)]))]
    own = rows[rows["regime"] == first]
    sentences = [*_limits(material, own), *_explanations(material.ceilings, first), *_left_out(material.cells)]
    bars_height = _PAGE_HEIGHT - _SENTENCE_HEIGHT * min(len(sentences), _MOST_SENTENCES)
    return [
        _figure(own, material.ceilings, material.names, bars_height),
        *blocks.items_of_a_page(sentences, _MOST_SENTENCES, small=len(sentences) > _FEW_SENTENCES),
        blocks.text(_DEFINITIONS) | {"small": True},
    ]


def _limits(material: Material, rows: pd.DataFrame) -> list[str]:
    """For each strategy its largest part in its largest world with a core each, whether it pays, and what would help.

    Strategies without a limit share a sentence.
    """
    fitting = rows if rows["oversubscribed"].all() else rows[~rows["oversubscribed"]]
    several = fitting[fitting["workers"] > 1]
    limits = largest(several[several["workers"] == several.groupby("strategy")["workers"].transform("max")])
    keys = ["regime", "strategy", "workers"]
    paying = material.paying[[*keys, "verdict", "fewest_batch"]]
    hidden = material.exchanges[[*keys, "verdict"]].rename(columns={"verdict": "replayed"})
    told = limits.merge(paying, "left", keys).merge(hidden, "left", keys).sort_values("share", ascending=False)
    said, without = [], []
    for row in told.to_dict("records"):
        who = f"{row['strategy']} with {blocks.workers(row['workers'])}"
        if not row["is_limit"]:
            without.append(who)
            continue
        seconds = f"{blocks.milliseconds(row['seconds'])} of {blocks.milliseconds(row['measured_seconds'])} ms"
        pays = f" {_PAYS[row['verdict']]}{_from_which_batch(row)}." if row["verdict"] in _PAYS else ""
        replayed = (
            f" A replay of its messages tells {_REPLAYED[row['replayed']]}." if row["replayed"] in _REPLAYED else ""
        )
        said.append(
            f"{who}: {row['part']} takes {share_in_words(row['share'])} of the step ({seconds}, n = {row['n']:.0f}); "
            f"{_REMEDIES[row['part']]}.{pays}{replayed}"
        )
    if without:
        said.append(f"No part beyond the ideal counts in the steps of {blocks.some(without)}.")
    return said


def _from_which_batch(row: Mapping[str, object]) -> str:
    """From which batch on what doesn't pay would: an extrapolation, so in two significant digits."""
    rows = row["fewest_batch"]
    if row["verdict"] != SURELY_DOES_NOT or math.isnan(rows):
        return ""
    if math.isinf(rows):
        return ", with no batch, since contention is as large as the number of workers"
    return f"; by extrapolation it would from {math.ceil(float(f'{rows:.2g}')):,} rows per worker on"


def _explanations(table: pd.DataFrame, regime: str) -> list[str]:
    """A sentence for each two bases of a regime whose steps differ because of their frameworks' products.

    `table` is that of `ceilings.steps`. What the products explain is the difference of their times, beside the
    difference of the steps: at least the share `EXPLAINED` of it, and no more than it over that share, which would be
    no explanation.
    """
    bases = table[table["is_base"] & (table["regime"] == regime)]
    said = []
    for quick, slow in itertools.combinations(bases.sort_values("step_seconds").to_dict("records"), 2):
        longer = slow["step_seconds"] - quick["step_seconds"]
        by_products = slow["products_seconds"] - quick["products_seconds"]
        differ = slow["framework"] != quick["framework"] and longer > ALIKE * slow["step_seconds"]
        if differ and EXPLAINED * longer <= by_products <= longer / EXPLAINED:
            more, theirs = (f"{blocks.milliseconds(seconds)} ms" for seconds in (longer, by_products))
            said.append(
                f"{slow['strategy']}'s step is {more} longer than {quick['strategy']}'s, and {slow['framework']}'s own "
                f"matrix products take {theirs} longer: the frameworks differ, whoever distributes them."
            )
    return said


def _figure(rows: pd.DataFrame, ceilings: pd.DataFrame, names: Mapping[str, str], height: float) -> Block:
    """Draw the bars of one regime: of all its worlds, or of the largest with a core each where they are too many."""
    shown, only = summaries.over_fastest_links(rows), ""
    if len(shown) < len(rows):
        only = " Of several links the fastest."
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
        f"A step from ideal to measured, {names[rows['regime'].iloc[0]]}: medians over n = {blocks.span(shown['n'])} "
        f"rounds. Left of zero: time saved. »: the bar is cut.{oversubscribed}{only}"
    )
    alt = (
        "A bar for each strategy and number of workers, from the ideal step to the measured one, divided into what "
        "takes time. The table of these parts has all numbers."
    )
    return blocks.figure("steps", partial(steps.scaling, shown, height), caption, alt)


def _left_out(cells: pd.DataFrame) -> list[str]:
    own = cells[is_distributed(cells)]
    asynchronous = own[~own["synchronous"]]
    alone = own[own["synchronous"] & own["base_samples_per_second"].isna()]
    said = []
    if len(asynchronous):
        names = listed(sorted(asynchronous["strategy"].unique()))
        said.append(f"Left out for asynchronous updates, which belong to one worker each: {names}.")
    for base, group in alone.groupby("named_base"):
        said.append(f"Left out, since {base} wasn't measured on the same work: {blocks.who(group)}.")
    return said
