"""The chapter on how sure the numbers are: the tests, the same maths, what disturbed, and what it takes to repeat."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.observations import numbers
from common.records import calibration
from common.records.certificate import ALL_REASONS
from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import POWER, smallest_difference
from reports import blocks
from reports.tables import disturbances
from reports.tables.material import Material
from reports.tables.ranking import OVERSUBSCRIBED, TOO_FEW_ROUNDS, Ranking, main_family, of_regime, tested
from reports.words import certificate, machine

_MOST, _MOST_LINES = 12, 23  # Sentences on the page, and these with rows of the table of recipes.
_MOST_PLACES = 3  # That a caution names.

_METHOD = (
    "Windows of many steps are clocked in fresh processes; the slowest rank of each counts. A number is the median "
    f"over n launches, with an interval by order statistics from n = {FEWEST_LAUNCHES} on. Paired t tests of log "
    "ratios within rounds say who is faster (Holm, 1979, over all pairs), two one-sided ones who is equivalent "
    "(Schuirmann, 1987). Every number and pair is in tables on the HTML page, and in CSV files beside it."
)

_COOL = "keep the machine cool and its clock rate fixed"
_DISTURBANCES = {
    disturbances.OTHERS: ("other processes took up to {} of a worker's cores", "close other programs"),
    disturbances.STEAL: ("the hypervisor gave up to {} of a worker's cores to others", "use a machine of your own"),
    disturbances.QUOTA: ("a quota took the cores for up to {} of the time", "give the container a core per thread"),
    disturbances.SPIN: ("a fixed piece of work took up to {} longer than usual", _COOL),
    disturbances.CLOCK: ("a clock was up to {} slower than usual", _COOL),
}
"""By what disturbs: what is said where it is more than is tolerated, and the remedy."""

OUTLIER_SCORE = 3.5
"""Modified z-score beyond which a launch is called outlying (Iglewicz & Hoaglin, 1993, p. 11)."""

TOLERATED_SPREAD = 0.10
"""Share of the median by which launches, windows or ranks may differ without a caution."""

SHORTEST_MEASUREMENT_SECONDS = 0.5
"""Clocked time of a launch below which one interruption of the machine shows in its windows."""

_CAUSES_OF_CAUTIONS = {
    "An outlying launch": "another program or a busy disk. Remedy: close other programs, and repeat",
    "Launches spread by more than 10 %": "other load, shared cores or heat. Remedy: more rounds on a quiet machine",
    "First windows slower than later ones": "caches or graphs still settle. Remedy: raise --warmup-steps",
    "Ranks differ by more than 10 %": "one worker has a slower or busier core. Remedy: look at the workers' placement",
    "Less than half a second was clocked": "few and small steps. Remedy: raise --steps",
    "Workers were lost and started again": "a signal. Remedy: look at the log, then run that launch again",
    "Launches of changed or different code": "files were changed. Remedy: commit first, then run all of it again",
    "Python's own variables were set": "the shell had them. Remedy: unset them, then run the whole comparison",
    "Several versions of one library": "an environment was rebuilt on the way. Remedy: run the whole comparison",
    "Several machines": "records of different machines in one folder. Remedy: compare on one machine only",
}
"""By what was seen, in the order in which it is said, the likely cause and a remedy."""

_HARMLESS = {
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONNOUSERSITE"),
    *("PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUTF8", "PYTHONSAFEPATH"),
}
"""Python's variables that change no figure."""


