"""Who is faster than whom: the table of each tested family, who is not ranked and why, and the residuals."""

import math
from collections.abc import Collection, Mapping
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from common.observations import answers
from common.records.certificate import ALL_REASONS, ASYNCHRONOUS, OTHER_MATHS, REASONS
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MOST_ROUNDS, POWER, smallest_difference
from reports import blocks
from reports.blocks import Block, listed
from reports.charts import deviation
from reports.tables import summaries
from reports.tables.material import Material
from reports.tables.ranking import (
    OVERSUBSCRIBED,
    TOO_FEW_ROUNDS,
    Ranking,
    as_pairs,
    families_of,
    main_family,
    of_regime,
    tested,
)

_OTHER_MATHS, _ASYNCHRONOUS = REASONS[OTHER_MATHS], REASONS[ASYNCHRONOUS]

_MARKS = {"faster": ">", "alike": "=", "can't tell": "?"}
_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"

_MOST_NAMED = 3
"""Of more strategies or pairs than these a sentence names the ends, or says how many they are."""

_MOST_ROWS = 45
"""A table of more comparisons than these shows those with the fastest strategy and those of neighbours in speed."""


def not_ranked(ranking: Ranking, regime: str, left_out: Collection[str] = ()) -> str:
    """Who isn't ranked in a regime, and why; empty where everybody is.

    Strategies of `left_out`, for which the time didn't suffice, aren't named once more for having few rounds; where
    nothing at all is ranked for that reason, nobody is named for it.
    """
    unranked = of_regime(ranking.unranked, regime)
    bare = unranked["strategy"].map(lambda name: name.partition(", ")[0])
    nothing = tested(of_regime(ranking.comparisons, regime)).empty
    unranked = unranked[(unranked["reason"] != TOO_FEW_ROUNDS) | ~(bare.isin(left_out) | nothing)]
    said = []
    for reason in (*ALL_REASONS, OVERSUBSCRIBED, TOO_FEW_ROUNDS):
        found = unranked[unranked["reason"] == reason]
        if len(found):
            if reason in (_OTHER_MATHS, _ASYNCHRONOUS):
                # It's the strategy's own, on whatever hosts.
                found = found.assign(strategy=summaries.without_hosts(found))
            who = blocks.who(found)
            if reason in (OVERSUBSCRIBED, TOO_FEW_ROUNDS) and found["strategy"].nunique() > _MOST_NAMED:
                counts = found.groupby("workers")["strategy"].nunique().items()
                who = listed(
                    [f"{n} strateg{'ies' if n > 1 else 'y'} with {blocks.workers(many)}" for many, n in counts]
                )
            few = f" (n = {blocks.span(found['n'])}, {FEWEST_LAUNCHES} needed)" if reason == TOO_FEW_ROUNDS else ""
            said.append(f"{who}, {reason}{few}")
    return f"{'; '.join(said)}." if said else ""


def resolution(ranking: Ranking, regime: str) -> str:
    """From which difference on this machine could tell two strategies apart; empty where nothing was tested.

    It is what the tests of the regime's largest family find with a probability of `POWER`, by the median spread.
    """
    family = main_family(of_regime(ranking.comparisons, regime))
    if family.empty:
        return ""
    smallest = np.array([smallest_difference(np.std(logs, ddof=1), len(logs), len(family)) for logs in family["logs"]])
    which = "by the spread of the only comparison"
    if len(family) > 1:
        which = f"by the median spread of {len(family)} comparisons; {_percent(smallest.max())} by the largest"
    return (
        f"Today this machine can show differences from {_percent(float(np.median(smallest)))} on with "
        f"{_workers(family)} and {_rounds(family)} (with {100 * POWER:g} % power, {which})."
    )


