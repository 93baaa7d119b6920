"""How an experiment's observations are shown, and what only it can say of them: kept beside them in its folder."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from common.errors import UserError
from common.files import write_atomically
from common.observations import answers
from common.observations.numbers import DAGGER, DASH, number
from common.observations.table import whole
from common.records import manifest
from common.records.files import read_record, write_record
from common.records.header import Part, Versioned

OBSERVED, MISSING, DISPLAY = "observations.csv", "missing.csv", "display"
"""Their files in a session's folder; the last has no suffix, since `*.json` are records."""


class Series(Part, frozen=True, kw_only=True):
    """One contender."""

    name: str
    title: str = ""
    """In prose; empty: its name."""
    colors: list[str] = []
    """What its family is drawn in, from dark to light."""
    base: str = ""
    """The series that it is held to; empty: none."""
    growth: bool = True
    """Whether it is told how it grows with x."""


class Measure(Part, frozen=True, kw_only=True):
    """One kind of number."""

    name: str
    """As observations have it."""
    label: str
    """With its unit."""
    factor: float = 1.0
    """By which values are multiplied to be in that unit."""


class Table(Part, frozen=True, kw_only=True):
    """A table of words that only this experiment has."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = []


class Display(Versioned, frozen=True, kw_only=True):
    """All that a report says of an experiment and that isn't a number."""

    payload: str
    """The kind of its records, by the name that they have themselves."""
    title: str
    answer: str = ""
    """The one sentence that answers its question; empty: who is in front."""
    contender: str
    """What is compared, in a word: a library, a way."""
    x: Measure
    """What is varied; its name is the unit in which places are written: `bytes` or a plain number."""
    series: list[Series]
    """In the order in which they are shown."""
    measures: list[Measure]
    """The first is what contenders are compared by, the less, the better."""
    growth: Literal["lines", "exponents"]
    """How it grows with x: latency and bandwidth, or a power."""
    sentences: list[str] = []
    method: list[str] = []
    """How the numbers came about, a sentence or two each."""
    tables: list[Table] = []

    @property
    def compared(self) -> Measure:
        """What contenders are compared by."""
        return self.measures[0]

    @property
    def bases(self) -> dict[str, str]:
        """By series the one that it is held to."""
        return {each.name: each.base for each in self.series if each.base}


@dataclass(frozen=True)
class Observed:
    """What an experiment has found: what was observed, what is missing, and how both are shown."""

    observed: pd.DataFrame
    missing: pd.DataFrame
    display: Display

    @property
    def compared(self) -> pd.DataFrame:
        """The rows of what contenders are compared by."""
        return whole(self.observed, self.display.compared.name)

    def write(self, folder: Path) -> None:
        """Keep it in the session's folder, and note that. Raises UserError where the folder can't be written to."""
        write_atomically(folder / OBSERVED, self.observed.to_csv(index=False).encode())
        write_atomically(folder / MISSING, self.missing.to_csv(index=False).encode())
        write_record(folder / DISPLAY, self.display)
        manifest.note(folder, [folder / name for name in (OBSERVED, MISSING, DISPLAY)])


def read(folder: Path) -> Observed:
    """What a session's folder keeps. Raises UserError where it keeps nothing, or a damaged file."""
    if not (folder / DISPLAY).exists():
        raise UserError(f"{folder} holds no observations: give it to its own session, as `-- --again {folder}`.")
    try:
        words = dict.fromkeys(("subject", "world", "series", "launch", "measure", "part", "reason", "status"), str)
        found = [
            pd.read_csv(folder / name, dtype=words, keep_default_na=False, na_values={"x": [""], "value": [""]})
            for name in (OBSERVED, MISSING)
        ]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} can't be read ({error}): give it to its own session with --again.") from error
    return Observed(*found, read_record(folder / DISPLAY, Display))


def place_in_words(display: Display, x: float) -> str:
    """An x as it stands in a table."""
    return f"{round(x):,}" if float(x).is_integer() else number(x)


def growth_tables(found: Observed) -> list[Table]:
    """How each series grows with x, from the launches that measured all of it; none where nothing can be fitted."""
    chosen = {each.name for each in found.display.series if each.growth}
    compared = found.compared[found.compared["series"].isin(chosen)]
    factor, unit = found.display.compared.factor, found.display.compared.label.rpartition(", ")[2]
    if found.display.growth == "exponents":
        columns = [found.display.contender, "grows as x to the power of", "95 % interval"]
        rows = [
            [series, f"{each.value:.2f}", DASH if each.low is None else f"{each.low:.2f} to {each.high:.2f}"]
            for (_, _, series), each in answers.exponents(compared).items()
        ]
        return [Table(title="How time grows", columns=columns, rows=rows)] if rows else []
    columns = [
        found.display.contender,
        "of",
        "in",
        "from, B",
        "to, B",
        f"alpha, {unit}",
        "beta, MB/s",
        "n",
        "largest residual",
    ]
    rows = []
    for (subject, world, series), each in answers.lines(compared).items():
        residual = f"{100 * max(map(abs, each.residuals)):.0f} %"
        for piece in each.pieces:
            estimates = [
                _with_interval(
                    factor, piece.latency_seconds.value, piece.latency_seconds.low, piece.latency_seconds.high
                ),
                _with_interval(
                    1e-6, piece.bytes_per_second.value, piece.bytes_per_second.low, piece.bytes_per_second.high
                ),
            ]
            ends = [f"{piece.from_bytes:,}", f"{piece.to_bytes:,}"]
            rows.append([series, subject, world, *ends, *estimates, str(each.launches), residual])
    notes = [
        "Time = alpha + size / beta, in one to three pieces: as many as Schwarz's criterion finds. Intervals are of a "
        "bootstrap over whole launches, from six on; the residual is the largest of (fitted - measured) / measured."
    ]
    return [Table(title="Latency and bandwidth", columns=columns, rows=rows, notes=notes)] if rows else []


