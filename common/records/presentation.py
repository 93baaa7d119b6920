"""Titles, colours, source lines and formulas in words: what reports show, once for all launches of a session."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from common.declarations import catalogue
from common.declarations.strategy import Traffic, label, name_of
from common.errors import UserError
from common.records.collective_times import Cell, CollectivesRecord
from common.records.files import read_record, read_records, write_record
from common.records.header import Count, Header, Part, Versioned
from common.records.matrix_products import MatrixRecord
from common.records.quotation import Quotation, distributing_lines
from common.records.trace import Message
from common.records.training import Record

FILE = "presentation"
"""Its name in a session's folder: without a suffix, since `*.json` are records."""

Kind = TypeVar("Kind", bound=Header)


class Formula(Part, frozen=True, kw_only=True):
    """How bytes are computed."""

    formula: str
    """In words."""
    source: str = ""
    """The paper or the document that has it."""


class Algorithm(Formula, frozen=True, kw_only=True):
    """The formula of one of a library's algorithms."""

    from_bytes: Count = 0
    """From which size on the library takes it."""


class Presentation(Versioned, frozen=True, kw_only=True):
    """What the declarations say for reports alone."""

    colors: dict[str, list[str]] = {}
    """By a family's title what it is drawn in, from dark to light."""
    titles: dict[str, str] = {}
    """By the name of a library or of a way to multiply its name in prose."""
    distributed_by: dict[str, list[Quotation]] = {}
    """By script the lines that its comments say make it distributed."""
    formulas: dict[str, Formula] = {}
    """By a strategy's name with its label, of the bytes that it sends on one host."""
    formulas_between_hosts: dict[str, Formula] = {}
    """The same of the bytes that it sends from host to host."""
    algorithms: dict[str, dict[str, list[Algorithm]]] = {}
    """By library and collective, in the order of `from_bytes`."""


def of_catalogue(records: Iterable[Header] = ()) -> Presentation:
    """What the declarations of this checkout say of all programs.

    A strategy's formulas are those with the options that sessions launch it with, and with those of the `records`.
    """
    strategies, libraries, ways = catalogue.strategies(), catalogue.libraries(), catalogue.ways()
    options = {
        name: [each.options(**values) for values in ({}, *each.variants, *each.over_links)]
        for name, each in strategies.items()
    }
    for record in records:
        if isinstance(record, Record) and record.strategy in strategies:
            # Options that this checkout doesn't have.
            with suppress(TypeError, UserError):
                options[record.strategy].append(strategies[record.strategy].options(**record.options))
    formulas, between_hosts = {}, {}
    for name, strategy in strategies.items():
        for each in options[name]:
            key = name_of(name, label(each))
            formulas[key] = _formula(strategy.traffic(1, 2, each, 1))
            between_hosts[key] = _formula(strategy.traffic(1, 2, each, 2))
    return Presentation(
        colors={each.title: list(each.colors) for each in catalogue.families().values()},
        titles={each.name: each.title for each in (*libraries.values(), *ways.values())},
        distributed_by={each.script: list(distributing_lines(each.script)) for each in strategies.values()},
        formulas=formulas,
        formulas_between_hosts=between_hosts,
        algorithms={
            name: {
                collective: [
                    Algorithm(from_bytes=each.from_bytes, formula=each.formula, source=each.source)
                    for each in algorithms
                ]
                for collective, algorithms in library.collectives.items()
            }
            for name, library in libraries.items()
        },
    )


def write_presentation(folder: Path) -> None:
    """Keep in the folder of a session what the declarations say now. Raises UserError where it can't be written to."""
    write_record(folder / FILE, of_catalogue())


def read_presented(folder: Path, kind: type[Kind]) -> dict[str, Kind]:
    """Every record in `folder` by its launch, in their order, with what reports show beside it.

    A record of before there was a file for it holds it. For others the session's file comes first, in the folder or
    in the one above, then this checkout's declarations; what neither has stays empty. Damaged records are
    left out. Raises UserError where the session's file is damaged.
    """
    records = read_records(folder, kind)
    if all(_holds_presentation(record) for record in records.values()):
        return records
    presentation = of_catalogue(records.values())
    if path := next((each / FILE for each in (folder, folder.parent) if (each / FILE).exists()), None):
        kept = read_record(path, Presentation)
        presentation = Presentation(
            colors=presentation.colors | kept.colors,
            titles=presentation.titles | kept.titles,
            distributed_by=presentation.distributed_by | kept.distributed_by,
            formulas=presentation.formulas | kept.formulas,
            formulas_between_hosts=presentation.formulas_between_hosts | kept.formulas_between_hosts,
            algorithms=presentation.algorithms | kept.algorithms,
        )
    return {
        launch: record if _holds_presentation(record) else structs.replace(record, **_fields(record, presentation))
        for launch, record in records.items()
    }


def _formula(traffic: Traffic) -> Formula:
    return Formula(formula=traffic.formula, source=traffic.source)


def _holds_presentation(record: Header) -> bool:
    return bool(record.colors) or (isinstance(record, Record) and bool(record.formula or record.distributed_by))


def _fields(record: Header, presentation: Presentation) -> dict[str, object]:
    """The fields of the record that the presentation fills."""
    fields: dict[str, object] = {"colors": presentation.colors.get(record.family, [])}
    if isinstance(record, Record):
        formulas = presentation.formulas_between_hosts if len(record.hosts) > 1 else presentation.formulas
        formula = formulas.get(name_of(record.strategy, record.label), Formula(formula=""))
        fields["formula"], fields["formula_source"] = formula.formula, formula.source
        fields["distributed_by"] = presentation.distributed_by.get(record.script, [])
    elif isinstance(record, CollectivesRecord):
        fields["title"] = presentation.titles.get(record.library, record.library)
        algorithms = presentation.algorithms.get(record.library, {})
        fields["cells"] = [_presented(cell, algorithms) for cell in record.cells]
    elif isinstance(record, MatrixRecord):
        fields["title"] = presentation.titles.get(record.way, record.way)
    return fields


def _presented(cell: Cell, algorithms: dict[str, list[Algorithm]]) -> Cell:
    """The cell with the formula of its collective at its size; of a step's messages with all of theirs."""
    if not cell.algorithm:
        return cell
    chosen: list[Algorithm] = []
    for message in cell.messages or [Message(collective=cell.collective, size_bytes=cell.size_bytes)]:
        fitting = [each for each in algorithms.get(message.collective, []) if each.from_bytes <= message.size_bytes]
        chosen += fitting[-1:]
    return structs.replace(
        cell,
        formula="; ".join(dict.fromkeys(each.formula for each in chosen)),
        source="; ".join(dict.fromkeys(each.source for each in chosen)),
    )
