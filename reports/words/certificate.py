"""Whether every launch computed the same: in sentences, in curves, and in a table of deviations."""

import math
from functools import partial

import pandas as pd

from common.contract.oracle import LOSS_FLOOR, LOSS_TOLERANCE
from common.records.certificate import ASYNCHRONOUS, DEVIATES, FOLLOWS, NOT_COMPARED, OTHER_MATHS, Certificate
from reports import blocks
from reports.charts import deviation, style
from reports.tables.material import Material

_COMPARED = (FOLLOWS, DEVIATES)
"""The verdicts on settings that are held to what they declare."""


def sentence(summary: pd.DataFrame) -> str:
    """How many settings with exchange follow the oracle and which don't, and how far other maths deviate from it."""
    rows = summary[summary["exchange"].astype(bool)]
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
    rows = summary[~summary["exchange"].astype(bool)]
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


def section(material: Material) -> list[blocks.Block]:
    """What every setting's updates were made of, with the verdict, and the losses on the oracle's trajectory."""
    verdicts = [sentence(material.certificates), without_exchange(material.certificates)]
    parts = [
        blocks.text(
            "The weights before and after a step tell what the update was made of: how often each worker's mean "
            "gradient counted, the update before (velocity) and the weights (decay), all computed in float64 at the "
            "launch's own weights. The residual is what the declared counts leave. A launch follows if each "
            "of its updates that were read, one that it couldn't foresee among them, leaves no more than rounding in "
            "float32 explains, every row was computed on once, and losses are off by at most "
            f"{blocks.tiny(LOSS_TOLERANCE)} (of {LOSS_FLOOR:g} where they are smaller): of those steps beside the "
            "float64 oracle at the same weights, and of all steps beside its own trajectory where the network has no "
            "ReLU. Options that round or approximate on purpose (other maths) aren't held to this. "
            f"{' '.join(filter(None, verdicts))}"
        ),
        *_recipes(material.certificates),
    ]
    compared = [each for each in material.beside_oracle if each.exchange and len(each.oracle_losses)]
    groups: dict[tuple, list[Certificate]] = {}
    for comparison in compared:
        groups.setdefault((comparison.preset, comparison.global_batch, comparison.maths), []).append(comparison)
    for (preset, batch, _), members in sorted(groups.items()):
        worst: dict[tuple[str, int, int], Certificate] = {}
        for member in members:
            key = (member.without_hosts, member.hosts, member.workers)
            if key not in worst or member.loss > worst[key].loss:
                worst[key] = member
        draw = partial(deviation.losses, [worst[key] for key in sorted(worst)], style.styles(material.colors))
        workers = ", ".join(str(count) for count in sorted({member.workers for member in members}))
        spread = any(member.hosts > 1 for member in members)
        caption = (
            f"{preset}, seed {members[0].seed}, global batch {batch}, workers {workers}: n = {len(members)} launches; "
            f"drawn is the launch of each strategy{', hosts' if spread else ''} and worker count that deviates most."
        )
        alt = (
            "Two panels of lines over the steps: losses, which lie on the oracle's, and their relative deviation from "
            f"it, at most {blocks.tiny(max(member.loss for member in members))}. A table has all numbers."
        )
        parts.append(blocks.figure("losses", draw, caption, alt, stacks=True))
    return parts


def _recipes(summary: pd.DataFrame) -> list[blocks.Block]:
    """A row for each setting: what its updates were made of, and the verdict."""
    if summary.empty:
        return []
    names = ["strategy", "workers", "preset", "batch", "n", "workers' shares", "velocity"]
    names += ["decay", "residual", "of rounding", "loss", "verdict"]
    rows: list[list[str]] = []
    notes: dict[str, int] = {}
    for row in summary.sort_values(["preset", "strategy", "workers", "global_batch", "seed"]).to_dict("records"):
        shares = [_count(row[name]) for name in ("least_share", "largest_share")]
        rows.append(
            [
                *[row["strategy"] + ("" if row["exchange"] else ", without exchange"), str(row["workers"])],
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
    return [blocks.table(names, rows, sentences, warned=DEVIATES)]


def _count(value: float) -> str:
    """A coefficient to four decimals; a dash where it can't be told."""
    return blocks.DASH if math.isnan(value) else f"{round(value, 4) + 0.0:.4f}"