def section(material: Material) -> list[blocks.Block]:
    """What the tests could tell and what made numbers less certain, the recipes, and what launches ran on."""
    sentences = [_METHOD]
    for regime, name in material.shown.items():
        if missing := not_ranked(material.ranking, regime):
            sentences.append(f"Not ranked, {name}: {missing}")
    sentences.append(f"Was the machine quiet? {disturbed(material.disturbances)}")
    sentences.append(calibration.for_report(material.results.folder))
    for probe in material.results.ceilings:
        if probe.reason:
            sentences.append(f"Not probed: {probe.framework} ({probe.family}), {probe.preset}. {probe.reason}")
    wrong = material.endings[material.endings["ending"].isin(["unsupported", "failed"])]
    for (ending, reason), group in wrong.groupby(["ending", "reason"]):
        logs = [*dict.fromkeys(filter(None, group["log"]))]
        where = f" (log: {blocks.some(logs, 4)})" if logs else ""
        launches = blocks.some([*group["launch"]], 4)
        sentences.append(f"{blocks.capitalized(ending)}: {launches}. {reason or 'No reason was recorded.'}{where}")
    sentences += cautions(material.launches, material.results.records)
    return [
        *blocks.items_of_a_page(sentences, _MOST),
        blocks.heading("The same maths", level=2),
        *certificate.section(material, _MOST_LINES - len(sentences[:_MOST])),
        blocks.heading("Machine and versions", level=2),
        machine.of_comparison(material) | {"small": True},
    ]


def not_ranked(ranking: Ranking, regime: str) -> str:
    """Who isn't ranked in a regime, and why; empty where everybody is, and where no rounds are enough for a test."""
    unranked, found = of_regime(ranking.unranked, regime), []
    for reason in (*ALL_REASONS, OVERSUBSCRIBED, TOO_FEW_ROUNDS):
        own = unranked[unranked["reason"] == reason]
        if len(own) and (reason != TOO_FEW_ROUNDS or len(tested(of_regime(ranking.comparisons, regime)))):
            found.append(f"{blocks.who(own)}, {reason}")
    return f"{'; '.join(found)}." if found else ""


def resolution(ranking: Ranking, regime: str) -> str:
    """From which difference on this machine could tell two strategies apart; empty where nothing was tested.

    It is what the tests of the regime's largest family find with a probability of `POWER`, by the median spread.
    """
    family = main_family(of_regime(ranking.comparisons, regime))
    if family.empty:
        return ""
    smallest = np.array([smallest_difference(np.std(logs, ddof=1), len(logs), len(family)) for logs in family["logs"]])
    spread = "by the spread of the only comparison"
    if len(family) > 1:
        largest = numbers.percent(smallest.max(), 1)
        spread = f"by the median spread of {len(family)} comparisons; {largest} by the largest"
    placement, workers = family["placement"].iloc[0], blocks.workers(int(family["workers"].iloc[0]))
    return (
        f"Today this machine can show differences from {numbers.percent(np.median(smallest), 1)} on with {workers}"
        f"{f' on {placement}' if placement else ''} and n = {blocks.span(family['n'])} rounds (with {100 * POWER:g} % "
        f"power, {spread})."
    )


def disturbed(table: pd.DataFrame) -> str:
    """How many launches and rounds were disturbed, by what, and what to do about it; `table` is `disturbances`."""
    if table.empty:
        return "No launch tells what else happened on its cores."
    wrong, rounds = table[table["disturbed"]], disturbances.disturbed_rounds(table)
    if wrong.empty:
        return "No launch was disturbed."
    remedies: dict[str, str] = {}
    for name, (cause, remedy) in _DISTURBANCES.items():
        is_speed = name in (disturbances.SPIN, disturbances.CLOCK)
        tolerated = disturbances.TOLERATED_SLOWNESS if is_speed else disturbances.TOLERATED_SHARE
        if wrong[name].max() > tolerated:
            remedies[cause.format(numbers.percent(wrong[name].max()))] = remedy
    many = table["round"].nunique()
    where = f" (rounds {blocks.some([str(each) for each in rounds])} of {many})" if rounds else ""
    causes, remedy = blocks.listed([*remedies]), blocks.listed([*dict.fromkeys(remedies.values())])
    said = f"{len(wrong)} of {len(table)} launches were disturbed{where}: {causes}"
    return f"{said}. To see smaller differences, {remedy}."


