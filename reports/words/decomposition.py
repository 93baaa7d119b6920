"""Why N workers aren't N times as fast: the figure and the tables of what a step takes beyond the ideal."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations.numbers import MINUS
from reports import blocks
from reports.blocks import Block, listed
from reports.charts import steps
from reports.tables import summaries
from reports.tables.decomposition import is_distributed
from reports.tables.material import Material

_NOTHING = (
    "No strategy was measured beside the undistributed base that it names, so nothing tells how long a step should "
    "ideally take."
)
_MOST_BARS = 40


_DEFINITIONS = [
    "Ideal: T_base under weak scaling, T_base / N under strong scaling, by the median of all the base's launches.",
    f"Exchange: T_step {MINUS} T_comp, what isn't hidden behind computing. It holds the wait for a rank that is "
    "late in one step and early in the next.",
    f"Slowest rank: T_comp {MINUS} T_comp / s, where s is the slowest rank's time for a window over the median "
    "rank's. Replicas in one process wait as a part of computing.",
    "Rows: how much longer than in the ideal step a rank waits for its rows at most. Where a strategy doesn't "
    "measure it, it is a part of computing.",
    "Computing: what is left of T_comp, T_step for one worker: shared caches, memory and clock rate, the machinery "
    "of distribution, smaller shards. Below zero the strategy computes faster than its base.",
    f"Not divided: T_step {MINUS} rows {MINUS} ideal, where no launch without exchange shares a round.",
    f"The rest: the measured step {MINUS} ideal {MINUS} all parts. It isn't zero over several rounds, since a "
    "median of differences is no difference of medians.",
]


def story(material: Material) -> list[Block]:
    """Why N workers aren't N times as fast: the bars of the first regime that has any, and what their parts are."""
    parts, rows = [blocks.heading("Why not N times", level=2)], material.parts
    first = next((regime for regime in material.regimes if (rows["regime"] == regime).any()), None)
    if first is None:
        return [*parts, blocks.text(" ".join([_NOTHING, *_left_out(material.cells)]))]
    about = (
        "If N workers were N times as fast, a step would take an N-th of the time in which the undistributed base "
        "computes as many rows. What it takes beyond that is divided here: T_step is the step as trained, T_comp the "
        "same without exchange, T_base the base's. Each part is the median over n rounds of a difference within a "
        "round."
    )
    figure = _figure(rows[rows["regime"] == first], material.ceilings, material.names)
    return [*parts, blocks.text(about), figure, blocks.items([*_DEFINITIONS, *_left_out(material.cells)])]


def _figure(rows: pd.DataFrame, ceilings: pd.DataFrame, names: Mapping[str, str]) -> Block:
    """Draw the bars of one regime: of all its worlds, or of the largest with a core each where they are too many."""
    shown, only = summaries.over_fastest_links(rows), ""
    if len(shown) < len(rows):
        only = " Of several links the fastest; the table has all."
    if len(shown.drop_duplicates(["strategy", "workers"])) > _MOST_BARS:
        fitting = shown.loc[~shown["oversubscribed"], "workers"]
        workers = fitting.max() if len(fitting) else shown["workers"].min()
        shown = shown[shown["workers"] == workers]
        only = f" Only {blocks.workers(workers)}; the table has all."
    keys = ["regime", "strategy", "workers"]
    shown = shown.merge(ceilings[[*keys, "products_seconds"]], on=keys, how="left")
    products = ""
    if shown["products_seconds"].notna().any():
        products = " A triangle marks what the framework's own matrix products take, by its probe (n = 1)."
    oversubscribed = " † in grey: more threads than cores." if shown["oversubscribed"].any() else ""
    caption = (
        f"A step from ideal to measured, {names[rows['regime'].iloc[0]]}: the ideal, then what it takes beyond it. A "
        "part below zero saves time and stands left of zero. The line and the number are the measured step; a bar that "
        f"is cut ends with ». Medians over n = {blocks.span(shown['n'])} rounds.{products}{oversubscribed}{only}"
    )
    alt = (
        "A bar for each strategy and number of workers, from the ideal step to the measured one, divided into what "
        "takes time. The table of these parts has all numbers."
    )
    return blocks.figure("scaling", partial(steps.scaling, shown), caption, alt)


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
