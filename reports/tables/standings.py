"""The rows of the first page's table: each strategy beside the fastest."""

import pandas as pd

from common.observations import answers
from common.observations.answers import FASTEST, NOT_RANKED, UNDECIDED
from reports.tables import certificate, ranking, summaries
from reports.tables.decomposition import largest
from reports.tables.material import Material

MOST_ROWS = 12  # The table and the figure of the first page have room for as many strategies, the fastest of more.


def of_regime(material: Material, regime: str) -> pd.DataFrame:
    """The cells with the regime's largest tested number of workers, the fastest first, unranked ones last.

    Without a test they are those of the largest number of workers that have a core for each thread, if there are any.
    `relative` is how many times as long as the fastest a strategy takes for the same work, with the ends of the
    family's simultaneous 95 % interval (`low`, `high`); it has a `verdict`, or a `reason` why it isn't ranked.
    `certificate` is the gravest verdict on its launches, empty where none was compared. `part` takes most of a step
    beyond the ideal one, with its `share` of the measured step, and whether it counts (`is_limit`). What isn't known is
    NaN.
    """
    cells = summaries.with_exchange(material.cells, regime)
    family = ranking.main_family(ranking.of_regime(material.ranking.comparisons, regime))
    if len(family):
        first = family.iloc[0]
        cells = cells[(cells["workers"] == first["workers"]) & (cells["placement"] == first["placement"])]
    else:
        cells = summaries.over_fastest_links(cells)
        fitting = cells if cells["oversubscribed"].all() else cells[~cells["oversubscribed"]]
        most = fitting[fitting["workers"] == fitting["workers"].max()]
        cells = most[most["hosts"] == most["hosts"].max()]
    pairs = ranking.as_pairs(family)
    leader = answers.in_front(pairs) if len(pairs) else ""
    beside = answers.beside(pairs, leader).rename(columns={"series": "strategy", "ratio": "relative"})
    unranked = ranking.of_regime(material.ranking.unranked, regime)[["strategy", "workers", "placement", "reason"]]
    limits = largest(ranking.of_regime(material.parts, regime))
    keys = ["preset", "global_batch", "strategy", "workers"]
    verdicts = material.certificates[material.certificates["exchange"]]
    gravity = verdicts["verdict"].map(certificate.GRAVEST_FIRST.index)
    verdicts = verdicts.assign(gravity=gravity).sort_values("gravity").drop_duplicates(keys)
    rows = (
        cells.sort_values("samples_per_second", ascending=False)
        .merge(beside.drop(columns="n"), "left", "strategy")
        .merge(unranked, "left", ["strategy", "workers", "placement"])
        .merge(limits[["strategy", "workers", "part", "share", "is_limit"]], "left", ["strategy", "workers"])
        .merge(verdicts[[*keys, "verdict"]].rename(columns={"verdict": "certificate"}), "left", keys)
    )
    leads = rows["strategy"] == leader
    fastest = rows[leads | (not leader)]["samples_per_second"].max()
    rows["relative"] = rows["relative"].fillna(fastest / rows["samples_per_second"])
    rows["reason"] = rows["reason"].where(rows["verdict"].isna()).fillna("")
    rows["verdict"] = rows["verdict"].fillna((rows["reason"] != "").map({True: NOT_RANKED, False: UNDECIDED}))
    if not (rows["verdict"][~leads] == UNDECIDED).any():
        rows.loc[leads, "verdict"] = FASTEST
    order = (rows["verdict"] == NOT_RANKED) * 2 + ~leads
    return rows.fillna({"certificate": ""}).loc[order.sort_values(kind="stable").index]
