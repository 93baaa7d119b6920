"""Launches in rounds, and what the tests of a family say of them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from common.observations.launches import observed
from reports.tables.ranking import Ranking, rank

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5, 0.9, 1.6, 1.2, 0.7)


def launches(milliseconds: Mapping[str, float | Sequence[float]], workers: int = 2, n: int = 6, **facts: object):
    """The rows of `summaries.launches` that a ranking reads: n launches of each strategy, of so many ms a step.

    One number is that of every round, but for the drift and a spread of about a per cent.
    """
    rows = []
    for index, (name, times) in enumerate(milliseconds.items()):
        if isinstance(times, float):
            noise = np.random.default_rng(index).standard_normal(n)
            times = [times * drift * (1 + each / 100) for drift, each in zip(DRIFT, noise, strict=False)]
        for number, time in enumerate(times, start=1):
            known = {"launch": f"{name}-{workers}-{number}", "strategy": name, "round": number, "seconds": time / 1000}
            rows.append(known | {"samples_per_second": 64_000 * workers / time, "global_batch": 64 * workers})
    known = {"regime": "weak", "workers": workers, "exchange": True, "oversubscribed": False}
    known |= {"hosts": 1, "placement": "", "bandwidth_bits_per_second": math.nan}
    known |= {"input_seconds": math.nan, "rank_spread": math.nan}
    return pd.DataFrame(rows).assign(**known | {"synchronous": True, "same_maths": True} | facts)


def planned(launch_table: pd.DataFrame) -> pd.DataFrame:
    return launch_table[["launch"]].assign(repetition=launch_table["round"])


CERTIFIED = defaultdict(str)


def judged(launch_table: pd.DataFrame, margin: float = 0.05) -> Ranking:
    """The tests of these launches, each of whom is certified."""
    return ranked(launch_table, planned(launch_table), CERTIFIED, margin)


def ranked(
    launch_table: pd.DataFrame,
    plan: pd.DataFrame | None,
    certificate: Mapping[tuple[str, int], str],
    margin: float = 0.05,
) -> Ranking:
    return rank(launch_table, observed(launch_table, plan), margin, certificate)


def pairs_of(found: Ranking) -> list[tuple[str, str]]:
    """Who was compared with whom, the faster first."""
    return list(zip(found.comparisons["strategy"], found.comparisons["other"], strict=True))


def placed(milliseconds: Mapping[str, float], hosts: int, megabits: float | None = None, **facts: object):
    """Launches of strategies that are all on so many hosts."""
    placement = f"{hosts} hosts" + (f", {megabits:g} Mbit/s" if megabits else "")
    known = {"hosts": hosts, "placement": placement} | facts
    known["bandwidth_bits_per_second"] = megabits * 1e6 if megabits else math.nan
    return launches({f"{name}, {placement}": time for name, time in milliseconds.items()}, **known)