def tables(found: Observed) -> list[Table]:
    """All tables of numbers, in the order in which the terminal has them."""
    values = [each for _, _, each in value_tables(found)]
    return [*values, *growth_tables(found), *missing_table(found)]


def answer(found: Observed) -> str:
    """The experiment's own answer, or who is in front most often, and how often that is shown."""
    if found.display.answer or found.compared.empty:
        return found.display.answer or "No launch measured anything."
    leaders = answers.leaders(answers.medians(found.compared), answers.everyone(found.compared))
    tested = leaders[leaders["verdict"] != answers.NOT_RANKED]
    if tested.empty:
        return "No two share rounds enough to say which is faster."
    cases = "1 case" if len(tested) == 1 else f"{len(tested)} cases"
    fastest = Counter(tested[tested["verdict"] == answers.FASTEST]["series"])
    equivalent = tested[tested["verdict"] == answers.EQUIVALENT]
    tied = Counter(name for row in equivalent.itertuples() for name in (row.series, *row.rivals))
    if not fastest + tied:
        return f"None is shown to be the fastest in any of {cases}."
    first = max(sorted(fastest + tied), key=lambda name: (fastest[name] + tied[name], fastest[name]))
    shown = [f"the fastest in {fastest[first]}"] if fastest[first] else []
    shown += [f"equivalent to the fastest in {tied[first]}"] if tied[first] else []
    return f"{first} is in front in {fastest[first] + tied[first]} of {cases}: {', '.join(shown)}."


def value_tables(found: Observed) -> Iterator[tuple[str, str, Table]]:
    """By subject and world all series at each x: the median with its interval, the base's, and all other measures."""
    display = found.display
    judged = answers.beside_base(found.compared, display.bases)
    parts = answers.shares(found.observed)
    medians = answers.medians(found.observed[found.observed["part"] == ""])
    for (subject, world), here in medians.groupby(["subject", "world"], sort=False):
        of_here = [each[(each["subject"] == subject) & (each["world"] == world)] for each in (judged, parts)]
        yield str(subject), str(world), _value_table(display, f"{subject}, {world}".strip(", "), here, *of_here)


def _value_table(
    display: Display, title: str, medians: pd.DataFrame, judged: pd.DataFrame, parts: pd.DataFrame
) -> Table:
    measured = [each for each in display.measures[1:] if each.name in {*medians["measure"]}]
    columns = [display.contender, display.x.label, "n", display.compared.label, "95 %"]
    columns += ["base", "times as fast", "95 %"] if len(judged) else []
    columns += [each.label for each in measured] + (["parts, %"] if len(parts) else [])
    cells = medians.set_index(["series", "x", "measure"])
    verdicts, rows = judged.set_index(["series", "x"]), []
    for each in display.series:
        own = medians[(medians["series"] == each.name) & (medians["measure"] == display.compared.name)]
        for row in own.sort_values("x").to_dict("records"):
            factor, key = display.compared.factor, (each.name, row["x"])
            line = [each.name + DAGGER * row["oversubscribed"], place_in_words(display, row["x"]), str(row["n"])]
            line += [number(factor * row["median"]), _interval(factor, row["low"], row["high"])]
            if len(judged):
                found = verdicts.loc[key] if key in verdicts.index else None
                line += (
                    [DASH, DASH, DASH]
                    if found is None
                    else [
                        number(factor * found["base_median"]),
                        number(found["ratio"]),
                        _interval(1, found["low"], found["high"]),
                    ]
                )
            for measure in measured:
                place = (*key, measure.name)
                line.append(number(measure.factor * cells.loc[place]["median"]) if place in cells.index else DASH)
            if len(parts):
                own_parts = parts[(parts["series"] == each.name) & (parts["x"] == row["x"])]
                line.append(
                    ", ".join(f"{part} {100 * share:.0f}" for part, share in own_parts[["part", "share"]].to_numpy())
                )
            rows.append(line)
    return Table(title=title, columns=columns, rows=rows)


def missing_table(found: Observed) -> list[Table]:
    """What was to be measured and has no number, once for each reason; nothing where there is all."""
    rows = []
    keys = ["series", "subject", "world", "status", "reason"]
    for (series, subject, world, status, reason), own in found.missing.groupby(keys, sort=False):
        places = sorted(own["x"].dropna().unique())
        ends = " to ".join(dict.fromkeys(f"{x:,.0f}" for x in places[:1] + places[-1:])) or DASH
        rows.append([series, subject or "all", world, ends, status, str(own["round"].nunique()), reason])
    columns = [found.display.contender, "of", "in", found.display.x.label, "status", "launches", "reason"]
    return [Table(title="What isn't there", columns=columns, rows=rows)] if rows else []


def _interval(factor: float, low: float, high: float) -> str:
    return DASH if math.isnan(low) else f"{number(factor * low)} to {number(factor * high)}"


def _with_interval(factor: float, value: float, low: float | None, high: float | None) -> str:
    written = number(factor * value)
    return written if low is None or high is None else f"{written} ({number(factor * low)} to {number(factor * high)})"
