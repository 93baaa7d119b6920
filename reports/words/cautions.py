"""What makes a measurement less certain than it looks, each with its likely cause and a remedy."""

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.tables.material import Material

OUTLIER_SCORE = 3.5
"""Modified z-score beyond which a launch is called outlying (Iglewicz & Hoaglin, 1993, p. 11)."""

TOLERATED_SPREAD = 0.10
"""Share of the median by which launches, windows or ranks may differ without a caution."""

SHORTEST_MEASUREMENT_SECONDS = 0.5
"""Clocked time of a launch below which one interruption of the machine shows in its windows."""


# What was seen, its likely cause and a remedy, in the order in which `_seen_in` looks for them.
_OF_A_CELL = (
    (
        f"Fewer than {FEWEST_LAUNCHES} launches",
        "the comparison was stopped early, was asked for few repetitions, or is a quick one, which gives what time is "
        "left after the rounds of the bases and of the largest worlds with a core for each process to the rest",
        "no interval is given and nothing is ranked there; allow more --minutes, or run at least "
        f"{FEWEST_LAUNCHES} (--repetitions)",
    ),
    (
        "More threads than cores",
        "more workers, or workers and servers, than this machine has cores for, so they take turns and none is pinned",
        "read these numbers as a test that it works, not as scaling; use a machine with more cores",
    ),
    (
        "An outlying launch",
        "another program, a slow clock or a busy disk during that launch",
        "close other programs and run the comparison again; every launch is kept and drawn",
    ),
    (
        "Launches spread by more than 10 %",
        "the machine's speed changes between launches: other load, shared cores, heat",
        "more repetitions on a quiet machine",
    ),
    (
        "First windows slower than later ones",
        "the warm-up is too short, so caches, allocators or graphs still settle",
        "raise --warmup-steps",
    ),
    (
        "Ranks differ by more than 10 %",
        "one worker computes on a slower or busier core and the others wait",
        "look at the placement of the workers; the slowest rank sets the cost",
    ),
    (
        "Less than half a second was clocked",
        "small steps and few of them: one interruption moves the median",
        "raise --steps",
    ),
)


def cautions(launches: pd.DataFrame, records: Mapping[str, Record]) -> list[Block]:
    """Every kind of instability that these launches show, each with the cells that show it; none left out."""
    where: list[list[str]] = [[] for _ in _OF_A_CELL]
    for _, regime in launches.groupby(["preset", "scaling", "exchange", "regime"]):
        groups = [group for _, group in regime.groupby(["strategy", "workers"])]
        for places, signs in zip(where, zip(*map(_seen_in, groups), strict=True), strict=True):
            found = [(group, sign) for group, sign in zip(groups, signs, strict=True) if sign is not None]
            if found:
                places.append(_in_words(found, every=len(found) == len(groups)))
    of_cells = [(*kind, places) for kind, places in zip(_OF_A_CELL, where, strict=True)]
    every = [*of_cells, _restarts(records), *_mixtures(records)]
    return [blocks.caution(*kind, places) for *kind, places in every if places]


def section(material: Material) -> list[Block]:
    """Instabilities with cause and remedy."""
    parts = [blocks.heading("Cautions", level=2)]
    found = cautions(material.launches, material.results.records)
    return parts + (found or [blocks.text("None: no outlying launch, no slow first windows, no spread above 10 %.")])


def _in_words(found: list[tuple[pd.DataFrame, str]], every: bool) -> str:
    """One line for the cells of a regime: `pathway weak: a_strategy at 1 (12 %), at 2 (15 %)`."""
    first = found[0][0].iloc[0]
    regime = f"{first['preset']} {first['scaling']}" + ("" if first["exchange"] else " without exchange")
    signs = {sign for _, sign in found}
    if every and len(signs) == 1 and len(found) > 1:
        return f"{regime}: every cell ({signs.pop()})"
    strategies: dict[str, list[str]] = {}
    for group, sign in found:
        numbers = f" ({sign})" if sign else ""
        strategies.setdefault(group["strategy"].iloc[0], []).append(f"at {group['workers'].iloc[0]}{numbers}")
    return f"{regime}: " + "; ".join(f"{name} {', '.join(counts)}" for name, counts in strategies.items())


