"""What a step takes beyond the ideal one, in parts that add up to it: one decomposition of every configuration."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from common.statistics.intervals import median_interval
from reports.tables import pairs

COMPUTING, ROWS, WAITING, EXCHANGE = "computing", "rows", "slowest rank", "exchange"
UNDIVIDED, REST = "not divided", "the rest"
PARTS = (COMPUTING, ROWS, WAITING, EXCHANGE, UNDIVIDED, REST)
"""What a step takes beyond the ideal one, in the order in which it is shown."""

NAMED_SHARE = 0.02
"""The share of the measured step from which on a part counts as a limit, and the rest is named."""
_OF_A_CELL = (
    *("regime", "strategy", "placement", "hosts", "bandwidth_bits_per_second", "link_bytes_per_second", "workers"),
    "oversubscribed",
)
_COLUMNS = (
    *(
        *_OF_A_CELL,
        "ideal_seconds",
        "measured_seconds",
        "measured_low",
        "measured_high",
        "measured_n",
        "part",
        "seconds",
        "low",
        "high",
        "n",
        "is_paired",
    ),
)


def parts(cells: pd.DataFrame, launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each part of the step of each cell with exchange whose undistributed base was measured.

    `cells` and `launch_table` are those of `summaries`; asynchronous cells and undistributed ones are left out.
    `seconds` is the median over `n` rounds, each with a difference of launches of that round, with its interval from
    `low` to `high`, NaN below six. Where the base has no launch in any of those rounds, its median over all launches
    takes its place: then `is_paired` is false and there is no interval. What wasn't measured has no row. The rest
    always has one, with which the parts add up to `measured_seconds` less `ideal_seconds`. The ideal is the step with
    which efficiency would be 1, so the two agree with the speed-ups of `cells`.
    """
    if cells.empty:
        return pd.DataFrame(columns=[*_COLUMNS])
    rounds, ones, rows = _rounds(launch_table, plan), _of_one_worker(cells), []
    exposed = exposed_by_round(launch_table, plan)
    is_told = is_distributed(cells) & cells["synchronous"].astype(bool) & cells["base_samples_per_second"].notna()
    for cell in cells[is_told].to_dict("records"):
        ideal = cell["global_batch"] / (cell["workers"] * cell["base_samples_per_second"])
        about = {name: cell[name] for name in _OF_A_CELL}
        about |= {"ideal_seconds": ideal, "measured_seconds": cell["seconds"], "measured_n": cell["n"]}
        about |= {"measured_low": cell["low_seconds"], "measured_high": cell["high_seconds"]}
        by_round = exposed.get((cell["regime"], cell["strategy"], cell["workers"]), pd.Series(dtype=float))
        parts = _parts(cell, rounds, by_round, _ideal(cell, ones[cell["work"], cell["base"]], rounds))
        rest = cell["seconds"] - ideal - sum(part["seconds"] for part in parts)
        nothing = {"low": math.nan, "high": math.nan, "is_paired": True}
        rows += [about | part for part in [*parts, {"part": REST, "seconds": rest, "n": cell["n"]} | nothing]]
    return pd.DataFrame(rows, columns=[*_COLUMNS]).astype({"oversubscribed": bool, "is_paired": bool})


def _rounds(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> dict[tuple, pd.DataFrame]:
    """By regime, strategy, workers and exchange the times of the launches, by round.

    A launch that the plan doesn't name stands in a round of its own, which it shares with no other.
    """
    known = pairs.with_rounds(launch_table, plan)["round"].reindex(launch_table.index)
    own = launch_table.assign(round=known.astype(str).where(known.notna(), launch_table["launch"]))
    keys = ["regime", "strategy", "workers", "exchange"]
    times = own.groupby([*keys, "round"])[["seconds", "input_seconds", "rank_spread"]].median()
    return {key: group.droplevel(keys) for key, group in times.groupby(level=keys)}


def _of_one_worker(cells: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, object]]]:
    """The cells of one worker by their work, which is the same under either scaling, and strategy."""
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for cell in cells[cells["exchange"].astype(bool) & (cells["workers"] == 1)].to_dict("records"):
        found.setdefault((cell["work"], cell["strategy"]), []).append(cell)
    return found


def _ideal(
    cell: Mapping[str, object], ones: Sequence[Mapping[str, object]], rounds: Mapping[tuple, pd.DataFrame]
) -> pd.DataFrame:
    """By round what a step of this cell would take by its base's launches if N workers were N times as fast.

    Of `ones`, the cells of its base, it is that of the same regime, else of the other scaling, as `summaries.cells`
    chooses it.
    """
    base = min(ones, key=lambda one: one["regime"] != cell["regime"])
    share = cell["global_batch"] / (cell["workers"] * base["global_batch"])
    return share * rounds[base["regime"], base["strategy"], 1, True][["seconds", "input_seconds"]]


