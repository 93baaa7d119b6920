"""What the rounds of a calibration say of the tests that comparisons rest on, and whether these keep their promises."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError
from common.files import write_atomically
from common.records import manifest
from common.records.header import Machine
from common.records.tables import read_rows, write_rows
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import FAMILY_ERROR, judge, smallest_difference

FILE = "calibration.csv"
"""A calibration's result, in its own folder and in that of every comparison that it is shown with."""

KIND = "calibration"
"""How the names of calibrations' folders end, in the folder of results."""

LONG_BLOCK = 10
"""Rounds of a block in which busy work must be found: as many as a speed claim rests on."""

BLOCKS = 30
"""With fewer blocks of six rounds nothing is concluded."""

LARGEST_SPREAD = 0.025
"""Where the rounds' log ratios have a larger standard deviation, nothing is promised about differences of 5 %."""

POWER = 0.9
"""In this share of the long blocks busy work must be found."""

MINUTES = 45
"""About how long a whole calibration takes."""


@dataclass(frozen=True)
class Figures:
    """What the rounds of a calibration say."""

    rounds: int
    blocks: int
    """Disjoint blocks of six rounds, as many as a quick comparison makes."""
    alarms: int
    """Blocks in which the equal ones are called different."""
    alarms_bound: float
    """Upper end of the 95 % interval of such blocks' share (Clopper & Pearson 1934)."""
    spread: float
    """Standard deviation of the log ratios of the equal ones within rounds."""
    long_blocks: int
    """Disjoint blocks of ten rounds."""
    found: int
    """Blocks in which the one with busy work is called slower."""
    busy_share: float
    """By which share of the time of a step the busy one took longer: the median of all rounds."""
    smallest_difference: float
    """The share by which a rate must differ to be found in 90 % of blocks of ten rounds with this spread."""


@dataclass(frozen=True, kw_only=True)
class Calibration(Figures):
    """One calibration: the columns of its file, which has one row."""

    date: str
    commit: str
    processor: str
    cores: int
    strategy: str
    workers: int
    order_seed: int


@dataclass(frozen=True)
class Promise:
    """One of the promises, whether it holds (None: that can't be concluded), and what was seen."""

    name: str
    holds: bool | None
    seen: str


def measured(first: np.ndarray, second: np.ndarray, busy: np.ndarray) -> Figures:
    """Judge the rounds of two equal strategies and one that is slower, from the rates of each, (rounds,).

    A block is a family of one comparison. The last rounds, where they don't fill a block, are in no block.
    """
    from scipy.stats import binomtest

    equal, slower = np.log(second / first), np.log(busy / first)
    alarms = [judge([block])[0].different for block in _blocks(equal, FEWEST_LAUNCHES)]
    long_blocks = [judge([block])[0] for block in _blocks(slower, LONG_BLOCK)]
    spread = float(np.std(equal, ddof=1))
    return Figures(
        rounds=len(equal),
        blocks=len(alarms),
        alarms=sum(alarms),
        alarms_bound=float(binomtest(sum(alarms), len(alarms)).proportion_ci(0.95, method="exact").high),
        spread=spread,
        long_blocks=len(long_blocks),
        found=sum(block.different and block.ratio < 1 for block in long_blocks),
        busy_share=float(np.median(first / busy)) - 1,
        smallest_difference=smallest_difference(spread, LONG_BLOCK, power=POWER),
    )


def _blocks(logs: np.ndarray, size: int) -> list[list[float]]:
    """Disjoint blocks of so many rounds."""
    return [logs[start : start + size].tolist() for start in range(0, len(logs) - size + 1, size)]


def promises(calibration: Calibration) -> list[Promise]:
    """What was promised, and whether it holds."""
    return [_false_alarms(calibration), _busy_work(calibration)]


def most_alarms(blocks: int) -> int:
    """In how many of so many blocks equal strategies may be called different.

    The smallest number that is exceeded in at most 5 % of calibrations where a block's risk is 5 %.
    """
    from scipy.special import bdtr

    return next(alarms for alarms in range(blocks + 1) if bdtr(alarms, blocks, FAMILY_ERROR) >= 0.95)