def _seen_in(group: pd.DataFrame) -> list[str | None]:
    """For each kind of caution, in order: the number that shows it in this cell, or None where it doesn't."""
    n = len(group)
    seconds = group["seconds"].tolist()
    median = statistics.median(seconds)
    spread = (max(seconds) - min(seconds)) / median
    late = int((group["first_window_ratio"] > 1 + TOLERATED_SPREAD).sum())
    ranks = group["rank_spread"].max()
    clocked = group["measured_seconds"].median()
    outliers = _outliers(seconds)
    return [
        f"n = {n}" if n < FEWEST_LAUNCHES else None,
        "" if group["oversubscribed"].any() else None,
        ", ".join(f"{value / median:.2f} times the median" for value in outliers) if outliers else None,
        f"{100 * spread:.0f} %, n = {n}" if spread > TOLERATED_SPREAD else None,
        f"{late} of {n} launches" if 2 * late > n else None,
        f"{100 * (ranks - 1):.0f} %" if ranks > 1 + TOLERATED_SPREAD else None,
        f"{clocked:.2f} s" if clocked < SHORTEST_MEASUREMENT_SECONDS else None,
    ]


def _outliers(seconds: Sequence[float]) -> list[float]:
    """Values whose modified z-score is beyond the limit and that are off the median by more than is tolerated."""
    median = statistics.median(seconds)
    deviation = statistics.median(abs(value - median) for value in seconds)
    far = [value for value in seconds if abs(value - median) > TOLERATED_SPREAD * median]
    if len(seconds) < FEWEST_LAUNCHES:
        return []
    return [value for value in far if 0.6745 * abs(value - median) > OUTLIER_SCORE * deviation]


def _restarts(records: Mapping[str, Record]) -> tuple[str, str, str, list[str]]:
    """Launches in which a worker was lost and came back, which none of their other numbers shows."""
    where = []
    for launch, record in records.items():
        if record.restarted_workers:
            times = "once" if record.restarted_workers == 1 else f"{record.restarted_workers} times"
            where.append(f"{record.name} at {record.world_size}, {record.task.preset}: {times} ({launch})")
    return (
        "Workers were lost and started again",
        "a signal ended a worker, such as the system's when memory runs out or a scheduler's that takes it back",
        "its windows include the time without that worker, and its rows those computed twice: look at the log, then "
        "run that launch again",
        where,
    )


def _mixtures(records: Mapping[str, Record]) -> list[tuple[str, str, str, list[str]]]:
    """Launches that ran different code, versions or machines, which a comparison shouldn't mix."""
    ok = [record for record in records.values() if record.status == "ok"]
    commits = sorted({record.git_commit for record in ok if record.git_commit})
    is_mixed = len(commits) > 1 or any(commit.endswith("+changes") for commit in commits)
    versions: dict[str, set[str]] = {}
    machines: dict[str, set[str]] = {}
    for record in ok:
        for package, version in record.versions.items():
            versions.setdefault(package, set()).add(version)
        kind = f"{record.host.cores} cores of {record.host.processor}"
        machines.setdefault(kind, set()).add(record.host.name)
    names = [kind if len(own) == 1 else f"{kind}: {', '.join(sorted(own))}" for kind, own in sorted(machines.items())]
    return [
        (
            "Launches of changed or different code",
            "files differed from their commit, or the comparison went on under another commit",
            "commit first, then run the whole comparison",
            [commit[:12] + ("+changes" if "+" in commit else "") for commit in commits] if is_mixed else [],
        ),
        (
            "Several versions of one library",
            "an environment was rebuilt during the comparison, or strategies pin differently",
            "rebuild the environments, then run the whole comparison",
            [f"{package} {', '.join(sorted(own))}" for package, own in sorted(versions.items()) if len(own) > 1],
        ),
        (
            "Several machines",
            "the folder holds records of different machines; they are kept on separate curves",
            "compare strategies on one machine only",
            names if sum(map(len, machines.values())) > 1 else [],
        ),
    ]