def cautions(launches: pd.DataFrame, records: Mapping[str, Record]) -> list[str]:
    """A sentence for every kind of instability that these launches show: where, the likely cause, and the remedy."""
    seen = _seen_in_records([record for record in records.values() if record.status == "ok"])
    seen["Workers were lost and started again"] = [
        f"{record.name} at {record.world_size}, {record.task.preset}: {record.restarted_workers} restarts ({launch})"
        for launch, record in records.items()
        if record.restarted_workers
    ]
    for (preset, scaling, exchange, _), regime in launches.groupby(["preset", "scaling", "exchange", "regime"]):
        places: dict[str, list[str]] = {}
        for (strategy, workers), cell in regime.groupby(["strategy", "workers"]):
            for kind, sign in _seen_in_cell(cell).items():
                places.setdefault(kind, []).append(f"{blocks.shortened(strategy)} at {workers} ({sign})")
        name = f"{preset} {scaling}" + ("" if exchange else " without exchange")
        for kind, cells in places.items():
            seen.setdefault(kind, []).append(f"{name}: {blocks.some(cells, _MOST_PLACES)}")
    return [
        f"{kind}: {'; '.join(seen[kind][:_MOST_PLACES])}. Likely cause: {cause}."
        for kind, cause in _CAUSES_OF_CAUTIONS.items()
        if seen.get(kind)
    ]


def _seen_in_cell(cell: pd.DataFrame) -> dict[str, str]:
    """For each kind of caution that the launches of a cell show the number that shows it."""
    n, seconds = len(cell), cell["seconds"]
    median = seconds.median()
    apart = (seconds - median).abs()
    is_outlying = (0.6745 * apart > OUTLIER_SCORE * apart.median()) & (apart > TOLERATED_SPREAD * median)
    outlying = [f"{value / median:.2f} times the median" for value in seconds[is_outlying]]
    spread = (seconds.max() - seconds.min()) / median
    late = int((cell["first_window_ratio"] > 1 + TOLERATED_SPREAD).sum())
    ranks, clocked = cell["rank_spread"].max(), cell["measured_seconds"].median()
    signs = {
        "An outlying launch": (n >= FEWEST_LAUNCHES and is_outlying.any(), ", ".join(outlying)),
        "Launches spread by more than 10 %": (spread > TOLERATED_SPREAD, f"{100 * spread:.0f} %, n = {n}"),
        "First windows slower than later ones": (2 * late > n, f"{late} of {n} launches"),
        "Ranks differ by more than 10 %": (ranks > 1 + TOLERATED_SPREAD, f"{100 * (ranks - 1):.0f} %"),
        "Less than half a second was clocked": (clocked < SHORTEST_MEASUREMENT_SECONDS, f"{clocked:.2f} s"),
    }
    return {kind: sign for kind, (is_seen, sign) in signs.items() if is_seen}


def _seen_in_records(records: list[Record]) -> dict[str, list[str]]:
    """What differs between launches that should have run the same code and versions on the same machine."""
    names = {record.git_commit for record in records if record.git_commit}
    commits = [name[:12] + "+changes" * ("+" in name) for name in sorted(names)]
    is_mixed = len(commits) > 1 or any(commit.endswith("+changes") for commit in commits)
    variables = {each for record in records for each in record.python_variables.items() if each[0] not in _HARMLESS}
    versions: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.versions.items():
            versions.setdefault(package, set()).add(version)
    hosts = [record.host for record in records]
    machines = sorted({f"{host.name} ({host.cores} cores of {host.processor})" for host in hosts})
    return {
        "Launches of changed or different code": commits if is_mixed else [],
        "Python's own variables were set": [f"{name}={value}" for name, value in sorted(variables)],
        "Several versions of one library": [
            f"{package} {', '.join(sorted(own))}" for package, own in sorted(versions.items()) if len(own) > 1
        ],
        "Several machines": machines if len(machines) > 1 else [],
    }