def _parts(
    cell: Mapping[str, object], rounds: Mapping[tuple, pd.DataFrame], exposed: pd.Series, ideal: pd.DataFrame
) -> list[dict[str, object]]:
    """All parts of the step of a cell but the rest. In a round that has every launch they add up exactly.

    `exposed` is the exposed communication of the cell by round (`exposed_by_round`).
    """
    key = (cell["regime"], cell["strategy"], cell["workers"])
    step = rounds[*key, True]
    # One worker has nobody to exchange with: its step is all computing and rows.
    alone = step if cell["workers"] == 1 else rounds.get((*key, False), step.iloc[:0])
    is_split = cell["workers"] == 1 or len(exposed) > 0
    computed = alone if is_split else step
    waited = computed["seconds"] * (1 - 1 / computed["rank_spread"])
    common = computed.index.intersection(ideal.index)
    is_paired = len(common) > 0
    within = computed.loc[common] if is_paired else computed
    ideal = ideal.loc[common] if is_paired else pd.DataFrame(ideal.median().to_dict(), index=computed.index)
    rows = within["input_seconds"] - ideal["input_seconds"].fillna(0.0)
    more = within["seconds"] - ideal["seconds"] - rows.fillna(0.0) - waited.reindex(within.index).fillna(0.0)
    found = {COMPUTING if is_split else UNDIVIDED: (more, is_paired), ROWS: (rows, is_paired)}
    found |= {WAITING: (waited, True)} if cell["workers"] > 1 else {}
    found |= {EXCHANGE: (exposed, True)} if cell["workers"] > 1 else {}
    known = {part: (found[part][0].dropna(), found[part][1]) for part in PARTS if part in found}
    return [_part(part, values, paired) for part, (values, paired) in known.items() if len(values)]


def _part(part: str, values: pd.Series, is_paired: bool) -> dict[str, object]:
    interval = median_interval(values.tolist())
    low, high = (interval.low, interval.high) if is_paired and interval.low is not None else (math.nan, math.nan)
    return {
        **{"part": part, "seconds": interval.median, "low": low, "high": high},
        **{"n": interval.n, "is_paired": is_paired},
    }


def is_distributed(cells: pd.DataFrame) -> pd.Series:
    """Whether a cell is of launches that exchange, or would, and not of the base itself."""
    return cells["exchange"].astype(bool) & (cells["bare_strategy"] != cells["named_base"])


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Of each strategy and number of workers the largest part, with its `share` of the measured step.

    It `is_limit` where that share counts, unless its interval reaches down to zero.
    """
    if found.empty:
        return found.assign(share=[], is_limit=[])
    share = found["seconds"] / found["measured_seconds"]
    told = found.assign(share=share, is_limit=(share >= NAMED_SHARE) & ~(found["low"] <= 0))
    return told.loc[told.groupby(["strategy", "workers"])["seconds"].idxmax()]


def exposed_by_round(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> dict[tuple[str, str, int], pd.Series]:
    """Exposed communication in seconds per step, by round, for each regime, strategy and number of workers.

    It is T_step less T_comp: the step with gradient exchange less the one without, in every round that has both.
    """
    rounds, cell = pairs.with_rounds(launch_table, plan), ["regime", "strategy", "workers"]
    if rounds.empty:
        return {}
    by_exchange = rounds.assign(exchange=rounds["exchange"].astype(bool)).groupby([*cell, "round", "exchange"])
    steps = by_exchange["seconds"].median().unstack("exchange").reindex(columns=[True, False])
    seconds = (steps[True] - steps[False]).dropna()
    return {key: group.droplevel(cell) for key, group in seconds.groupby(level=cell)}


def split(cell_table: pd.DataFrame, launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """Cells of more than one worker that were measured without exchange too, or with the bytes on their wire.

    `exposed_seconds` is the median, over `exposed_n` pairs of launches of the same round, of the step with exchange
    less the one without, with its interval from `exposed_low` to `exposed_high`, NaN below six pairs.
    """
    kept = ["regime", "strategy", "bare_strategy", "placement", "workers", "wire_bytes", "formula_bytes"]
    kept += ["formula", "formula_source"]
    columns = [*kept, "step_seconds", "step_n", "compute_seconds", "compute_n", "exposed_seconds", "exposed_n"]
    columns += ["exposed_low", "exposed_high"]
    exposed, rows, told = exposed_by_round(launch_table, plan), [], cell_table.to_dict("records")
    alone = {(row["regime"], row["strategy"], row["workers"]): row for row in told if not row["exchange"]}
    for row in told:
        if not row["exchange"] or row["workers"] == 1:
            continue
        cell = (row["regime"], row["strategy"], row["workers"])
        without = alone.get(cell, {})
        seconds, low, high, count = pairs.median(exposed.get(cell, pd.Series(dtype=float)))
        if without or row["wire_bytes"] == row["wire_bytes"]:
            rows.append(
                {
                    **{name: row[name] for name in kept},
                    "step_seconds": row["seconds"],
                    "step_n": row["n"],
                    "compute_seconds": without.get("seconds", float("nan")),
                    "compute_n": without.get("n", 0),
                    "exposed_seconds": seconds,
                    "exposed_n": count,
                    "exposed_low": low,
                    "exposed_high": high,
                }
            )
    return pd.DataFrame(rows, columns=columns)
