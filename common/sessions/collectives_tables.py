"""The tables of a session on the terminal: a row for each size, with the columns that nccl-tests' users know."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.table import Table

from common.records import collective_rows
from common.records.collective_rows import CaseFit, Missing, Row, Timing
from common.records.collectives import CollectivesRecord
from common.statistics.fit import Estimate

_DASH = "\N{EN DASH}"


def of(records: Mapping[str, CollectivesRecord]) -> list[Table]:
    """Of each collective in each world a table of all libraries; then what was fitted, and what there isn't."""
    rows = collective_rows.rows(records)
    tables = [_sizes(title, own) for title, own in _by_title(rows).items()]
    if fits := collective_rows.fits(rows):
        tables.append(_fits(fits))
    if gone := collective_rows.missing(records):
        tables.append(_missing(gone))
    return [*tables, _timing(collective_rows.timings(records, rows))] if rows else tables


def _by_title(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(f"{row.case.collective}, {row.case.world}", []).append(row)
    return found


def _sizes(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("library", no_wrap=True, min_width=max(len(row.case.library) for row in rows) + 1)
    for name in ("size, B", "n", "time, us", "95 %", "algbw, MB/s", "busbw, MB/s", "arrival, us"):
        table.add_column(name, justify="right")
    for name in ("sent, B/rank", "by formula", "by nccl-tests", "CPU, ns/B"):
        table.add_column(name, justify="right")
    for library, own in groupby(rows, key=lambda row: row.case.library):
        for place, row in enumerate(own):
            table.add_row(*_cells(row, "" if place else library))
        table.add_section()
    return table


def _cells(row: Row, library: str) -> list[str]:
    seconds = row.seconds
    crowded = "†" if row.oversubscribed else ""
    interval = _DASH if seconds.low is None else f"{_micro(seconds.low)} to {_micro(seconds.high)}"
    rates = (row.algorithm_bytes_per_second, row.bus_bytes_per_second)
    processor = row.processor_seconds_per_byte
    if row.arrival_seconds is None and row.arrival_unknown_below_seconds:
        arrival = f"< {_micro(row.arrival_unknown_below_seconds)}"
    else:
        arrival = _DASH if row.arrival_seconds is None else _micro(row.arrival_seconds)
    return [
        *[f"{library}{crowded if library else ''}", f"{row.size_bytes:,}", str(seconds.n), _micro(seconds.median)],
        interval,
        *[_DASH if rate is None else f"{rate / 1e6:.3g}" for rate in rates],
        arrival,
        *[_DASH if each is None else f"{each:,.0f}" for each in (row.sent_bytes_per_rank, row.formula_bytes_per_rank)],
        f"{row.factor_bytes_per_rank:,.0f}",
        _DASH if processor is None else f"{1e9 * processor:.3g}",
    ]


def _fits(fits: Sequence[CaseFit]) -> Table:
    table = Table(title="Time = alpha + size / beta, in pieces", title_justify="left")
    for name in ("library", "collective", "world"):
        table.add_column(name)
    for name in ("from, B", "to, B", "alpha, us", "beta, MB/s", "n", "largest residual"):
        table.add_column(name, justify="right")
    for each in fits:
        for piece in each.fit.pieces:
            world = each.case.world
            ends = [f"{piece.from_bytes:,}", f"{piece.to_bytes:,}"]
            found = [_estimate(piece.latency_seconds, 1e6), _estimate(piece.bytes_per_second, 1e-6)]
            residual = f"{100 * max(map(abs, each.fit.residuals)):.0f} %"
            known = [each.case.library, each.case.collective, world]
            table.add_row(*known, *ends, *found, str(each.fit.launches), residual)
    return table


def _estimate(estimate: Estimate, unit: float) -> str:
    value = f"{unit * estimate.value:.3g}"
    return value if estimate.low is None else f"{value} ({unit * estimate.low:.3g} to {unit * estimate.high:.3g})"


def _missing(gone: Sequence[Missing]) -> Table:
    table = Table("library", "collective", "world", "size, B", "status", "launches", "reason", title="Not measured")
    reasons: dict[tuple, list[Missing]] = {}
    for each in gone:
        key = (each.case.library, each.case.collective, each.case.world, each.status, each.reason)
        reasons.setdefault(key, []).append(each)
    for (library, collective, world, status, reason), own in reasons.items():
        sizes = sorted({each.size_bytes for each in own if each.size_bytes is not None})
        spread = _DASH if not sizes else f"{sizes[0]:,}" + (f" to {sizes[-1]:,}" if len(sizes) > 1 else "")
        launches = len({repetition for each in own for repetition in each.repetitions})
        table.add_row(library, collective or "all", world, spread, status, str(launches), reason)
    return table


def _timing(timings: Sequence[Timing]) -> Table:
    """What looking at the clock costs, beside the shortest call."""
    table = Table("library", "looking at the clock, ns", "shortest call, us", "share", title="What timing costs")
    for each in timings:
        shortest = _micro(each.row.seconds.median)
        table.add_row(each.row.case.library, f"{1e9 * each.seconds:.0f}", shortest, f"{100 * each.share:.2f} %")
    return table


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f}"
