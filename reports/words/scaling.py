"""The chapter on scaling: speed-up and efficiency of every strategy over the number of workers."""

from functools import partial

import pandas as pd

from reports import blocks
from reports.charts import speed, style
from reports.tables import summaries
from reports.tables.decomposition import is_distributed
from reports.tables.material import Material

_PAGE_HEIGHT, _MOST_PANELS = 195.0, 15  # Millimetres of the chapter's figure, and strategies that it has room for.


def section(material: Material) -> list[blocks.Block]:
    """A figure for each regime, the others' for the HTML page, and a sentence on what none can show.

    Left out are regimes that differ from one before in their batch alone, and have one number of workers of each
    strategy: that is a batch that was tried, and makes no curve.
    """
    parts: list[blocks.Block] = []
    drawn: set[str] = set()
    for regime in material.regimes:
        shown = summaries.with_exchange(material.cells, regime)
        any_batch = shown["regime_of_any_batch"].iloc[0]
        if any_batch in drawn and shown.groupby("strategy")["workers"].nunique().max() == 1:
            continue
        about = _of_regime(material, regime, shown)
        # The chapter's page has room for one figure.
        parts += [block | {"page_only": bool(drawn)} for block in about]
        drawn.add(any_batch)
    return parts or [blocks.text("No launch ended ok with a measurement, so nothing can be said of scaling.")]


def _of_regime(material: Material, regime: str, cells: pd.DataFrame) -> list[blocks.Block]:
    """What was measured in a regime and what its figure can't show, and the figure."""
    shown = summaries.over_fastest_links(cells)
    only = " Of several links the fastest." if len(shown) < len(cells) else ""
    # A base's own speed-up says nothing.
    known = shown[shown["base_samples_per_second"].notna() & is_distributed(shown)]
    name, machine = blocks.capitalized(material.names[regime]), shown["machine"].iloc[0]
    sentences = [f"{name}: {batch_in_words(shown)}, on {machine}."]
    for base, own in shown[shown["base_samples_per_second"].isna()].groupby("named_base"):
        names = blocks.some(sorted(own["strategy"].unique()))
        sentences.append(f"{base} wasn't measured, so there is no speed-up of {names}.")
    if known.empty:
        nothing = "Only strategies that distribute nothing were measured."
        sentences += [nothing] if len(sentences) == 1 else []
        return [blocks.text(" ".join(sentences))]
    if known["workers"].nunique() == 1:
        many = blocks.workers(int(known["workers"].iloc[0]))
        sentences.append(f"Only {many} of each strategy were measured: --workers 1 2 4 gives a curve.")
    names = speed.in_order_of_speed(known)
    if len(names) > _MOST_PANELS:
        only += f" The fastest {_MOST_PANELS} of {len(names)} strategies."
        known = known[known["strategy"].isin(names[:_MOST_PANELS])]
    points = summaries.with_exchange(material.launches, regime)
    points = points[points["strategy"].isin(known["strategy"])]
    draw = partial(speed.scaling, known, points, style.styles(material.colors), _PAGE_HEIGHT)
    caption = (
        "Above speed-up over one worker of the base, below efficiency (speed-up per worker). Faint: a launch; lines "
        "join medians; upright: 95 % intervals; on grey and hollow: more threads than cores. "
        f"n = {blocks.span(known['n'])} launches.{only}"
    )
    alt = (
        "Two panels for each strategy: its speed-up and its efficiency over the number of workers, beside the ideal, "
        "the others' in grey. The table of cells has all numbers."
    )
    return [blocks.text(" ".join(sentences)), blocks.figure("scaling", draw, caption, alt, stacks=True)]


def batch_in_words(cells: pd.DataFrame) -> str:
    """The batch of the cells of one regime, and whose it is."""
    batch, is_weak = cells["batch"].iloc[0], cells["scaling"].iloc[0] == "weak"
    return f"{batch} rows per step for each worker" if is_weak else f"{batch} rows per step, shared by all workers"
