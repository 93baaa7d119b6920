"""What the step of each configuration consists of, round by round: one decomposition, of which tables are views.

A configuration is what is never pooled with another: a regime (preset, task, scaling and machine), a strategy with its
options and hosts, and a number of workers. Launches are compared within one configuration and one round alone, but for
the baseline, which stands in the same round.
"""

import math

import numpy as np
import pandas as pd

from common.observations import answers
from common.observations.launches import CONFIGURATION, NAMES, WITHOUT_EXCHANGE
from common.observations.table import CONDITION
from common.records.metrics import fewest_batch
from reports.tables import columns
from reports.tables.results import Results
from reports.tables.summaries import one_worker

COMPUTING, ROWS, WAITING, EXCHANGE = "computing", "rows", "slowest rank", "exchange"
UNDIVIDED, REST = "not divided", "the rest"
PARTS = (COMPUTING, ROWS, WAITING, EXCHANGE, UNDIVIDED, REST)
"""What a step takes beyond the ideal one, in the order in which it is shown."""

RATIO, CONTENTION, EXPOSED = "ratio", "contention", "exposed_seconds"
"""Samples per second over the baseline's, T_comp over the ideal step, and T_step less T_comp."""

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"

NAMED_SHARE = 0.02  # From this share of the measured step on a part counts as a limit.

_SERIES = [*CONDITION, "series"]
_TIMES = ["seconds", "input_seconds", "rank_spread"]
_MEASURED = {name: f"measured_{name}" for name in ("seconds", "n", "low_seconds", "high_seconds")}


