"""Whether every launch computed the same: in sentences, in the table of recipes, and in curves of deviations."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from common.contract.oracle import LOSS_FLOOR, LOSS_TOLERANCE
from common.records.certificate import ASYNCHRONOUS, DEVIATES, FOLLOWS, NOT_COMPARED, OTHER_MATHS, Certificate
from reports import blocks
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.tables.certificate import GRAVEST_FIRST, step_deviations
from reports.tables.material import Material
from reports.words import data

_MOST_STEPS = 60  # Of a line.
_HEIGHT = 38.0  # Millimetres of the figure.
_ROWS_OF_PANELS = 7  # Of the table, which each more row of panels takes.
_LOWEST_DEVIATION = 1e-10  # Zero has no logarithm.

_ABOUT = (
    "The weights before and after a step tell what its update was made of: how often each worker's mean gradient "
    "counted, the update before (velocity) and the weights (decay), all in float64. A launch follows where the "
    "residual is no more than rounding in float32 explains, every row was computed on once, and losses are off by "
    f"at most {blocks.tiny(LOSS_TOLERANCE)} (of {LOSS_FLOOR:g} where they are smaller)."
)


def section(material: Material, most_rows: int) -> list[blocks.Block]:
    """What the updates of each configuration were made of, with the verdict, and losses beside the oracle's.

    Of more configurations the table has `most_rows`.
    """
    verdicts = [sentence(material.certificates), without_exchange(material.certificates)]
    compared = [each for each in material.beside_oracle if each.exchange and len(each.oracle_losses)]
    figure = [_figure(compared, style.styles(material.colors))] if compared else []
    # Panels of more than three tasks stand in further rows, each as high as so many rows of the table.
    panels = {(each.preset, each.global_batch, each.seed) for each in compared}
    most_rows = max(3, most_rows - _ROWS_OF_PANELS * (math.ceil(len(panels) / 3) - 1)) if panels else most_rows
    said = blocks.text(" ".join(filter(None, [_ABOUT, *verdicts]))) | {"small": True}
    return [said, *_recipes(material.certificates, most_rows), *figure]


def sentence(summary: pd.DataFrame) -> str:
    """How many settings with exchange follow the oracle and which don't, and how far other maths deviate from it."""
    rows = summary[summary["exchange"]]
    if rows.empty:
        return "No launch could be compared with the oracle."
    following, deviating = _following(rows)
    said = [f"{following} follow the float64 oracle."]
    said += [f"Not the same maths: {deviating}."] if deviating else []
    if len(other := rows[rows["verdict"] == OTHER_MATHS]):
        options = ", ".join(sorted({option for options in other["other_maths"] for option in options.split(", ")}))
        largest = blocks.tiny(other["residual"].max())
        said.append(f"Other maths on purpose ({options}): {len(other)}, with residuals up to {largest}.")
    for verdict, phrase in ((ASYNCHRONOUS, "Asynchronous, without an oracle"), (NOT_COMPARED, "Not compared")):
        many = (rows["verdict"] == verdict).sum()
        said += [f"{phrase}: {many}."] if many else []
    return " ".join(said)


def without_exchange(summary: pd.DataFrame) -> str:
    """Whether launches without exchange computed what their declarations say; empty where there are none."""
    rows = summary[~summary["exchange"]]
    if rows.empty:
        return ""
    following, deviating = _following(rows)
    text = f"Without exchange {following} follow their own recipes."
    return text + (f" Not taken as T_comp, since it computes something else: {deviating}." if deviating else "")


def _following(rows: pd.DataFrame) -> tuple[str, str]:
    """How many follow, such as `5 of 6 compared settings`, and the names of the others."""
    compared = rows[rows["verdict"].isin([FOLLOWS, DEVIATES])]
    wrong = compared[compared["verdict"] == DEVIATES].to_dict("records")
    names = dict.fromkeys(f"{row['strategy']} at {row['workers']} ({row['preset']})" for row in wrong)
    following = f"{len(compared) - len(wrong)} of {len(compared)} compared settings"
    return following, blocks.some([*names]) if names else ""


