"""A session: launches made stage by stage, in a folder in which it goes on where it was interrupted."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from common import command_line
from common.environments import durations
from common.errors import UserError
from common.files import ensure_writable, locked, write_atomically
from common.launching.processes import signals_held
from common.measurement import machine
from common.paths import ROOT
from common.records import manifest
from common.records.header import Header
from common.records.plan import PLAN
from common.records.presentation import write_presentation
from common.records.tables import read_rows, write_rows
from common.sessions.folder import FINISHED, order_seed, unfinished_or_new

if TYPE_CHECKING:
    import pandas

L = TypeVar("L", bound="Launch")
R = TypeVar("R", bound=Header)

_DURATIONS = "durations.csv"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every session."""

    results: Path = Path("results")
    """Folder in which each session gets a folder of its own."""
    order_seed: int | None = None
    """Seed of the order of the launches; none: a new one, which the folder and the report name."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of every session that ends with a report."""

    plan: bool = False
    """Print the launches, and run nothing."""
    out: Path
    """The report, with an HTML page beside it, or the picture."""


class Arguments(Protocol):
    """A session's command line: a dataclass with a default for each field."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def session(self) -> Options:
        """The options that every session has."""
        ...


class Launch(Protocol):
    """A planned launch."""

    @property
    def name(self) -> str:
        """The path of its record in the session's folder, without the suffix."""
        ...


@dataclass(frozen=True)
class Placed(Generic[L]):
    """A launch whose record lies in a folder of its kind, below the session's; empty: in the session's itself."""

    folder: str
    launch: L

    @property
    def name(self) -> str:
        """Unique in a session, where the launch's own name is unique in its folder."""
        return str(Path(self.folder, self.launch.name))


@dataclass(frozen=True)
class Stage(Generic[L]):
    """Launches that are made one after the other before anything else is decided."""

    name: str
    """What kind of stage it is, as the plan in the folder has it."""
    title: str
    """What it is called while it runs."""
    launches: Sequence[L]


class Schedule(Generic[L, R]):
    """What a session launches next: stages, of which each is asked for when the one before has been made.

    Where they are a sequence, they don't depend on what launches show, and so it is known how many these are.
    """

    def __init__(self, stages: Iterable[Stage[L]]) -> None:
        self._stages = iter(stages)
        self._launches = sum(len(stage.launches) for stage in stages) if isinstance(stages, Sequence) else None
        self._seconds: list[float] = []

    def next_stage(self) -> Stage[L] | None:
        """The next launches, once those of the stage before have been made; None: it is over."""
        return next(self._stages, None)

    def note(self, launch: L, seconds: float, record: R) -> None:
        """Take note of a launch that has been made, and how long it took. Raises UserError where nothing can follow."""
        self._seconds.append(seconds)

    def seconds_left(self) -> float | None:
        """As long as the launches so far took on average, for each to come; None where that can't be told yet."""
        if not self._seconds or self._launches is None:
            return None
        return (self._launches - len(self._seconds)) * statistics.fmean(self._seconds)


def rounds_of(count: int, order_seed: int, launches_of: Callable[[int], Iterable[L]]) -> list[Stage[L]]:
    """So many rounds: of each, by its number from 1 on, the launches in an order that the seed shuffles."""
    order, rounds = random.Random(order_seed), list[Stage[L]]()
    for number in range(1, count + 1):
        launches = [*launches_of(number)]
        order.shuffle(launches)
        rounds.append(Stage("round", f"round {number} of {count}", launches))
    return rounds


def in_words(launch: Launch, record: Header) -> str:
    """What is said of a launch behind its name: nothing of a good one, else why it isn't."""
    return "" if record.status == "ok" else f"{record.reason} (log: {record.log})"


@dataclass(frozen=True)
class _Duration:
    """How long a launch took: a row of the file that a session goes on with."""

    launch: str
    seconds: float


