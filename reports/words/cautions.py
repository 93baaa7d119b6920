"""What makes a measurement less certain than it looks, each with its likely cause and a remedy."""

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd

from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks

OUTLIER_SCORE = 3.5
"""Modified z-score beyond which a launch is called outlying (Iglewicz & Hoaglin, 1993, p. 11)."""

TOLERATED_SPREAD = 0.10
"""Share of the median by which launches, windows or ranks may differ without a caution."""

SHORTEST_MEASUREMENT_SECONDS = 0.5
"""Clocked time of a launch below which one interruption of the machine shows in its windows."""

_MOST_PLACES = 3
"""Of more cells, or other places, a sentence names some."""

_OUTLYING, _SPREAD = "An outlying launch", "Launches spread by more than 10 %"
_SLOW_START, _RANKS = "First windows slower than later ones", "Ranks differ by more than 10 %"
_SHORT = "Less than half a second was clocked"

_OF_A_CELL = {
    _OUTLYING: (
        "another program, a slow clock or a busy disk during that launch",
        "close other programs and run the comparison again; every launch is kept and drawn",
    ),
    _SPREAD: (
        "the machine's speed changes between launches: other load, shared cores, heat",
        "more repetitions on a quiet machine",
    ),
    _SLOW_START: (
        "the warm-up is too short, so caches, allocators or graphs still settle",
        "raise --warmup-steps",
    ),
    _RANKS: (
        "one worker computes on a slower or busier core and the others wait",
        "look at the placement of the workers; the slowest rank sets the cost",
    ),
    _SHORT: ("small steps and few of them: one interruption moves the median", "raise --steps"),
}
"""By what was seen in a cell its likely cause and a remedy."""


_HARMLESS = {
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONNOUSERSITE"),
    *("PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUTF8", "PYTHONSAFEPATH"),
}
"""Python's variables that change no figure."""


def cautions(launches: pd.DataFrame, records: Mapping[str, Record]) -> list[str]:
    """A sentence for every kind of instability that these launches show: where, the likely cause, and the remedy."""
    where: dict[str, list[str]] = {kind: [] for kind in _OF_A_CELL}
    for _, regime in launches.groupby(["preset", "scaling", "exchange", "regime"]):
        cells = [(group.iloc[0], _seen_in(group)) for _, group in regime.groupby(["strategy", "workers"])]
        for kind, places in where.items():
            found = [(cell, signs[kind]) for cell, signs in cells if kind in signs]
            if found:
                places.append(_in_words(found, every=len(found) == len(cells)))
    every = [(kind, *_OF_A_CELL[kind], places) for kind, places in where.items()]
    return [
        f"{what}: {'; '.join(places[:_MOST_PLACES])}. Likely cause: {cause}. Remedy: {remedy}."
        for what, cause, remedy, places in [*every, *_of_records(records)]
        if places
    ]


def _in_words(found: Sequence[tuple[pd.Series, str]], every: bool) -> str:
    """The cells of a regime: `pathway weak: a_strategy at 1 (12 %), a_strategy at 2 (15 %) and 3 more`."""
    first, signs = found[0][0], {sign for _, sign in found}
    regime = f"{first['preset']} {first['scaling']}" + ("" if first["exchange"] else " without exchange")
    if every and len(signs) == 1 and len(found) > 1:
        return f"{regime}: every cell ({signs.pop()})"
    cells = [f"{cell['strategy']} at {cell['workers']} ({sign})" for cell, sign in found]
    return f"{regime}: {blocks.some(cells, _MOST_PLACES)}"


def _seen_in(group: pd.DataFrame) -> dict[str, str]:
    """For each kind of caution that this cell shows the number that shows it."""
    n, seconds = len(group), group["seconds"].tolist()
    median = statistics.median(seconds)
    spread = (max(seconds) - min(seconds)) / median
    late = int((group["first_window_ratio"] > 1 + TOLERATED_SPREAD).sum())
    ranks, clocked = group["rank_spread"].max(), group["measured_seconds"].median()
    outliers = [f"{value / median:.2f} times the median" for value in _outliers(seconds)]
    seen = {
        _OUTLYING: (len(outliers) > 0, ", ".join(outliers)),
        _SPREAD: (spread > TOLERATED_SPREAD, f"{100 * spread:.0f} %, n = {n}"),
        _SLOW_START: (2 * late > n, f"{late} of {n} launches"),
        _RANKS: (ranks > 1 + TOLERATED_SPREAD, f"{100 * (ranks - 1):.0f} %"),
        _SHORT: (clocked < SHORTEST_MEASUREMENT_SECONDS, f"{clocked:.2f} s"),
    }
    return {kind: sign for kind, (is_seen, sign) in seen.items() if is_seen}


def _outliers(seconds: Sequence[float]) -> list[float]:
    """Values whose modified z-score is beyond the limit and that are off the median by more than is tolerated."""
    median = statistics.median(seconds)
    deviation = statistics.median(abs(value - median) for value in seconds)
    far = [value for value in seconds if abs(value - median) > TOLERATED_SPREAD * median]
    if len(seconds) < FEWEST_LAUNCHES:
        return []
    return [value for value in far if 0.6745 * abs(value - median) > OUTLIER_SCORE * deviation]


def _of_records(records: Mapping[str, Record]) -> list[tuple[str, str, str, list[str]]]:
    """Launches in which a worker was lost and came back, and those that ran different code, versions or machines."""
    lost = []
    for launch, record in records.items():
        if record.restarted_workers:
            times = "once" if record.restarted_workers == 1 else f"{record.restarted_workers} times"
            lost.append(f"{record.name} at {record.world_size}, {record.task.preset}: {times} ({launch})")
    ok = [record for record in records.values() if record.status == "ok"]
    commits = sorted({record.git_commit for record in ok if record.git_commit})
    is_mixed = len(commits) > 1 or any(commit.endswith("+changes") for commit in commits)
    versions: dict[str, set[str]] = {}
    machines: dict[str, set[str]] = {}
    for record in ok:
        for package, version in record.versions.items():
            versions.setdefault(package, set()).add(version)
        machines.setdefault(f"{record.host.cores} cores of {record.host.processor}", set()).add(record.host.name)
    set_for_python = {each for record in ok for each in record.python_variables.items() if each[0] not in _HARMLESS}
    names = [kind if len(own) == 1 else f"{kind}: {', '.join(sorted(own))}" for kind, own in sorted(machines.items())]
    return [
        (
            "Workers were lost and started again",
            "a signal ended a worker, such as the system's when memory runs out or a scheduler's that takes it back",
            "its windows include the time without that worker, and its rows those computed twice: look at the log, "
            "then run that launch again",
            lost,
        ),
        (
            "Launches of changed or different code",
            "files differed from their commit, or the comparison went on under another commit",
            "commit first, then run the whole comparison",
            [commit[:12] + ("+changes" if "+" in commit else "") for commit in commits] if is_mixed else [],
        ),
        (
            "Python's own variables were set",
            "the shell from which launches were started has variables that Python obeys",
            "unset them, then run the whole comparison",
            [f"{name}={value}" for name, value in sorted(set_for_python)],
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
