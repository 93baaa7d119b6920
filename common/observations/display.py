"""How an experiment's observations are shown, and what only it can say of them: kept beside them in its folder."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import pandas as pd

from common.errors import UserError
from common.files import write_atomically
from common.observations import answers
from common.observations.numbers import DAGGER, DASH, fixed, interval, number
from common.observations.table import Missing, Observation, whole
from common.records import manifest
from common.records.files import read_record, write_record
from common.records.header import Part, Versioned
from common.statistics.fit import Estimate, Fit
from common.statistics.intervals import FEWEST_LAUNCHES

OBSERVED, MISSING, DISPLAY = "observations.csv", "missing.csv", "display"
"""Their files in a session's folder; the last has no suffix, since `*.json` are records."""


class Series(Part, frozen=True, kw_only=True):
    """One contender."""

    name: str
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
    digits: int | None = None
    """How many are written after the point; None: three or four significant ones."""
    over: str = ""
    """With its unit what it is drawn over, as the course of each launch; empty: tables have it."""
    meaning: str = ""
    """What it is, where the label doesn't tell: words that follow the label and a colon."""


class Table(Part, frozen=True, kw_only=True):
    """A table of words that only this experiment has."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = []
    meanings: dict[str, str] = {}
    """What columns hold, by their names, where these don't tell."""
    is_printed: bool = False
    """Whether the terminal has it as well."""
    kept_in: str = ""
    """The CSV file of the session's folder that has all its rows as well; empty: none."""

    @property
    def of_words(self) -> list[int]:
        """The places of the columns that are set flush left: the first one, and those that have words."""
        cells = [[row[place] for row in self.rows] for place in range(len(self.columns))]
        return [place for place, own in enumerate(cells) if place == 0 or any(cell[:1].isalpha() for cell in own)]


class Display(Versioned, frozen=True, kw_only=True):
    """All that a report says of an experiment and that isn't a number."""

    payload: str = ""
    """The kind of its records, by the name that they have themselves; empty: it rests on those of other sessions."""
    made_at: str = ""
    """When it was made, ISO 8601, where no record tells."""
    title: str
    answer: str = ""
    """The one sentence that answers its question; empty: who is in front."""
    contender: str
    """What is compared, in a word: a library, a way."""
    x: str = ""
    """What is varied, with its unit; empty: nothing is, and all measures stand beside one another with intervals."""
    x_is_bytes: bool = False
    """Whether that are bytes, which stand at ticks in units of 1024."""
    series: list[Series]
    """In the order in which they are shown."""
    measures: list[Measure]
    """The first is what contenders are compared by, the less, the better, where x is varied."""
    growth: Literal["lines", "exponents", ""] = ""
    """How it grows with x: latency and bandwidth, or a power; empty: it isn't told."""
    sentences: list[str] = []
    """How sure the answer is, beyond what the observations tell."""
    next_steps: list[str] = []
    """Commands to type next, each with a colon and what it does."""
    method: list[str] = []
    """How the numbers came about, in at most four items of a sentence or two."""
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

    @cached_property
    def compared(self) -> pd.DataFrame:
        """The rows of what contenders are compared by."""
        return whole(self.observed, self.display.compared.name)

    @cached_property
    def medians(self) -> pd.DataFrame:
        """Those of `compared`."""
        return answers.medians(self.compared)

    @cached_property
    def judged(self) -> pd.DataFrame:
        """Each series that has a base beside it, in each condition."""
        return answers.beside_base(self.compared, self.display.bases)

    @cached_property
    def leaders(self) -> pd.DataFrame:
        """Who is in front in each condition."""
        return answers.leaders(self.medians, answers.everyone(self.compared))

    @cached_property
    def lines(self) -> dict[tuple[str, str, str], Fit]:
        """Latency and bandwidth by subject, world and series; none where an experiment has exponents."""
        return answers.lines(self.compared) if self.display.growth == "lines" else {}

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
        observed, missing = _read_table(folder / OBSERVED, Observation), _read_table(folder / MISSING, Missing)
        return Observed(observed, missing, read_record(folder / DISPLAY, Display))
    except (OSError, ValueError, UserError) as error:
        raise UserError(
            f"The observations in {folder} can't be read ({error}): give the folder to its own session with --again."
        ) from error