@dataclass(frozen=True)
class Session:
    """A session that is under way."""

    console: Console
    folder: Path
    order_seed: int
    job: str | None = None
    """The job of Slurm's whose allocation it launches in."""
    is_to_stop: threading.Event = dataclasses.field(default_factory=threading.Event)
    """Set where somebody has asked it to stop between two launches."""

    def run(
        self,
        schedule: Schedule[L, R],
        make: Callable[[L, Path], R],
        read: Callable[[Path], R],
        words: Callable[[L, R], str] = in_words,
        plan_table: Callable[[Sequence[Stage[L]]], pandas.DataFrame] | None = None,
    ) -> list[Stage[L]]:
        """Make every launch of the schedule that hasn't been made yet, and note what each has left; returns the stages.

        A round that another allocation began, and didn't end, is made anew under another number: launches are compared
        within rounds, and allocations are different machines. What was made of it isn't among the stages that return.

        `make` leaves a launch's record in the folder, and `read` reads one. A launch has been made where its record is
        ok and was noted, and no file of it has changed. `words` are said of each, and a `plan_table` of all stages
        so far is kept in the folder.
        Raises UserError for damaged files of an interrupted session, and KeyboardInterrupt where it is to stop.
        """
        differences = manifest.check(self.folder)
        damaged = (*differences.changed, *differences.missing)
        rounds = _Rounds[L](self.job)
        earlier = self._earlier_durations()
        typical = statistics.fmean(earlier.values()) if earlier else 0.0
        seconds: dict[str, float] = {}
        stages: list[Stage[L]] = []
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        # Drawn between launches alone, which have the machine for themselves.
        with Progress(*columns, console=self.console, transient=True, auto_refresh=False) as progress:
            bar = progress.add_task("", total=None)
            while stage := schedule.next_stage():
                left = schedule.seconds_left()
                about = "" if left is None else f", about {durations.in_words(left)} left"
                if not stages or stage.title != stages[-1].title:
                    self.console.print(f"{stage.title}{about}:", markup=False)
                progress.update(bar, total=None if left is None else sum(seconds.values()) + left)
                made = list[L]()
                stages.append(dataclasses.replace(stage, launches=made))
                self._keep_plan(plan_table, [*stages[:-1], stage])
                to_make = deque(stage.launches)
                while to_make:
                    launch = rounds.renumbered(to_make.popleft())
                    title, path = f"{stage.title}{about}, {launch.name}", self.folder / f"{launch.name}.json"
                    progress.update(bar, completed=sum(seconds.values()), description=title, refresh=True)
                    record = self._record_of(launch, read, damaged)
                    if record is None and (again := rounds.begin_anew(launch)):
                        to_make.extendleft(reversed([*again, launch]))
                        # Their records stay, but no plan has them, so that nothing is compared with them.
                        made[:] = [each for each in made if each not in again]
                        continue
                    if record and (record.status == "ok" or rounds.is_of_another_job(launch, record)):
                        seconds[launch.name] = earlier.get(launch.name, typical)
                        rounds.note(launch, record)
                    else:
                        if self.is_to_stop.is_set():
                            raise KeyboardInterrupt
                        started = time.monotonic()
                        try:
                            record = make(launch, self.folder)
                            seconds[launch.name] = time.monotonic() - started
                            rows = [_Duration(*each) for each in (earlier | seconds).items()]
                            write_rows(self.folder / _DURATIONS, rows, _Duration)
                        finally:
                            self._note(path)
                        self.say(launch.name, words(launch, record), record.status, seconds[launch.name])
                    made.append(launch)
                    schedule.note(launch, seconds[launch.name], record)
        self._keep_plan(plan_table, stages)
        self._note()
        return stages

    def _keep_plan(
        self, plan_table: Callable[[Sequence[Stage[L]]], pandas.DataFrame] | None, stages: Sequence[Stage[L]]
    ) -> None:
        """Keep the table of these stages in the folder, where there is one and it has rows."""
        if plan_table and len(table := plan_table(stages)):
            write_atomically(self.folder / PLAN, table.to_csv(index=False).encode())

    def say(self, name: str, words: str, status: str, seconds: float) -> None:
        """Print how a launch ended, and how long it took."""
        launch = f"{name:<58} {words}" if status == "ok" else f"{name}: {words}"
        self.console.print(f"{status:>11}  {launch} {seconds:>6.1f} s", markup=False)

    def _record_of(self, launch: Launch, read: Callable[[Path], R], damaged: Sequence[str]) -> R | None:
        """The record of a launch if it was noted; says why it counts as not run where a file of it is damaged."""
        if f"{launch.name}.json" not in manifest.read(self.folder):
            return None
        try:
            # In whichever folder: another commit's launch has one of its own.
            if own := next((name for name in damaged if f"/{launch.name}." in f"/{name}"), None):
                raise UserError(f"{own} has changed since, or is gone.")
            return read(self.folder / f"{launch.name}.json")
        except UserError as error:
            self.console.print(f"{launch.name} counts as not run: {error}", markup=False)
            return None

    def _earlier_durations(self) -> dict[str, float]:
        """Seconds of the launches that were made before an interruption. Raises UserError for a damaged file."""
        path = self.folder / _DURATIONS
        return {row.launch: row.seconds for row in read_rows(path, _Duration)} if path.exists() else {}

    def _note(self, *records: Path) -> None:
        """Note the digests of what launches with these records have left, and of the tables."""
        with signals_held():
            left = [path for record in records for path in [record, *manifest.files_of(record.parent, record.stem)]]
            manifest.note(self.folder, [*left, self.folder / _DURATIONS, self.folder / PLAN])


