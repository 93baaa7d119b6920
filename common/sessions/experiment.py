"""The journey of every experiment: plan, hosts, rounds of launches, observations, what they tell, and the report."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import pandas as pd
import tyro
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.errors import UserError
from common.files import ensure_writable
from common.launching.executor import HERE, Executor, run_planned
from common.launching.hosts import slurm
from common.launching.hosts.selection import Selection
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import Planned
from common.observations import display, table
from common.observations.display import Display, Observed
from common.observations.table import Missing, Observation
from common.records.certificate import trusted
from common.records.files import read_record
from common.records.header import Header
from common.records.presentation import read_presented
from common.records.training import Record
from common.sessions import chosen_hosts, submission
from common.sessions.session import Options, Output, Schedule, begin, console_for, counted, report, rounds_of

L = TypeVar("L")
"""What a launch is observed from: its record, or that and what else it left."""


@dataclass(frozen=True, kw_only=True)
class ExperimentOutput(Output):
    """Options of what an experiment ends with."""

    again: Path | None = None
    """A session's folder whose tables and report are made again; nothing is measured."""


class Scope(Protocol):
    """What is measured: a dataclass.

    Where launches may be over hosts it has `ranks`, the numbers of workers that share something, and a field `spread`,
    which takes what is known of the hosts.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def rounds(self) -> int:
        """How many rounds it makes."""
        ...


class Arguments(Protocol):
    """An experiment's command line: a dataclass with a default for each field."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def scope(self) -> Scope:
        """What is measured."""
        ...

    @property
    def selection(self) -> SlurmOptions:
        """Where launches are made: on one machine, or, where it is a `Selection`, over hosts as well."""
        ...

    @property
    def output(self) -> ExperimentOutput:
        """What it ends with."""
        ...

    @property
    def session(self) -> Options:
        """The options that every session has."""
        ...


def _trusted(folder: Path, records: Mapping[str, Any]) -> Mapping[str, Any]:
    """The records that numbers may rest on."""
    return trusted(records, folder) if all(isinstance(each, Record) for each in records.values()) else records


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[L]):
    """What one experiment differs in from all others."""

    name: str
    """That of its Nox session, and of its module in `common.laboratory`."""
    about: str
    """What `--help` begins with."""
    scope: type[Scope]
    """What can be asked for."""
    hosts: Literal["one", "virtual", "any"] = "one"
    """On which hosts launches can be: on one machine alone, or also over several that this machine makes, or any."""
    record: type[Header]
    """What each of its launches leaves."""
    launches: Callable[[Any, int], Iterable[Planned[Header]]]
    """The launches of a scope's round by its number, from 1."""
    plan: Callable[[Any], pd.DataFrame] | None = None
    """What a scope is going to measure, as it's printed; None: each launch with how often it is made."""
    make: Callable[[Any, Path, Executor[Any]], Header] = run_planned
    """Makes one launch in a folder, and returns its record."""
    may_fail: Callable[[Any], bool] = lambda record: False
    """Whether the launch with this record may end for good, since that is what was to be found out."""
    gather: Callable[[Path, Mapping[str, Any]], Mapping[str, L]] = _trusted
    """Adds to the records what else their launches left in the folder; leaves out what is none of the experiment's.

    By default nothing is added, and trainings that computed something else than declared are left out.
    """
    observe: Callable[[str, L], Iterable[Observation | Missing]]
    """The rows of a launch, by the stem of its record's file, whatever became of it."""
    show: Callable[[Sequence[L], pd.DataFrame], Display]
    """How the observations of these launches are shown."""


def parse(experiment: Experiment[Any], options: Sequence[str]) -> Arguments:
    """What these options ask for. Raises UserError for a value that can't be meant."""
    config = (tyro.conf.EnumChoicesFromValues,)
    selection = SlurmOptions if experiment.hosts == "one" else Selection
    output = partial(ExperimentOutput, out=Path(f"reports/out/{experiment.name}.pdf"))
    kinds = {
        "scope": (experiment.scope, experiment.scope),
        "selection": (selection, selection),
        "output": (ExperimentOutput, output),
        "session": (Options, Options),
    }
    fields = [
        (name, tyro.conf.OmitArgPrefixes[kind], dataclasses.field(default_factory=make))
        for name, (kind, make) in kinds.items()
    ]
    kind = dataclasses.make_dataclass("Arguments", fields, frozen=True)
    arguments = tyro.cli(kind, description=experiment.about, args=list(options), config=config)
    chosen = arguments.selection
    if experiment.hosts == "virtual" and not chosen.is_here and chosen.virtual_hosts is None:
        raise UserError(f"{experiment.name} over hosts takes those that can be lost without harm: use --virtual-hosts.")
    return arguments