def _false_alarms(calibration: Calibration) -> Promise:
    blocks, allowed = calibration.blocks, most_alarms(calibration.blocks)
    seen = f"Equal launches were called different in {calibration.alarms} of {blocks} blocks of six rounds"
    bound = f"by 95 % Clopper-Pearson the risk is at most {_percent(calibration.alarms_bound)}"
    if blocks < BLOCKS:
        return Promise("equal launches", None, f"{seen} ({bound}): too few to conclude anything, which takes {BLOCKS}.")
    seen = f"{seen}, where {allowed} at most may be; {bound}."
    return Promise("equal launches", calibration.alarms <= allowed, seen)


def _busy_work(calibration: Calibration) -> Promise:
    seen = (
        f"Busy work of 5 % of a step was found in {calibration.found} of {calibration.long_blocks} blocks of ten "
        f"rounds, at a spread within rounds of {_percent(calibration.spread)}"
    )
    smallest = f"The smallest difference found in 90 % of such blocks is {_percent(calibration.smallest_difference)}."
    if calibration.spread > LARGEST_SPREAD:
        why = f"above {_percent(LARGEST_SPREAD)} nothing is promised"
        return Promise("busy work", None, f"{seen}; {why}. {smallest}")
    if calibration.blocks < BLOCKS:
        return Promise("busy work", None, f"{seen}: too few to conclude anything. {smallest}")
    holds = calibration.found >= POWER * calibration.long_blocks
    return Promise("busy work", holds, f"{seen}, where 90 % at least must be. {smallest}")


def in_words(calibration: Calibration) -> str:
    """The verdict for a report's section on the method."""
    judged = promises(calibration)
    broken = [promise.name for promise in judged if promise.holds is False]
    if broken:
        verdict = f"The statistics don't keep what they promise about {' and '.join(broken)}."
    elif all(promise.holds for promise in judged):
        verdict = "The statistics keep their promises."
    else:
        verdict = "Nothing contradicts what they promise."
    seen = " ".join(promise.seen for promise in judged)
    return (
        f"Calibrated on this kind of machine ({calibration.processor}, {calibration.cores} cores) on "
        f"{calibration.date} by {calibration.rounds} rounds of {calibration.strategy} with {calibration.workers} "
        f"worker{'s' if calibration.workers > 1 else ''}, commit {calibration.commit}. {verdict} {seen}"
    )


def for_report(folder: Path) -> str:
    """The verdict that stands in the folder of a comparison, or how to get one. Raises UserError for a damaged file."""
    if (folder / FILE).exists():
        return in_words(read(folder / FILE))
    return (
        f"Not calibrated here: `nox -s calibrate` (about {MINUTES} minutes) would tell how often equal strategies are "
        "called different on this machine."
    )


def copy_into(folder: Path, results: Path, host: Machine) -> None:
    """Put the newest calibration of a machine like `host` into a comparison's folder, if `results` holds any.

    One with too few blocks serves only where there is no other, and one with an edited file doesn't. Raises UserError
    for a damaged one.
    """
    candidates = list[tuple[bool, Path]]()
    for path in sorted(results.glob(f"*-{KIND}/{FILE}")):
        earlier = read(path)
        if (earlier.processor, earlier.cores) != (host.processor, host.usable_cores):
            continue
        if changed := manifest.check(path.parent).changed:
            print(f"note: {path} isn't shown, since this was edited: {', '.join(changed)}.", flush=True)
        else:
            candidates.append((earlier.blocks >= BLOCKS, path))
    if candidates:
        # The names of folders begin with the time.
        _, newest = max(candidates)
        write_atomically(folder / FILE, newest.read_bytes())


def write(path: Path, calibration: Calibration) -> None:
    """Write the file whole or not at all. Raises UserError when its folder can't be written to."""
    write_rows(path, [calibration], Calibration)


def read(path: Path) -> Calibration:
    """The calibration in `path`, without columns that are no longer known. Raises UserError when it is damaged."""
    rows = read_rows(path, Calibration)
    if not rows:
        raise UserError(f"{path} holds no calibration: delete it.")
    return rows[0]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
