"""The tables of a session on the terminal: a row for each size, with the columns that nccl-tests' users know."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.table import Table

from common.records import collective_rows
from common.records.collective_rows import CaseFit, Missing, Row
from common.records.collectives import CollectivesRecord
from common.statistics.fit import Estimate

_DASH = "\N{EN DASH}"


def of(records: Mapping[str, CollectivesRecord]) -> list[Table]:
    """Of each collective in each world a table of all libraries; then what was fitted, and what there isn't."""
    rows, by_title = collective_rows.rows(records), dict[str, list[Row]]()
    for row in rows:
        by_title.setdefault(f"{row.case.collective}, {row.case.world}", []).append(row)
    tables = [_sizes(title, of_title) for title, of_title in by_title.items()]
    if fits := collective_rows.fits(rows):
        tables.append(_fits(fits))
    if missing := collective_rows.missing(records):
        tables.append(_missing(missing))
    if rows:
        table = Table("library", "looking at the clock, ns", "shortest call, us", "share", title="What timing costs")
        for each in collective_rows.timings(records, rows):
            shortest = _micro(each.row.seconds.median)
            table.add_row(each.row.case.library, f"{1e9 * each.seconds:.0f}", shortest, f"{100 * each.share:.2f} %")
        tables.append(table)
    return tables


def _sizes(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("library", no_wrap=True, min_width=max(len(row.case.library) for row in rows) + 1)
    for name in ("size, B", "n", "time, us", "95 %", "algbw, MB/s", "busbw, MB/s", "arrival, us"):
        table.add_column(name, justify="right")
    for name in ("sent, B/rank", "by formula", "by nccl-tests", "CPU, ns/B"):
        table.add_column(name, justify="right")
    for library, of_library in groupby(rows, key=lambda row: row.case.library):
        for place, row in enumerate(of_library):
            oversubscribed = "†" if row.oversubscribed else ""
            table.add_row("" if place else f"{library}{oversubscribed}", *_numbers(row))
        table.add_section()
    return table


def _numbers(row: Row) -> list[str]:
    seconds, arrival = row.seconds, _number(row.arrival_seconds, 1e6, ",.1f")
    if row.arrival_seconds is None and row.arrival_unknown_below_seconds:
        arrival = f"< {_micro(row.arrival_unknown_below_seconds)}"
    return [
        f"{row.size_bytes:,}",
        str(seconds.n),
        _micro(seconds.median),
        _DASH if seconds.low is None or seconds.high is None else f"{_micro(seconds.low)} to {_micro(seconds.high)}",
        _number(row.algorithm_bytes_per_second, 1e-6, ".3g"),
        _number(row.bus_bytes_per_second, 1e-6, ".3g"),
        arrival,
        _number(row.sent_bytes_per_rank, 1, ",.0f"),
        _number(row.formula_bytes_per_rank, 1, ",.0f"),
        f"{row.factor_bytes_per_rank:,.0f}",
        _number(row.processor_seconds_per_byte, 1e9, ".3g"),
    ]


def _number(value: float | None, unit: float, style: str) -> str:
    return _DASH if value is None else format(unit * value, style)


def _fits(fits: Sequence[CaseFit]) -> Table:
    table = Table(title="Time = alpha + size / beta, in pieces", title_justify="left")
    for name in ("library", "collective", "world"):
        table.add_column(name)
    for name in ("from, B", "to, B", "alpha, us", "beta, MB/s", "n", "largest residual"):
        table.add_column(name, justify="right")
    for each in fits:
        for piece in each.fit.pieces:
            table.add_row(
                each.case.library,
                each.case.collective,
                each.case.world,
                f"{piece.from_bytes:,}",
                f"{piece.to_bytes:,}",
                _estimate(piece.latency_seconds, 1e6),
                _estimate(piece.bytes_per_second, 1e-6),
                str(each.fit.launches),
                f"{100 * max(map(abs, each.fit.residuals)):.0f} %",
            )
    return table


def _estimate(estimate: Estimate, unit: float) -> str:
    value, low, high = f"{unit * estimate.value:.3g}", estimate.low, estimate.high
    return value if low is None or high is None else f"{value} ({unit * low:.3g} to {unit * high:.3g})"


def _missing(missing: Sequence[Missing]) -> Table:
    table = Table("library", "collective", "world", "size, B", "status", "launches", "reason", title="Not measured")
    by_reason: dict[tuple[str, ...], list[Missing]] = {}
    for each in missing:
        key = (each.case.library, each.case.collective or "all", each.case.world, each.status, each.reason)
        by_reason.setdefault(key, []).append(each)
    for (library, collective, world, status, reason), alike in by_reason.items():
        sizes = sorted({each.size_bytes for each in alike if each.size_bytes is not None})
        ends = " to ".join(f"{size:,}" for size in dict.fromkeys([*sizes[:1], *sizes[-1:]])) or _DASH
        launches = len({repetition for each in alike for repetition in each.repetitions})
        table.add_row(library, collective, world, ends, status, str(launches), reason)
    return table


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f}"