def run(experiment: Experiment[Any]) -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments, module = parse(experiment, submission.own_words(sys.argv[1:])), f"common.laboratory.{experiment.name}"
    console, selection, output = console_for(160), arguments.selection, arguments.output
    scope: Any = arguments.scope
    if output.again:
        sys.exit(conclude(console, experiment, output.again, output.out))
    if selection.submit:
        submission.submit(console, experiment.name, module, arguments)
        return
    hosts = None
    if isinstance(selection, Selection):
        hosts, spread = chosen_hosts.find(console, module, selection, scope.ranks, output.plan)
        scope = dataclasses.replace(scope, spread=spread)
    if output.plan:
        plan = experiment.plan(scope) if experiment.plan else _plan(experiment, scope)
        _print(console, display.Table(title="", columns=[*plan.columns], rows=plan.astype(str).to_numpy().tolist()))
        return
    ensure_writable(output.out)
    if not isinstance(selection, Selection):
        hosts = chosen_hosts.on_one_host(console, selection)
    is_here = not isinstance(selection, Selection) or selection.is_here
    identity = repr(scope) + ("" if is_here else f"\n{selection}") + chosen_hosts.kind_of(hosts)
    job = slurm.job() if selection.slurm else None
    with begin(console, experiment.name, arguments, identity, job=job) as session:
        stages = rounds_of(scope.rounds, session.order_seed, partial(experiment.launches, scope))
        session.run(
            Schedule[Any, Any](stages),
            lambda planned, folder: experiment.make(planned, folder, hosts or HERE),
            partial(read_record, kind=experiment.record),
        )
    sys.exit(conclude(console, experiment, session.folder, output.out))


def _plan(experiment: Experiment[Any], scope: Scope) -> pd.DataFrame:
    """Each launch by its name without its round, and how often it is made."""
    planned = [launch for number in range(1, scope.rounds + 1) for launch in experiment.launches(scope, number)]
    count = Counter(launch.name.rpartition("-")[0] for launch in planned)
    return pd.DataFrame(count.items(), columns=["launch", "how often"])


def conclude(console: Console, experiment: Experiment[Any], folder: Path, out: Path) -> int:
    """Observe the records of a session, print and keep what they tell, and write the report; returns the exit status.

    Raises UserError where the folder has no record of this experiment.
    """
    records: Mapping[str, Any] = read_presented(folder, experiment.record)
    launches = experiment.gather(folder, records)
    if not launches:
        raise UserError(f"{folder} holds no records of {experiment.name}: measure some first, or name another folder.")
    found = observed_of(experiment, launches)
    tell(console, found, folder)
    failed = counted(console, (record for record in records.values() if not experiment.may_fail(record)))
    return report("reports.experiment", folder, out) or failed


def tell(console: Console, found: Observed, folder: Path) -> None:
    """Keep in a session's folder what was found, and print it. Raises UserError where it can't be written to."""
    found.write(folder)
    for each in display.tables(found):
        _print(console, each)
    for sentence in [display.answer(found), *found.display.sentences]:
        console.print(sentence, markup=False, highlight=False)


def observed_of(experiment: Experiment[L], launches: Mapping[str, L]) -> Observed:
    """What the launches of an experiment tell, by the stems of their records' files."""
    rows = [row for name, launch in launches.items() for row in experiment.observe(name, launch)]
    observed, missing = table.tables(rows)
    payload = str(experiment.record.__struct_config__.tag)
    return Observed(
        observed, missing, structs.replace(experiment.show([*launches.values()], observed), payload=payload)
    )


def _print(console: Console, table: display.Table) -> None:
    """Print a table, numbers flush right."""
    printed = Table(title=table.title or None, title_justify="left")
    for place, name in enumerate(table.columns):
        printed.add_column(name, justify="left" if place in table.of_words else "right")
    for row in table.rows:
        printed.add_row(*row)
    console.print(printed)