def steps(observed: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """What each round tells of a configuration, as observations: `RATIO`, `CONTENTION`, `EXPOSED` and parts of a step.

    Times are seconds per step. A round counts by the median over its launches of each kind. Where the baseline has no
    launch in any of a configuration's rounds, the parts are those beyond its median over all rounds.
    """
    index = [*_SERIES, "round"]
    times = observed.pivot_table(index=index, columns=["part", "measure"], values="value", aggfunc="median")
    times = times.reindex(columns=pd.MultiIndex.from_product([("", WITHOUT_EXCHANGE), _TIMES]))
    times = times.join(pd.concat({"ideal": _ideal(times[""], cells)}, axis=1), how="outer")
    trained, computed, ideal = (times[kind] for kind in ("", WITHOUT_EXCHANGE, "ideal"))
    workers = times.index.get_level_values("x")
    # One worker has nobody to exchange with: its step is all computing and rows.
    exposed = (trained["seconds"] - computed["seconds"]).where(workers > 1)
    has_exposed = exposed.groupby(level=_SERIES).transform("count") > 0
    computing = computed.where(has_exposed, trained)
    is_paired = (computing["seconds"] - ideal["seconds"]).groupby(level=_SERIES).transform("count") > 0
    of_base = ideal.where(is_paired, ideal.groupby(level=_SERIES).transform("median"))
    straggler = computing["seconds"] * (1 - 1 / computing["rank_spread"])
    rows = (computing["input_seconds"] - of_base["input_seconds"].fillna(0.0)).where(of_base["seconds"].notna())
    beyond = computing["seconds"] - of_base["seconds"] - rows.fillna(0.0) - straggler.fillna(0.0)
    is_divided = has_exposed | (workers == 1)
    values = {
        RATIO: workers * ideal["seconds"] / trained["seconds"],
        CONTENTION: computed["seconds"] / ideal["seconds"],
        EXPOSED: exposed,
        COMPUTING: beyond.where(is_divided),
        UNDIVIDED: beyond.where(~is_divided),
        ROWS: rows,
        WAITING: straggler,
        EXCHANGE: exposed,
    }
    return answers.of_rounds(values)


def _ideal(trained: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The step of each configuration by round if N workers were N times as fast as the baseline's launch of the round.

    `trained` has the steps with exchange by round.
    """
    trains = cells[cells["exchange"]]
    base = one_worker(trains, trains["named_base"])
    share = trains["global_batch"] / (trains["workers"] * base["global_batch"])
    with_base = trains[CONFIGURATION].set_axis(_SERIES, axis=1)
    with_base = with_base.assign(regime=base["regime"], strategy=base["strategy"], share=share)
    alone = trained[trained.index.get_level_values("x") == 1].reset_index().drop(columns=["world", "x"])
    alone = alone.rename(columns={"subject": "regime", "series": "strategy"})
    ideal = with_base.merge(alone, on=["regime", "strategy"]).set_index([*_SERIES, "round"])
    return ideal[["seconds", "input_seconds"]].mul(ideal["share"], axis=0)


def configurations(cells: pd.DataFrame, medians: pd.DataFrame) -> pd.DataFrame:
    """The `cells` with exchange, with their time without it, and the `medians` of `steps` in columns."""
    silent = cells[~cells["exchange"]].set_index(CONFIGURATION)[["seconds", "n"]].add_prefix("compute_")
    by_round = answers.in_columns(medians, [RATIO, CONTENTION, EXPOSED])
    table = cells[cells["exchange"]].join(silent, on=CONFIGURATION).join(by_round, on=CONFIGURATION)
    counts = [name for name in table if name.endswith("_n")]
    return table.fillna(dict.fromkeys(counts, 0)).astype(dict.fromkeys(counts, int))


def parts(configurations: pd.DataFrame, medians: pd.DataFrame) -> pd.DataFrame:
    """One row for each part of the step of each distributed, synchronous configuration whose baseline was measured.

    `medians` are those of `steps`. Where the baseline has no launch in any of the rounds `is_paired` is false and there
    is no interval. What wasn't measured has no row, but the rest always has one. The ideal is the step with which
    efficiency would be 1, so the two agree with the speed-ups of `cells`.
    """
    measured = configurations[is_distributed(configurations) & configurations["synchronous"]]
    measured = measured[measured["base_samples_per_second"].notna()].rename(columns=_MEASURED)
    ideal = measured["global_batch"] / (measured["workers"] * measured["base_samples_per_second"])
    measured = measured.assign(ideal_seconds=ideal, cell=measured.index)
    of_parts = medians[medians["measure"].isin(PARTS)].drop(columns=["part", "oversubscribed"])
    of_parts = of_parts.rename(columns=NAMES | {"measure": "part", "median": "seconds"})
    rows = measured.merge(of_parts, on=CONFIGURATION)
    shared = rows["contention_n"].where(rows["exposed_seconds_n"] > 0, rows["ratio_n"])
    rows["is_paired"] = (shared > 0) | rows["part"].isin([WAITING, EXCHANGE])
    rows[["low", "high"]] = rows[["low", "high"]].where(rows["is_paired"])
    divided = rows.groupby("cell")["seconds"].sum().reindex(measured.index, fill_value=0.0)
    rest = measured.assign(part=REST, is_paired=True, low=math.nan, high=math.nan, n=measured["measured_n"])
    rest["seconds"] = measured["measured_seconds"] - ideal - divided
    return columns.table("parts", pd.concat([rows, rest]).sort_values("cell", kind="stable"))


def exposed(configurations: pd.DataFrame, launches: pd.DataFrame, results: Results) -> pd.DataFrame:
    """One row for each configuration of several workers with its T_comp, its bytes counted, or its baseline measured.

    The tutorials' formula, T_epoch = N / (R B) (T_comp + T_sync), is about synchronous workers with rows of their own
    under weak scaling. R of them would pay where T_sync / T_comp < R - 1, if computing were as fast beside R - 1 others
    as alone; T_comp(R) / T_comp(1) is called contention. What it says is NaN for other configurations.
    """
    rows = configurations[configurations["workers"] > 1]
    first = launches.drop_duplicates(CONFIGURATION).set_index(CONFIGURATION)["launch"]
    shards = first.map({name: record.shards for name, record in results.records.items()}).rename("shards")
    rows = rows.join(shards, on=CONFIGURATION)
    rows = rows.assign(base_seconds=rows["batch"] / rows["base_samples_per_second"])
    times = rows[["batch", "workers", "base_seconds", CONTENTION, EXPOSED]]
    fewest = pd.Series([fewest_batch(*each) for each in times.itertuples(index=False)], rows.index, dtype=float)
    share = rows[EXPOSED] / rows["compute_seconds"]
    formula = {
        "verdict": answers.sides(rows, RATIO, 1, SURELY_DOES_NOT, SURELY_PAYS),
        "sync_share": share,
        "by_formula": _pays(share, rows["workers"] - 1),
        "with_contention": _pays(fewest, rows["batch"]),
        "fewest_batch": fewest,
    }
    is_weak = rows["synchronous"] & (rows["scaling"] == "weak") & (rows["shards"] == rows["workers"])
    is_meant = is_weak & rows["base_samples_per_second"].notna()
    rows = rows.assign(**{name: pd.Series(own, rows.index).where(is_meant) for name, own in formula.items()})
    is_measured = is_meant | (rows["compute_n"] > 0) | rows["wire_bytes"].notna()
    return columns.table("exposed", rows[is_measured].rename(columns={"seconds": "step_seconds", "n": "step_n"}))


def _pays(values: pd.Series, limits: pd.Series) -> np.ndarray:
    """Whether it pays, which it does below a limit; empty where nothing tells."""
    return np.select([values.isna(), values < limits], ["", PAYS], DOES_NOT_PAY)


def is_distributed(cells: pd.DataFrame) -> pd.Series:
    """Whether a cell is of launches that exchange gradients, or would, and not of the baseline itself."""
    return cells["exchange"] & (cells["bare_strategy"] != cells["named_base"])


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Of each strategy and number of workers the largest part, with its `share` of the measured step.

    It `is_limit` where that share counts, unless its interval reaches down to zero.
    """
    share = found["seconds"] / found["measured_seconds"]
    found = found.assign(share=share, is_limit=(share >= NAMED_SHARE) & ~(found["low"] <= 0))
    keys = ["strategy", "workers"]
    return found.sort_values("seconds", ascending=False, kind="stable").drop_duplicates(keys).sort_values(keys)
