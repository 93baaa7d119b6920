"""Whether a calibration's promises hold, in sentences for its own output and for the reports of this machine."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import pandas

from common.errors import UserError
from common.files import write_atomically
from common.measurement import machine
from common.records import manifest
from common.sessions.calibration_blocks import Measured
from common.statistics.paired import FAMILY_ERROR

FILE = "calibration.csv"
"""A calibration's result, in its own folder and in that of every comparison that it is shown with."""

KIND = "calibration"
"""How the names of calibrations' folders end, in the folder of results."""

BLOCKS = 30
"""With fewer blocks of six rounds nothing is concluded."""

LARGEST_SPREAD = 0.025
"""Where the rounds' log ratios have a larger standard deviation, nothing is promised about differences of 5 %."""

MINUTES = 45
"""About how long a whole calibration takes."""


@dataclass(frozen=True, kw_only=True)
class Calibration(Measured):
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


def most_alarms(blocks: int) -> int:
    """In how many of so many blocks equal strategies may be called different.

    The smallest number that is exceeded in at most 5 % of calibrations where a block's risk is 5 %.
    """
    from scipy.special import bdtr

    return next(alarms for alarms in range(blocks + 1) if bdtr(alarms, blocks, FAMILY_ERROR) >= 0.95)


def promises(calibration: Calibration) -> list[Promise]:
    """What was promised, and whether it holds."""
    return [_false_alarms(calibration), _busy_work(calibration)]


def in_words(calibration: Calibration) -> str:
    """The verdict for a report's section on the method."""
    of = f"{calibration.strategy} with {calibration.workers} worker{'s' if calibration.workers > 1 else ''}"
    judged = promises(calibration)
    broken = [promise.name for promise in judged if promise.holds is False]
    concluded = all(promise.holds is not None for promise in judged)
    if broken:
        verdict = f"The statistics don't keep what they promise about {' and '.join(broken)}."
    else:
        verdict = "The statistics keep their promises." if concluded else "Nothing contradicts what they promise."
    where = f"on this kind of machine ({calibration.processor}, {calibration.cores} cores)"
    return " ".join(
        [
            f"Calibrated {where} on {calibration.date} by {calibration.rounds} rounds of {of}, commit",
            f"{calibration.commit}. {verdict}",
            *[promise.seen for promise in judged],
        ]
    )


def for_report(folder: Path) -> str:
    """The verdict that stands in the folder of a comparison, or how to get one. Raises UserError for a damaged file."""
    if (folder / FILE).exists():
        return in_words(read(folder / FILE))
    return (
        f"Not calibrated here: `nox -s calibrate` (about {MINUTES} minutes) would tell how often equal strategies are "
        "called different on this machine."
    )


def copy_into(folder: Path, results: Path) -> None:
    """Put the newest calibration of this kind of machine into a comparison's folder, if `results` holds any.

    One with too few blocks serves only where there is no other, and one with an edited file doesn't. Raises UserError
    for a damaged one.
    """
    facts = machine.host_facts()
    here = (facts.processor, facts.cores)
    found = {path: read(path) for path in sorted(results.glob(f"*-{KIND}/{FILE}"))}
    of_here = [path for path, known in found.items() if (known.processor, known.cores) == here]
    for path in list(of_here):
        if changed := manifest.check(path.parent).changed:
            print(f"note: {path} isn't shown, since this was edited: {', '.join(changed)}.", flush=True)
            of_here.remove(path)
    if of_here:
        # The newest is the last one, and sorting keeps the order of those that are alike.
        chosen = sorted(of_here, key=lambda path: found[path].blocks >= BLOCKS)[-1]
        write_atomically(folder / FILE, chosen.read_bytes())


def write(path: Path, calibration: Calibration) -> None:
    """Write the file whole or not at all. Raises UserError when its folder can't be written to."""
    write_atomically(path, pandas.DataFrame([dataclasses.asdict(calibration)]).to_csv(index=False).encode())


def read(path: Path) -> Calibration:
    """The calibration in `path`, without columns that are no longer known. Raises UserError when it is damaged."""
    try:
        [values] = pandas.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
        return Calibration(**{each.name: each.type(values[each.name]) for each in dataclasses.fields(Calibration)})
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} isn't a calibration that can be read ({error}): delete it.") from error


def _false_alarms(calibration: Calibration) -> Promise:
    blocks, allowed = calibration.blocks, most_alarms(calibration.blocks)
    seen = f"Equal launches were called different in {calibration.alarms} of {blocks} blocks of six rounds"
    bound = f"by 95 % Clopper-Pearson the risk is at most {_percent(calibration.alarms_bound)}"
    if blocks < BLOCKS:
        return Promise("equal launches", None, f"{seen} ({bound}): too few to conclude anything, which takes {BLOCKS}.")
    held = calibration.alarms <= allowed
    return Promise("equal launches", held, f"{seen}, where {allowed} at most may be; {bound}.")


def _busy_work(calibration: Calibration) -> Promise:
    spread = _percent(calibration.spread)
    seen = (
        f"Busy work of 5 % of a step was found in {calibration.found} of {calibration.long_blocks} blocks of ten "
        f"rounds, at a spread within rounds of {spread}"
    )
    smallest = f"The smallest difference found in 90 % of such blocks is {_percent(calibration.smallest_difference)}."
    if calibration.spread > LARGEST_SPREAD:
        why = f"above {_percent(LARGEST_SPREAD)} nothing is promised"
        return Promise("busy work", None, f"{seen}; {why}. {smallest}")
    if calibration.blocks < BLOCKS:
        return Promise("busy work", None, f"{seen}: too few to conclude anything. {smallest}")
    held = calibration.found >= 0.9 * calibration.long_blocks
    return Promise("busy work", held, f"{seen}, where 90 % at least must be. {smallest}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