def section(material: Material) -> list[Block]:
    """The tests, family by family, and who isn't ranked; nothing where no strategy was measured.

    The residuals of the first regime with a tested family become a figure.
    """
    ranking, names = material.ranking, material.shown
    if ranking.comparisons.empty and ranking.unranked.empty:
        return []
    parts = [blocks.heading("Who is faster: pairs within rounds", level=2)]
    if ranking.comparisons.empty:
        nothing = (
            "Nothing is ranked: that takes two strategies with the same number of workers, a certificate for each, and "
            "no more threads than cores."
        )
        parts.append(blocks.text(nothing))
    elif tested(ranking.comparisons).empty:
        few = (
            f"There are too few rounds to rank anything: {_rounds(ranking.comparisons)}, and {FEWEST_LAUNCHES} are "
            f"needed (more --minutes, or --repetitions {FEWEST_LAUNCHES}). The numbers show what was measured, not who "
            "is faster."
        )
        parts.append(blocks.text(few))
    else:
        explanation = (
            "Strategies are compared within rounds, by the ratio of their samples per second: given is its geometric "
            "mean over n rounds. A family is all pairs that the plan has with one number of workers on the same hosts, "
            "with the same maths and no more threads than cores; no result decides who is in it. Faster: the paired t "
            "test of the ratio's logarithm, corrected for the family (Holm, 1979), has p at most 5 %. The 95 % "
            "intervals hold for the whole family at once (Bonferroni's; Dunn, 1961). Alike: two one-sided t tests "
            "(Schuirmann, 1987), at 5 % over the number of comparisons, find a difference of less than "
            f"{_percent(ranking.margin)}, the margin that was set beforehand (--margin). Else the last column says how "
            f"many rounds would show two equal strategies to be alike with {100 * POWER:g} % power."
        )
        parts.append(blocks.text(explanation))
    for regime, name in names.items():
        for family in families_of(of_regime(ranking.comparisons, regime)):
            if len(tested(family)):
                parts.append(blocks.heading(f"{_workers(family)}, {name}", level=3))
                parts.append(_table(family, ranking.margin))
        if missing := not_ranked(ranking, regime, material.results.left_out):
            parts.append(blocks.text(f"Not ranked, {name}: {missing}"))
    main = [(name, main_family(of_regime(ranking.comparisons, regime))) for regime, name in names.items()]
    return [*parts, *(_residuals(family, name) for name, family in [each for each in main if len(each[1])][:1])]


def _residuals(family: pd.DataFrame, name: str) -> Block:
    caption = (
        f"Residuals, {_workers(family)}, {name}: how far the ratio of each pair was off its mean in each round, "
        f"{_rounds(family)}. Lines that rise or fall together show a drift that rounds don't take out, a point far "
        "from the others an outlier. The farthest are named."
    )
    alt = "Lines over the rounds, one for each pair of strategies: the pair's ratio in per cent of its mean."
    return blocks.figure("residuals", partial(deviation.residuals, family), caption, alt)


def _table(family: pd.DataFrame, margin: float) -> Block:
    """The tested comparisons of a family; of very many those with the fastest strategy and those of neighbours."""
    judged = tested(family)
    shown, notes = judged, []
    if len(judged) > _MOST_ROWS:
        named = as_pairs(judged)
        leader, neighbours = answers.in_front(named), {*map(frozenset, pairwise(answers.by_median(named)))}
        pairs = zip(judged["strategy"], judged["other"], strict=True)
        kept = [leader in pair or frozenset(pair) in neighbours for pair in pairs]
        shown, hidden = judged[kept], judged[[not each for each in kept]]
        counts = [f"{count} {verdict}" for verdict, count in hidden["verdict"].value_counts().items()]
        notes.append(f"Not shown: {len(hidden)} pairs of slower strategies that aren't neighbours, {listed(counts)}.")
    if len(family) > len(judged):
        few = family[family["n"] < FEWEST_LAUNCHES]
        notes.append(f"Not tested: {len(few)} more pairs, for too few rounds (n = {blocks.span(few['n'])}).")
    rows = [_row(row) for row in shown.to_dict("records")]
    columns = ["strategy", "samples/s", "over", "samples/s", "rounds (n)", "ratio", "95 % interval", "p", "verdict"]
    columns.append(f"rounds to {_PLUS_MINUS}{_percent(margin)}")
    return blocks.table(columns, rows, notes)


def _row(row: Mapping[str, object]) -> list[str]:
    # Infinite: more rounds than are looked at.
    counts = (row["fewest"], row["most"])
    needed = [f"over {MOST_ROUNDS:,}" if math.isinf(count) else f"{count:,.0f}" for count in counts]
    return [
        *[row["strategy"], f"{row['rate']:,.0f}", row["other"], f"{row['other_rate']:,.0f}", str(row["n"])],
        *[f"{row['ratio']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"],
        *["< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}", f"{_MARKS[row['verdict']]} {row['verdict']}"],
        " to ".join(dict.fromkeys(needed)) if row["verdict"] == "can't tell" else blocks.DASH,
    ]


def _workers(table: pd.DataFrame) -> str:
    """How many workers those of a family have, and on which hosts where these are several."""
    placement = table["placement"].iloc[0]
    return f"{blocks.workers(int(table['workers'].iloc[0]))}{f' on {placement}' if placement else ''}"


def _rounds(comparisons: pd.DataFrame) -> str:
    return f"n = {blocks.span(comparisons['n'])} round{'s' if comparisons['n'].max() > 1 else ''}"


def _percent(share: float) -> str:
    """Per cent in two digits, or in whole ones from 10 on."""
    number = 100 * share
    return f"{number:,.0f} %" if number >= 10 else f"{number:.2g} %"
