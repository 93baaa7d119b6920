"""The words, the tables and the figures of the report on collectives."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

from common.records.collective_rows import Case, CaseFit, Missing, Row, Timing
from common.records.collectives import CollectivesRecord
from common.statistics import fit
from common.statistics.fit import Estimate
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import MARGIN
from reports import blocks
from reports.blocks import DAGGER, DASH, Block
from reports.charts import collective_times
from reports.charts.style import Style
from reports.tables.collectives import Leader, grouped
from reports.tables.results import Origin
from reports.tables.standings import EQUIVALENT, FASTEST, NOT_RANKED, UNDECIDED
from reports.words import machine

_MOST_SIZES = 5
"""Of a table of one page's width."""

_MARKS = {EQUIVALENT: " =", UNDECIDED: " ?"}
_MICROSECONDS = "\N{MICRO SIGN}s"


def who_is_in_front(found: Sequence[Leader], looks: Mapping[str, Style]) -> list[Block]:
    """The sentence and the table of the first page."""
    if not found:
        return [blocks.text("No launch measured anything.")]
    return [blocks.headline(_headline(found)), _leaders_table(found, looks)]


def _headline(found: Sequence[Leader]) -> str:
    """Which library is in front most often, and how often that is shown, in one sentence."""
    tested = [each for each in found if each.verdict != NOT_RANKED]
    if not tested:
        return "No two libraries share rounds enough to say which is faster."
    fastest = Counter(each.row.case.library for each in tested if each.verdict == FASTEST)
    tied = Counter(
        name for each in tested if each.verdict == EQUIVALENT for name in (each.row.case.library, *each.rivals)
    )
    places = "1 collective and size" if len(tested) == 1 else f"{len(tested)} collectives and sizes"
    if not fastest + tied:
        return f"No library is shown to be the fastest at any of {places}."
    first = max(sorted(fastest + tied), key=lambda name: (fastest[name] + tied[name], fastest[name]))
    shown = [f"the fastest at {fastest[first]}"] if fastest[first] else []
    shown += [f"equivalent to the fastest at {tied[first]}"] if tied[first] else []
    return f"{first} is in front at {fastest[first] + tied[first]} of {places}: {', '.join(shown)}."


def _leaders_table(found: Sequence[Leader], looks: Mapping[str, Style]) -> Block:
    """The library in front by collective and size, in its color, with its median time and how sure that is."""
    sizes = sorted({each.row.size_bytes for each in found})
    if len(sizes) > _MOST_SIZES:
        sizes = [sizes[round(place * (len(sizes) - 1) / (_MOST_SIZES - 1))] for place in range(_MOST_SIZES)]
    rows: list[list[str]] = []
    tints: dict[tuple[int, int], str] = {}
    for case, own in grouped(found, lambda each: each.case).items():
        by_size = {each.row.size_bytes: each for each in own}
        shown = [by_size.get(size) for size in sizes]
        tints |= {
            (len(rows), column): looks[each.row.case.library].color
            for column, each in enumerate(shown, start=2)
            if each and each.verdict in (FASTEST, EQUIVALENT)
        }
        leading = [
            f"{_named(each.row)}{_MARKS.get(each.verdict, '')}\n{_micro(each.row.seconds.median)}" if each else DASH
            for each in shown
        ]
        rows.append([case.collective, case.world, *leading])
    columns = ["collective", "world", *[f"{size:,} B" if size else "no data" for size in sizes]]
    counts = [each.n for each in found if each.n]
    n = f" n = {blocks.span(counts)} rounds." if counts else ""
    wide = {0: 2, 1: 3} | dict.fromkeys(range(2, len(columns)), 3)
    notes = [
        f"The library in front, and its median time in {_MICROSECONDS}. On its color: shown to be faster than all "
        f"others, or equivalent (=) to some within {100 * MARGIN:g} %. ?: can't be told from another. Without a mark "
        f"on white: not tested, for fewer than {FEWEST_LAUNCHES} rounds or no other library.{n}"
    ]
    notes += blocks.oversubscribed_note(each.row.oversubscribed for each in found)
    return blocks.table(columns, rows, notes, left=tuple(range(len(columns))), tints=tints, wide=wide)