def _recipes(summary: pd.DataFrame, most_rows: int) -> list[blocks.Block]:
    """A row for each configuration, what doesn't follow first, then what has most launches; of many some."""
    if summary.empty:
        return []
    counts = ["least_share", "largest_share", "velocity", "decay"]
    columns = ["strategy", "workers", "preset", "global_batch", "n", *counts, "residual", "rounding", "loss", "verdict"]
    heads = {"global_batch": "batch", "rounding": "of\nrounding"} | {name: name.replace("_", "\n") for name in counts}
    gravity = summary["verdict"].map(GRAVEST_FIRST.index)
    ordered = summary.assign(gravity=gravity, alone=~summary["exchange"], fewer=-summary["n"])
    order = ["gravity", "alone", "fewer", "preset", "strategy", "workers", "global_batch", "seed"]
    shown = ordered.sort_values(order)[:most_rows]
    notes = [f"{blocks.who(own)}: {note}" for note, own in shown[shown["note"] != ""].groupby("note", sort=False)]
    if len(summary) > most_rows:
        notes.append(f"{most_rows} of {len(summary)} configurations; the table \u201ccertificates\u201d has all.")
    exchange = shown["exchange"].map({True: "", False: ", without exchange"})
    shown = shown.assign(strategy=shown["strategy"].map(blocks.shortened) + exchange)
    # As many digits as rounding leaves of a count.
    for name in counts:
        shown[name] = [blocks.DASH if math.isnan(value) else f"{round(value, 4) + 0.0:.4f}" for value in shown[name]]
    shown = shown[columns].rename(columns=heads)
    return [blocks.table([*shown.columns], data.in_rows(shown), notes, warned=DEVIATES)]


def _figure(compared: Sequence[Certificate], looks: Mapping[str, style.Style]) -> blocks.Block:
    """How far losses are from the oracle's over the steps: a panel for each task, a line for each world."""
    lines = []
    groups: dict[str, list[Certificate]] = {}
    for each in sorted(compared, key=lambda each: (each.preset, each.global_batch, each.maths)):
        groups.setdefault(f"{each.preset}, {each.global_batch:,} rows, seed {each.seed}", []).append(each)
    for panel, members in groups.items():
        # Of the launches of one strategy and world the one that deviates most.
        worst: dict[tuple[str, int, int], Certificate] = {}
        for member in sorted(members, key=lambda member: member.loss):
            worst[member.without_hosts, member.hosts, member.workers] = member
        about = {"measure": "deviation of the loss", "panel": panel}
        last = max(member.first_step + len(member.losses) for member in members)
        tolerated = Line(**about, x=[0, last], values=[LOSS_TOLERANCE] * 2, dashes="-", label="tolerated")
        lines += [*(_course(worst[key], about, looks[worst[key].strategy]) for key in sorted(worst)), tolerated]
    plot = Plot(lines=lines, x_label="step", is_logarithmic=True, height=_HEIGHT)
    caption = (
        "Relative deviation of the mean loss from the float64 oracle's: of each strategy and number of workers the "
        f"launch that deviates most, of n = {len(compared)} launches."
    )
    largest = max(member.loss for member in compared)
    alt = f"Lines over the steps, a panel for each task; the largest deviation is {blocks.tiny(largest)}."
    return blocks.figure("losses", partial(curves, plot, looks), caption, alt)


def _course(certificate: Certificate, about: Mapping[str, str], look: style.Style) -> Line:
    """The deviations of a launch, of some steps on end the largest; zero is drawn at the bottom."""
    deviations = step_deviations(certificate)
    every = math.ceil(len(deviations) / _MOST_STEPS)
    starts = range(0, len(deviations), every)
    tip = {
        **{"strategy": certificate.strategy, "workers": certificate.workers, "launch": certificate.launch},
        "largest deviation of a loss": blocks.tiny(certificate.loss),
        "largest residual of an update": blocks.tiny(certificate.residual),
        "verdict": certificate.verdict,
    }
    name = certificate.strategy
    looks = {"color": look.color, "dashes": look.line, "width": 0.8, "label": name, "key": name, "tips": [tip]}
    x = [certificate.first_step + start for start in starts]
    values = [np.nanmax([_LOWEST_DEVIATION, *deviations[start : start + every]]) for start in starts]
    return Line(**about, **looks, x=x, values=values)
