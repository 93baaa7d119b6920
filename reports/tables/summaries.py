"""Records to numbers, as pandas tables: launches, cells with their speed-ups, and how launches ended.

A cell is what may be pooled: one strategy, workers and exchange in a regime (`common.observations.launches`).
"""

import math
from collections.abc import Mapping

import pandas as pd

from common.contract.task import PRESETS
from common.declarations.strategy import name_of
from common.observations import answers
from common.observations import launches as observed_launches
from common.records.training import Record
from reports.tables import columns

_CELL = ["regime", "strategy", "workers", "exchange"]
_OF_ONE_WORKER = ["work", "regime", "strategy", "n", "global_batch", "samples_per_second"]
_MEDIANS = {"median": "seconds", "low": "low_seconds", "high": "high_seconds"}


def launches(records: Mapping[str, Record]) -> pd.DataFrame:
    """The measured launches, as `common.observations.launches.rows` has them."""
    return columns.table("launches", observed_launches.rows(records))


def cells(launch_table: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: its median with an interval, and both speed-ups, NaN where their base wasn't measured."""
    of_cell = launch_table.groupby(_CELL)
    measured = answers.intervals(of_cell["seconds"]).rename(columns=_MEDIANS)
    others = of_cell[["first_step_seconds", "wire_bytes", "link_bytes_per_second"]].median()
    measured = measured.join(others).assign(oversubscribed=of_cell["oversubscribed"].any())
    facts = launch_table.drop_duplicates(_CELL).set_index(_CELL).sort_index()
    table = facts[facts.columns.difference(measured.columns)].join(measured).reset_index()
    table["samples_per_second"] = table["global_batch"] / table["seconds"]
    # Of one worker there is one placement: it is on one host.
    base, own = one_worker(table, table["named_base"]), one_worker(table, without_hosts(table))
    for prefix, one in (("base_", base), ("own_", own)):
        table[f"{prefix}samples_per_second"] = one["samples_per_second"]
        table[f"{prefix}n"] = one["n"].fillna(0).astype(int)
    speed_up = table["samples_per_second"] / table["base_samples_per_second"]
    table = table.assign(base=base["strategy"], speed_up=speed_up, efficiency=speed_up / table["workers"])
    table["own_speed_up"] = table["samples_per_second"] / table["own_samples_per_second"]
    return table[[*columns.COLUMNS["cells"]]]


def one_worker(cells: pd.DataFrame, strategies: pd.Series) -> pd.DataFrame:
    """For each cell that of one worker of the named strategy at the same work, all NaN where it wasn't measured.

    It is of the same regime, else of the other scaling: with one worker they are the same work.
    """
    wanted = cells[["work", "regime"]].assign(strategy=strategies, cell=cells.index)
    alone = cells.loc[(cells["workers"] == 1) & cells["exchange"], _OF_ONE_WORKER]
    table = wanted.merge(alone, on=["work", "strategy"], suffixes=("_wanted", ""))
    table = table.assign(is_other=table["regime"] != table["regime_wanted"]).sort_values("is_other", kind="stable")
    return table.drop_duplicates("cell").set_index("cell").reindex(cells.index)


def regimes(launch_table: pd.DataFrame) -> list[str]:
    """Sort the regimes: weak before strong, the preset's own batch first, then by worker counts and launches."""
    order = {}
    for name, group in launch_table[launch_table["exchange"]].groupby("regime"):
        first = group.iloc[0]
        is_own = first["batch"] == PRESETS[first["preset"]].batch
        order[name] = (first["scaling"] != "weak", not is_own, -group["workers"].nunique(), -len(group), name)
    return sorted(order, key=order.__getitem__)


def with_exchange(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    """The rows of one regime, of `cells` or `launches`, with exchange."""
    return table[(table["regime"] == regime) & table["exchange"]]


def without_hosts(table: pd.DataFrame) -> pd.Series:
    """The strategy of each row with its own options alone, whatever hosts it was spread over."""
    names = [
        name.removesuffix(f", {placement}") if placement else name
        for name, placement in zip(table["strategy"], table["placement"], strict=True)
    ]
    return pd.Series(names, index=table.index, dtype=object)


def over_fastest_links(table: pd.DataFrame) -> pd.DataFrame:
    """Of rows that differ only in link speed, keep the fastest.

    `table` has the columns of `cells`; a link whose bandwidth nobody chose is as fast as it goes.
    """
    told = table.assign(own=without_hosts(table), speed=table["bandwidth_bits_per_second"].fillna(math.inf))
    fastest = told.groupby(["regime", "own", "workers", "hosts"])["speed"].transform("max")
    return table[told["speed"] == fastest]


def endings(records: Mapping[str, Record], plan: pd.DataFrame | None) -> pd.DataFrame:
    """How every planned or recorded launch ended; the task is empty for one that hasn't run."""
    planned = {} if plan is None else {str(row["launch"]): row for row in plan.to_dict("records")}
    missing = {name: _planned(row) for name, row in planned.items() if name not in records}
    regimes = observed_launches.regimes(records)
    ended = {
        name: {
            "strategy": record.name,
            "bare_strategy": record.strategy,
            "preset": record.task.preset,
            "scaling": record.scaling,
            "workers": record.world_size,
            "ending": record.status,
            "for_speed": record.exchange and not record.task.checkpoint_steps,
            "reason": record.reason or "",
            "log": record.log or "",
            "task": regimes[name]["task"],
        }
        for name, record in records.items()
    }
    rows = [{"launch": name, "planned": name in planned} | row for name, row in sorted((missing | ended).items())]
    return columns.table("endings", rows)


def _planned(row: Mapping[str, object]) -> dict[str, object]:
    """A planned launch that didn't run, as its record would be, as far as the plan tells."""
    hosts, bandwidth = row["hosts"], row["bandwidth_bits_per_second"]
    link = "" if pd.isna(bandwidth) else f", {bandwidth / 1e6:g} Mbit/s"
    placement = f"{hosts} hosts{link}" if hosts > 1 else ""
    return {
        "strategy": name_of(str(row["strategy"]), ", ".join(filter(None, [str(row["label"]), placement]))),
        "bare_strategy": row["strategy"],
        **{name: row[name] for name in ("preset", "scaling", "workers")},
        "ending": "not run",
        "for_speed": bool(row["exchange"]) and row["purpose"] != "certificate",
        **dict.fromkeys(("reason", "log", "task"), ""),
    }