class _Rounds(Generic[L]):
    """The rounds of a session of Slurm's, of which an allocation that has ended may have made a part."""

    _FURTHER = 100
    """By so much another number is higher than the one of the round that wasn't ended."""

    def __init__(self, job: str | None) -> None:
        self._job = job
        self._begun: dict[int, list[L]] = {}
        """By round the launches that other allocations have made."""
        self._numbers: dict[int, int] = {}
        """The new numbers of rounds, by those that they had."""

    def renumbered(self, launch: L) -> L:
        """The launch as the newest number of its round has it."""
        while (number := _round_of(launch)) in self._numbers:
            launch = _in_round(launch, self._numbers[number])
        return launch

    def begin_anew(self, launch: L) -> list[L]:
        """The launches that are made once more before this one, of whose round others are from another allocation."""
        number = _round_of(launch)
        if begun := self._begun.pop(number, []):
            self._numbers[number] = number + self._FURTHER
        return begun

    def is_of_another_job(self, launch: L, record: Header) -> bool:
        """Whether another allocation has made this launch of a round, which stays as it is then."""
        if self._job is None or _round_of(launch) == 0:
            return False
        return record.allocation is None or record.allocation.job != self._job

    def note(self, launch: L, record: Header) -> None:
        """Take note of a launch that isn't made again."""
        if self.is_of_another_job(launch, record):
            self._begun.setdefault(_round_of(launch), []).append(launch)


def _round_of(launch: Launch) -> int:
    """The number of the round that the launch belongs to; 0: to none, such as a certificate."""
    planned: Any = launch.launch if isinstance(launch, Placed) else launch
    number = getattr(planned, "repetition", 0)
    return number if number and dataclasses.replace(planned, repetition=0).name != planned.name else 0


def _in_round(launch: L, number: int) -> L:
    """The same launch in the round of this number."""
    of_any: Any = launch
    if isinstance(launch, Placed):
        return dataclasses.replace(of_any, launch=dataclasses.replace(of_any.launch, repetition=number))
    return dataclasses.replace(of_any, repetition=number)


@contextmanager
def begin(
    console: Console, name: str, arguments: Arguments, identity: str, kind: str | None = None, job: str | None = None
) -> Generator[Session]:
    """Begin a session, or go on with one that was interrupted, alone on this machine; it is finished after the block.

    `name` is the Nox session's, and `kind` is how folders' names end, where that isn't the same. `identity` is what an
    interrupted session has in common with the one that goes on with it. `job` is the one of Slurm's in whose allocation
    launches are made: another allocation may go on. Leaves by SystemExit where a signal asks for it; SIGUSR1 asks to
    stop between two launches. Raises UserError where another session measures here.
    """
    is_to_stop = threading.Event()
    signal.signal(signal.SIGUSR1, lambda _number, _frame: is_to_stop.set())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with machine.alone():
            folder = unfinished_or_new(arguments.session.results, kind or name, identity, moves=job is not None)
            refusal = f"Another session fills {folder}: wait for its end, or name another folder with --results."
            ensure_writable(folder / "lock")
            with locked(folder / "lock", refusal=refusal):
                seed = order_seed(folder, arguments.session.order_seed)
                options = dataclasses.replace(arguments.session, order_seed=seed)
                again = command_line.of_session(name, dataclasses.replace(arguments, session=options))
                write_atomically(folder / "command.txt", f"{again}\n".encode())
                write_presentation(folder)
                console.print(f"Records go to {folder}; the launches' order has seed {seed}.", markup=False)
                yield Session(console, folder, seed, job, is_to_stop)
                (folder / FINISHED).touch()
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)


def console_for(width: int) -> Console:
    """The terminal, or lines of this width where nobody looks.

    What records and users say is printed as it is: in rich's markup, `[/` in a reason would be an error.
    """
    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False)


def counted(console: Console, records: Iterable[Header]) -> int:
    """Say how many launches ended how; returns 1 where one failed, else 0."""
    statuses = [record.status for record in records]
    counts = ", ".join(f"{statuses.count(each)} {each}" for each in ("ok", "unsupported", "failed"))
    console.print(f"{len(statuses)} launches: {counts}.")
    return int("failed" in statuses)


def report(module: str, folder: Path, out: Path) -> int:
    """Write what a session ends with, from the records in its folder; returns the exit status."""
    if importlib.util.find_spec("typst") is None:
        print(f"typst isn't installed: `nox -s report -- --results {folder}` writes the report elsewhere.")
        return 0
    command = [sys.executable, "-m", module, "--results", str(folder.resolve()), "--out", str(out.resolve())]
    return subprocess.run(command, cwd=ROOT).returncode