def _read_table(path: Path, kind: type[Observation | Missing]) -> pd.DataFrame:
    """The rows of this kind. Raises OSError or ValueError where they can't be read."""
    of_words = {each.name: str for each in dataclasses.fields(kind) if each.type is str}
    # Words are as they are, even one such as "NA"; a number that isn't there is empty.
    empty = {name: [""] for name in ("x", "low", "high")}
    found = pd.read_csv(path, dtype=of_words, keep_default_na=False, na_values=empty)
    if [*found.columns] != [each.name for each in dataclasses.fields(kind)]:
        raise ValueError(f"{path.name} has other columns")
    return found


def x_in_words(x: float) -> str:
    """An x as it stands in a table."""
    return f"{x:,.0f}" if float(x).is_integer() else number(x)


def growth_tables(found: Observed) -> list[Table]:
    """How each series grows with x, from the launches that measured all of it; none where nothing can be fitted."""
    table = _exponents(found) if found.display.growth == "exponents" else _lines(found)
    return [table] if table.rows else []


def _exponents(found: Observed) -> Table:
    chosen = [each.name for each in found.display.series if each.growth]
    fitted = answers.exponents(found.compared[found.compared["series"].isin(chosen)])
    rows = [[series, f"{each.value:.2f}", interval(each.low, each.high)] for (_, _, series), each in fitted.items()]
    columns = [found.display.contender, "grows as x to the power of", "95 % interval"]
    return Table(title="How time grows", columns=columns, rows=rows)


def _lines(found: Observed) -> Table:
    compared, rows = found.display.compared, []
    for (subject, world, series), each in found.lines.items():
        residual = f"{100 * max(map(abs, each.residuals)):.0f} %"
        for piece in each.pieces:
            ends = [f"{piece.from_bytes:,}", f"{piece.to_bytes:,}"]
            alpha, beta = _estimate(compared.factor, piece.latency_seconds), _estimate(1e-6, piece.bytes_per_second)
            rows.append([series, subject, world, *ends, alpha, beta, str(each.launches), residual])
    columns = [found.display.contender, "of", "in", "from, B", "to, B", f"alpha, {compared.label.rpartition(', ')[2]}"]
    columns += ["beta, MB/s", "n", "largest residual"]
    notes = [
        "Time = alpha + size / beta, in one to three pieces: as many as Schwarz's criterion finds. Intervals are of a "
        "bootstrap over whole launches, from six on; the residual is the largest of (fitted - measured) / measured."
    ]
    return Table(title="Latency and bandwidth", columns=columns, rows=rows, notes=notes)


def _estimate(factor: float, estimate: Estimate) -> str:
    """A fitted number and its interval, where it has one."""
    ends = interval(factor * estimate.low, factor * estimate.high, number)
    return number(factor * estimate.value) + ("" if ends == DASH else f" ({ends})")


def tables(found: Observed) -> list[Table]:
    """All tables that the terminal has, in their order."""
    words = [each for each in found.display.tables if each.is_printed]
    return [*value_tables(found), *words, *growth_tables(found), *missing_table(found)]


def answer(found: Observed) -> str:
    """The experiment's own answer, or from which x on series are faster than their bases, or who is in front."""
    if found.display.answer or found.compared.empty:
        return found.display.answer or "No launch measured anything."
    if len(found.judged):
        told = []
        for (name, *_), own in found.judged.groupby(["series", "subject", "world"], sort=False):
            x, few = answers.pays_from(own), max(own["n"]) < FEWEST_LAUNCHES
            where = "nowhere" if x is None else f"from {x_in_words(x)} {found.display.x} on"
            told.append(f"{name} {f'takes {FEWEST_LAUNCHES} rounds to tell' if few else where}")
        return f"Faster than its base: {'; '.join(told)}."
    tested = found.leaders[found.leaders["verdict"] != answers.NOT_RANKED]
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


