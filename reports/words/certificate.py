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

_MOST_STEPS = 60  # Of a line.
_HEIGHT = 38.0  # Millimetres of the figure.
_LOWEST_DEVIATION = 1e-10  # Zero has no logarithm.

_COMPARED = (FOLLOWS, DEVIATES)
"""The verdicts on settings that are held to what they declare."""


def sentence(summary: pd.DataFrame) -> str:
    """How many settings with exchange follow the oracle and which don't, and how far other maths deviate from it."""
    rows = summary[summary["exchange"]]
    if rows.empty:
        return "No launch could be compared with the oracle."
    counts = rows["verdict"].value_counts()
    said = [f"{_following(rows)} follow the float64 oracle."]
    if deviating := _deviating(rows):
        said.append(f"Not the same maths: {deviating}.")
    other = rows[rows["verdict"] == OTHER_MATHS]
    if many := len(other):
        options = ", ".join(sorted({option for options in other["other_maths"] for option in options.split(", ")}))
        who, whose = ("1 setting computes", "its") if many == 1 else (f"{many} settings compute", "their")
        largest = blocks.tiny(other["residual"].max())
        said.append(f"{who} other maths on purpose ({options}); {whose} largest residual is {largest}.")
    several = "asynchronous with several workers, which has no oracle to follow"
    for verdict, phrase in ((ASYNCHRONOUS, several), (NOT_COMPARED, NOT_COMPARED)):
        if more := int(counts.get(verdict, 0)):
            said.append(f"{more} more {'is' if more == 1 else 'are'} {phrase}.")
    return " ".join(said)


def without_exchange(summary: pd.DataFrame) -> str:
    """Whether launches without exchange computed what their declarations say; empty where there are none."""
    rows = summary[~summary["exchange"]]
    if rows.empty:
        return ""
    text = f"Without exchange {_following(rows)} follow their own recipes."
    if deviating := _deviating(rows):
        text += f" Not taken as T_comp, since it computes something else: {deviating}."
    others = int((~rows["verdict"].isin(_COMPARED)).sum())
    if others:
        text += f" {others} more {'is' if others == 1 else 'are'} held to nothing."
    return text


def _following(rows: pd.DataFrame) -> str:
    """Such as `5 of 6 compared settings`."""
    compared = rows["verdict"].isin(_COMPARED)
    return f"{int((compared & (rows['verdict'] != DEVIATES)).sum())} of {int(compared.sum())} compared settings"


def _deviating(rows: pd.DataFrame) -> str:
    wrong = rows[rows["verdict"] == DEVIATES].to_dict("records")
    names = [f"{row['strategy']} at {row['workers']} ({row['preset']})" for row in wrong]
    return blocks.some([*dict.fromkeys(names)]) if names else ""


def section(material: Material, most_rows: int) -> list[blocks.Block]:
    """What the updates of each configuration were made of, with the verdict, and losses beside the oracle's.

    Of more configurations the table has `most_rows`.
    """
    about = (
        "The weights before and after a step tell what its update was made of: how often each worker's mean gradient "
        "counted, the update before (velocity) and the weights (decay), all in float64. A launch follows where the "
        "residual is no more than rounding in float32 explains, every row was computed on once, and losses are off by "
        f"at most {blocks.tiny(LOSS_TOLERANCE)} (of {LOSS_FLOOR:g} where they are smaller)."
    )
    verdicts = [sentence(material.certificates), without_exchange(material.certificates)]
    compared = [each for each in material.beside_oracle if each.exchange and len(each.oracle_losses)]
    figure = [_figure(compared, style.styles(material.colors))] if compared else []
    said = blocks.text(" ".join(filter(None, [about, *verdicts]))) | {"small": True}
    return [said, *_recipes(material.certificates, most_rows), *figure]


def _figure(compared: Sequence[Certificate], looks: Mapping[str, style.Style]) -> blocks.Block:
    """How far losses are from the oracle's over the steps: a panel for each task, a line for each world."""
    lines, tolerated = [], []
    groups: dict[str, list[Certificate]] = {}
    for each in sorted(compared, key=lambda each: (each.preset, each.global_batch, each.maths)):
        groups.setdefault(f"{each.preset}, {each.global_batch:,} rows, seed {each.seed}", []).append(each)
    for panel, members in groups.items():
        # Of the launches of one strategy and world the one that deviates most.
        worst: dict[tuple[str, int, int], Certificate] = {}
        for member in members:
            key = (member.without_hosts, member.hosts, member.workers)
            if key not in worst or member.loss > worst[key].loss:
                worst[key] = member
        about = {"measure": "deviation of the loss", "panel": panel}
        lines += [_course(worst[key], about, looks[worst[key].strategy]) for key in sorted(worst)]
        last = max(member.first_step + len(member.losses) for member in members)
        tolerated.append(Line(**about, x=[0, last], values=[LOSS_TOLERANCE] * 2, dashes="-", label="tolerated"))
    plot = Plot(lines=[*lines, *tolerated], x_label="step", logarithmic=["deviation of the loss"], height=_HEIGHT)
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
    return Line(
        **about,
        x=[certificate.first_step + start for start in starts],
        values=[np.nanmax([_LOWEST_DEVIATION, *deviations[start : start + every]]) for start in starts],
        color=look.color,
        dashes=look.line,
        width=0.8,
        label=certificate.strategy,
        key=certificate.strategy,
        tips=[tip],
    )


def _recipes(summary: pd.DataFrame, most_rows: int) -> list[blocks.Block]:
    """A row for each configuration, what doesn't follow first, then what has most launches; of many some."""
    if summary.empty:
        return []
    names = ["strategy", "workers", "preset", "batch", "n", "workers' shares", "velocity"]
    names += ["decay", "residual", "of rounding", "loss", "verdict"]
    rows: list[list[str]] = []
    notes: dict[str, int] = {}
    gravity = summary["verdict"].map(GRAVEST_FIRST.index)
    ordered = summary.assign(gravity=gravity, alone=~summary["exchange"], fewer=-summary["n"])
    order = ["gravity", "alone", "fewer", "preset", "strategy", "workers", "global_batch", "seed"]
    for row in ordered.sort_values(order)[:most_rows].to_dict("records"):
        shares = [_count(row[name]) for name in ("least_share", "largest_share")]
        rows.append(
            [
                *[
                    blocks.shortened(row["strategy"]) + ("" if row["exchange"] else ", without exchange"),
                    str(row["workers"]),
                ],
                *[row["preset"], f"{row['global_batch']:,}", str(row["n"])],
                shares[0] if shares[0] == shares[1] else " to ".join(shares),
                *(_count(row[name]) for name in ("velocity", "decay")),
                blocks.tiny(row["residual"]),
                blocks.DASH if math.isnan(row["rounding"]) else f"{row['rounding']:.2f}",
                blocks.tiny(row["loss"]),
                row["verdict"] + (f" ({notes.setdefault(row['note'], len(notes) + 1)})" if row["note"] else ""),
            ]
        )
    sentences = [f"({number}) {note.rstrip('.')}." for note, number in notes.items()]
    if len(summary) > most_rows:
        sentences.append(f"{most_rows} of {len(summary)} configurations; the table \u201ccertificates\u201d has all.")
    return [blocks.table(names, rows, sentences, warned=DEVIATES)]


def _count(value: float) -> str:
    """A coefficient to four decimals; a dash where it can't be told."""
    return blocks.DASH if math.isnan(value) else f"{round(value, 4) + 0.0:.4f}"