def curves(case: Case, rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> Block:
    """The figure of one collective in one world."""
    counts, sizes = [row.seconds.n for row in rows], [row.size_bytes for row in rows]
    n = blocks.span(counts)
    said = [f"{case.collective}, {case.world}: medians, every launch a faint mark, n = {n} launches."]
    said += ["Upright: 95 % intervals of the medians."] if any(row.seconds.low is not None for row in rows) else []
    said += blocks.few_note(counts, "launches")
    if fits:
        said.append(
            f"Dotted: the fitted lines, through the medians of n = {blocks.span(each.fit.launches for each in fits)} "
            "launches that measured all sizes."
        )
    names = blocks.some(sorted({row.case.library for row in rows}))
    alt = (
        f"Time of {case.collective} among {case.world}, over sizes from {blocks.span(sizes)} bytes, both logarithmic: "
        f"a line for each of {names}. The tables after it have all numbers."
    )
    return blocks.figure("times", partial(collective_times.times, list(rows), fits, dict(looks)), " ".join(said), alt)


def sizes_table(rows: Sequence[Row]) -> Block:
    """A row for each library and size: times, bandwidths, by how much ranks came late, and what they sent."""
    columns = ["library", "size, B", "n", f"time,\n{_MICROSECONDS}", "95 %\ninterval", "algbw,\nMB/s", "busbw,\nMB/s"]
    columns += [f"arrival,\n{_MICROSECONDS}", "truly sent,\nB/rank", "by formula,\nB/rank", "CPU,\nns/B"]
    lines = []
    for row in _in_order(rows):
        seconds, cost = row.seconds, row.processor_seconds_per_byte
        between = DASH if seconds.low is None else blocks.interval(seconds.low, seconds.high, _micro)
        rates = (row.algorithm_bytes_per_second, row.bus_bytes_per_second)
        megabytes = [DASH if rate is None else blocks.megabytes(rate) for rate in rates]
        counts = (row.sent_bytes_per_rank, row.formula_bytes_per_rank)
        sent = [DASH if count is None else f"{count:,.0f}" for count in counts]
        known = [_named(row), f"{row.size_bytes:,}", str(seconds.n), _micro(seconds.median), between, *megabytes]
        arrival = DASH if row.arrival_seconds is None else _micro(row.arrival_seconds)
        if row.arrival_seconds is None and row.arrival_unknown_below_seconds:
            arrival = f"< {_micro(row.arrival_unknown_below_seconds)}"
        lines.append([*known, arrival, *sent, DASH if cost is None else blocks.number(1e9 * cost)])
    notes = [f"{DASH}: not known, or not defined for it; nothing unknown is a zero."]
    notes += blocks.few_note([row.seconds.n for row in rows], "launches")
    unsure = any(row.arrival_seconds is None and row.arrival_unknown_below_seconds for row in rows)
    notes += ["An arrival with < is below what the hosts' clocks can tell."] if unsure else []
    notes += blocks.oversubscribed_note(row.oversubscribed for row in rows)
    return blocks.table(columns, lines, notes, left=(0,))


def algorithms_table(rows: Sequence[Row]) -> Block:
    """The algorithm of each library with its formula and source, over the sizes at which it takes it."""
    lines = []
    for (library, *told), own in groupby(
        _in_order(rows), key=lambda row: (row.case.library, row.algorithm, row.formula, row.source)
    ):
        lines.append([library, blocks.span(row.size_bytes for row in own), *[each or DASH for each in told]])
    columns = ["library", "sizes, B", "algorithm", "all ranks send", "source"]
    return blocks.table(columns, lines, [], left=(0, 2, 3, 4), wide={2: 3, 3: 3, 4: 4})


def fits_section(fits: Sequence[CaseFit], rows: Sequence[Row]) -> list[Block]:
    """Alpha, beta and breakpoints of every case, with their intervals, a table for each world."""
    if not fits:
        return []
    columns = ["library", "collective", "holds from, B", "to, B", f"alpha, {_MICROSECONDS}", "beta, MB/s", "n"]
    parts = [
        blocks.heading("Latency and bandwidth"),
        blocks.text(
            "Time = alpha + size / beta, in one to three pieces: as many as Schwarz's criterion finds, each through "
            f"{fit.FEWEST_SIZES} sizes at least. Beta is in bytes of the size, as algorithm bandwidth is. From "
            f"{FEWEST_LAUNCHES} launches on, intervals of a bootstrap over whole launches are given. The residual is "
            "the largest of (fitted \N{MINUS SIGN} measured) / measured, without its sign."
        ),
    ]
    first_rows = {row.case: row for row in sorted(rows, key=lambda row: row.oversubscribed)}
    for place, own in grouped(fits, lambda each: each.case.world).items():
        named = [(each, first_rows[each.case]) for each in sorted(own, key=lambda each: each.case.library)]
        lines = []
        for each, row in named:
            found = each.fit
            starts = [f"{found.pieces[0].from_bytes:,}"]
            starts += [_estimate(point, 1) for point in found.breakpoints]
            residual = blocks.percent(max(map(abs, found.residuals)), 1)
            for start, piece in zip(starts, found.pieces, strict=True):
                alpha, beta = _estimate(piece.latency_seconds, 1e6), _estimate(piece.bytes_per_second, 1e-6)
                known = [_named(row), each.case.collective, start, f"{piece.to_bytes:,}"]
                lines.append([*known, alpha, beta, str(found.launches), residual])
        notes = blocks.oversubscribed_note(row.oversubscribed for _, row in named)
        table = blocks.table([*columns, "largest\nresidual"], lines, notes, left=(0, 1))
        parts += [blocks.heading(blocks.capitalized(place), level=2), table]
    return parts


def _estimate(estimate: Estimate, unit: float) -> str:
    low, high = (math.nan if end is None else unit * end for end in (estimate.low, estimate.high))
    return blocks.with_interval(unit * estimate.value, low, high, blocks.number)


def timing_section(timings: Sequence[Timing]) -> list[Block]:
    """What looking at the clock costs, beside the shortest call of each library."""
    if not timings:
        return []
    lines = []
    for each in timings:
        row = each.row
        where = f"{row.case.collective}, {row.size_bytes:,} B, {row.case.workers} ranks"
        cost, shortest = f"{1e9 * each.seconds:.0f}", _micro(row.seconds.median)
        lines.append([_named(row), cost, shortest, where, blocks.percent(each.share, 2)])
    columns = ["library", "looking at\nthe clock, ns", f"shortest\ncall, {_MICROSECONDS}", "which", "share"]
    return [blocks.heading("What timing costs"), blocks.table(columns, lines, [], left=(0, 3))]


def missing_section(gone: Sequence[Missing]) -> list[Block]:
    """What was to be measured and has no time, with the reasons."""
    if not gone:
        return []
    reasons = grouped(gone, lambda each: (each.case.library, each.case.collective, each.status, each.reason))
    lines = []
    for (library, collective, status, reason), own in reasons.items():
        sizes = [each.size_bytes for each in own if each.size_bytes is not None]
        ranks = blocks.listed(sorted({str(each.case.workers) for each in own}, key=blocks.natural))
        launches = len({(each.case.workers, repetition) for each in own for repetition in each.repetitions})
        about = [library, collective or "all", ranks, blocks.span(sizes) if sizes else DASH, status, str(launches)]
        lines.append([*about, reason or "no reason was recorded"])
    columns = ["library", "collective", "ranks", "size, B", "status", "launches", "reason"]
    table = blocks.table(columns, lines, [], left=(0, 1, 4, 6), wide={6: 1})
    return [blocks.heading("What isn't there"), table]


def method() -> list[Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers"),
        blocks.items(
            [
                "A call's time runs from when the last rank begins it until the last rank has its result. The ranks "
                "meet at a barrier before each call; arrival is by how much the last one begins after the first, and "
                "is no part of the time. Calls one right after the other have no barrier between them, and their time "
                "is the mean over the loop. Between hosts each clock is set right by its host's measured offset.",
                "Every launch is of fresh processes, and counts by the median over its calls, after a warm-up. A round "
                "has every library and world once, in shuffled order. Results are compared with NumPy's.",
                "A number is the median over n launches, with an interval by order statistics that covers the true "
                "median in at least 95 % of experiments. Who is faster is said by paired t tests within rounds, held "
                "down over all libraries that have the collective at this size (Holm); two intervals decide nothing.",
                "Sizes, algorithm bandwidth (size over time) and bus bandwidth (that times a factor of the collective "
                "and the ranks) are as nccl-tests defines them (doc/PERFORMANCE.md); 1 MB is 10\u2076 bytes.",
                "Truly sent is what the interfaces of the launch's own network counted over calls after the timed "
                "ones, headers included, over the number of ranks; over several hosts what went from host to host. "
                "What ranks hand over in shared memory isn't sent. CPU time is that of all ranks' processes together.",
            ]
        ),
    ]


def machine_section(records: Sequence[CollectivesRecord], origin: Origin) -> list[Block]:
    """What the launches ran on, with which libraries, versions and settings."""
    ok = machine.ended_ok(records)
    machines = sorted({record.host.name for record in ok if record.host.name})
    told = machine.facts(ok) | {
        **({"machines, pooled": ", ".join(machines)} if len(machines) > 1 else {}),
        "hosts": machine.distinct(", ".join(host.name for host in record.hosts) or "one" for record in ok),
        "calls timed, after": machine.distinct(
            f"{record.sweep.iterations} at each size, after {record.sweep.warmup_iterations}" for record in ok
        ),
        "results checked": blocks.share_of_launches(record.sweep.check for record in ok),
        **machine.to_repeat(origin, records),
    }
    libraries = []
    for library, own in sorted(grouped(records, lambda record: record.library).items()):
        facts = machine.distinct(f"{name}: {fact}" for record in own for name, fact in record.facts.items())
        carried = machine.distinct(record.backend for record in own)
        libraries.append([library, own[0].title, own[0].family, carried, facts])
    columns = ["library", "is", "family", "carried by", "tells of itself"]
    return [
        blocks.heading("Libraries, machine and versions"),
        blocks.table(columns, libraries, [], left=(0, 1, 2, 3, 4), wide={1: 2, 4: 3}),
        machine.table(told),
    ]


def _named(row: Row) -> str:
    return row.case.library + DAGGER * row.oversubscribed


def _micro(seconds: float) -> str:
    return blocks.number(1e6 * seconds)


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.case.library, row.size_bytes))