def value_tables(found: Observed) -> Iterator[Table]:
    """By subject and world all series at each x: the median with its interval, the base's, and all other measures."""
    courses = [each.name for each in found.display.measures if each.over]
    observed = found.observed[~found.observed["measure"].isin(courses)]
    parts = answers.shares(observed)
    medians = answers.medians(observed[observed["part"] == ""])
    for (subject, world), here in medians.groupby(["subject", "world"], sort=False):
        of_here = [each[(each["subject"] == subject) & (each["world"] == world)] for each in (found.judged, parts)]
        title = ", ".join(filter(None, [str(subject), str(world)])) or "Every number"
        yield _values(title, found.display, here, *of_here)


def _values(title: str, display: Display, medians: pd.DataFrame, judged: pd.DataFrame, parts: pd.DataFrame) -> Table:
    """A table of values."""
    compared, measures = display.compared, [each for each in display.measures if each.name in {*medians["measure"]}]
    others = [each for each in measures if each != compared] if display.x else measures
    is_counted = bool(medians[medians["measure"] == compared.name]["n"].any()) or not display.x
    columns = [display.contender, *([display.x] if display.x else []), *(["n"] if is_counted else [])]
    columns += [compared.label, "95 %"] if display.x else []
    columns += ["base", "times as fast", "times, 95 %"] if len(judged) else []
    columns += [each.label for each in others] + (["parts, %"] if len(parts) else [])
    verdicts, rows = judged.set_index(["series", "x"]), []
    for each in display.series:
        for x, own in medians[medians["series"] == each.name].groupby("x"):
            key, values = (each.name, x), {row["measure"]: row for row in own.to_dict("records")}
            line = [each.name + DAGGER * bool(own["oversubscribed"].any()), *([x_in_words(x)] if display.x else [])]
            line += [str(own["n"].max())] if is_counted else []
            if display.x:
                row = values[compared.name]
                ends = interval(compared.factor * row["low"], compared.factor * row["high"], number)
                line += [number(compared.factor * row["median"]), ends]
            if len(judged) and key in verdicts.index:
                beside = verdicts.loc[key]
                line += [number(compared.factor * beside["base_median"]), number(beside["ratio"])]
                line.append(interval(beside["low"], beside["high"], number))
            elif len(judged):
                line += [DASH] * 3
            for other in others:
                row = values.get(other.name)
                line.append(DASH if row is None else written(other, row, has_interval=not display.x))
            if len(parts):
                here = parts[(parts["series"] == each.name) & (parts["x"] == x)]
                line.append(", ".join(f"{part.part} {100 * part.share:.0f}" for part in here.itertuples()))
            rows.append(line)
    meanings = {each.label: each.meaning for each in measures if each.meaning}
    return Table(title=title, columns=columns, rows=rows, meanings=meanings)


def written(measure: Measure, row: Mapping[str, float], has_interval: bool = True) -> str:
    """A row of medians, with its interval where there is one and its ends differ."""
    write = number if measure.digits is None else partial(fixed, digits=measure.digits)
    median, low, high = (measure.factor * row[name] for name in ("median", "low", "high"))
    return write(median) + (f" ({interval(low, high, write)})" if has_interval and low < high else "")


def missing_table(found: Observed) -> list[Table]:
    """What was to be measured and has no number, once for each reason; nothing where there is all."""
    rows, x = [], [found.display.x] if found.display.x else []
    keys = ["series", "subject", "world", "status", "reason"]
    for (series, subject, world, status, reason), own in found.missing.groupby(keys, sort=False):
        places = sorted(own["x"].dropna().unique())
        ends = " to ".join(dict.fromkeys(map(x_in_words, places[:1] + places[-1:]))) or DASH
        row = [series, subject or "all", world, *([ends] if x else [])]
        rows.append([*row, status, str(own["round"].nunique()), reason])
    columns = [found.display.contender, "of", "in", *x, "status", "launches", "reason"]
    return [Table(title="What isn't there", columns=columns, rows=rows)] if rows else []
