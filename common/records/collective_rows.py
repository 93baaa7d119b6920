"""What the records of a session say: how fast each collective of each library was, what it sent, who was faster.

Whatever is computed is of one size, or of a line through several: sizes are never averaged together.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from common.contract.collectives import MEANINGS, Collective
from common.records.collectives import Cell, CollectivesRecord, arrival_seconds, transfer_seconds
from common.records.site import placement
from common.statistics.fit import Fit, fit
from common.statistics.intervals import Interval, median_interval
from common.statistics.paired import MARGIN, Judgement, judge_all


@dataclass(frozen=True)
class Case:
    """One collective of one library in one world: what may be drawn as one curve over the sizes."""

    library: str
    title: str
    workers: int
    hosts: int
    placement: str
    """On how many hosts the ranks are, and over what link where that was chosen; empty where one has them all."""
    device: str
    data_type: str
    pipelined: bool
    """Whether the calls came one right after the other, with no barrier between them."""
    collective: str

    @property
    def world(self) -> str:
        """Such as `4 ranks, 2 hosts, 100 Mbit/s, cpu, float32`: what libraries share that can be compared."""
        words = [f"{self.workers} ranks", *filter(None, [self.placement]), self.device, self.data_type]
        return ", ".join(words + (["one call right after the other"] if self.pipelined else []))


@dataclass(frozen=True)
class Row:
    """One size of a case: medians over the launches, each of which stands for itself by the median over its calls."""

    case: Case
    size_bytes: int
    """As nccl-tests counts it; 0 for a barrier."""
    repetitions: tuple[int, ...]
    """The rounds that the launches belong to."""
    launch_seconds: tuple[float, ...]
    """Of each of these launches the median over its calls of what passes from when the last rank begins until the last
    rank has its result; of pipelined calls the mean over the loop. Over several hosts every launch's is wrong by
    `arrival_unknown_below_seconds` at most."""
    seconds: Interval
    """Their median."""
    arrival_seconds: float | None
    """By how much the last rank began a call after the first. None where calls are pipelined, where one process begins
    them for all ranks, and where the hosts' clocks can't tell."""
    arrival_unknown_below_seconds: float
    """What the hosts' clocks can't tell: by how much two of them may be apart at most; 0 on one host."""
    sent_bytes_per_rank: float | None
    """Bytes of a call that went over the launch's own network, packet headers included, over the number of ranks; None
    where they couldn't be told apart. Over several hosts those that went from host to host."""
    formula_bytes_per_rank: float | None
    """What the ranks send by the formula of the library's algorithm, over their number; None where there is none."""
    factor_bytes_per_rank: float
    """The size times what nccl-tests multiplies bandwidths by."""
    processor_seconds_per_byte: float | None
    """Of all ranks' processes in a call, over the size; None for a barrier, and where it wasn't measured."""
    oversubscribed: bool
    """Whether any of the launches had more threads than cores."""
    algorithm: str
    formula: str
    source: str

    @property
    def algorithm_bytes_per_second(self) -> float | None:
        """The size over the seconds, as nccl-tests defines it; None for a barrier."""
        return self.size_bytes / self.seconds.median if self.size_bytes else None

    @property
    def bus_bytes_per_second(self) -> float | None:
        """What nccl-tests calls bus bandwidth (doc/PERFORMANCE.md); None for a barrier."""
        return self.factor_bytes_per_rank / self.seconds.median if self.size_bytes else None


@dataclass(frozen=True)
class Timing:
    """What looking at the clock costs, beside the shortest call of a library."""

    row: Row
    """Of the shortest call."""
    seconds: float
    """Of both looks: the median over the launches."""

    @property
    def share(self) -> float:
        """Of that call."""
        return self.seconds / self.row.seconds.median


@dataclass(frozen=True)
class Missing:
    """A cell that has no time, or a launch that ended so before it had measured everything."""

    case: Case
    """Of a launch the collective is empty."""
    size_bytes: int | None
    """None: of a launch."""
    status: str
    """`unsupported` or `failed`."""
    reason: str
    repetitions: tuple[int, ...]
    """Of the launches that say so."""


@dataclass(frozen=True)
class CaseFit:
    """The lines through the sizes of a case."""

    case: Case
    repetitions: tuple[int, ...]
    """Of the launches that measured every size that any launch measured: those that the lines are fitted to."""
    fit: Fit


@dataclass(frozen=True)
class Comparison:
    """Two libraries at the same collective and size in the same world, from pairs of launches of the same round."""

    row: Row
    """The library that was faster by the mean over the pairs."""
    other: Row
    repetitions: tuple[int, ...]
    """The rounds that both were measured in."""
    judgement: Judgement
    """Its `ratio` is how many times as long as the first one the other takes."""


@dataclass(frozen=True)
class _Measured:
    """One good cell of one launch."""

    record: CollectivesRecord
    cell: Cell
    seconds: float
    arrival: float | None


def rows(records: Mapping[str, CollectivesRecord]) -> list[Row]:
    """One row for each library, world, collective, size and data type that was measured, in the records' order.

    Cells that a launch finished before it failed count as any others. Each rank's clock is set right by its host's
    offset; launches whose clocks were less sure than the call was short, so that it took no time at all by them, are
    in `missing`.
    """
    found: dict[tuple[Case, int], list[_Measured]] = {}
    for record, cell in _cells(records):
        if cell.status == "ok" and (measured := _measured(record, cell)).seconds > 0:
            found.setdefault((_case(record, cell.collective), cell.size_bytes), []).append(measured)
    return [_row(case, size_bytes, measured) for (case, size_bytes), measured in found.items()]


def missing(records: Mapping[str, CollectivesRecord]) -> list[Missing]:
    """Every cell without a time and every launch that wasn't ok, with the reason, once for all launches that say so."""
    found: dict[tuple[Case, int | None, str, str], list[int]] = {}
    for record in records.values():
        if record.status != "ok":
            key = (_case(record, ""), None, record.status, record.reason or "")
            found.setdefault(key, []).append(record.repetition)
    for record, cell in _cells(records):
        status, reason = cell.status, cell.reason or ""
        if status == "ok" and _measured(record, cell).seconds <= 0:
            status, reason = (
                "failed",
                f"The hosts' clocks may be {_unsure_seconds(record):.2g} s apart, and it took less.",
            )
        if status != "ok":
            key = (_case(record, cell.collective), cell.size_bytes, status, reason)
            found.setdefault(key, []).append(record.repetition)
    return [Missing(*key, repetitions=tuple(repetitions)) for key, repetitions in found.items()]


def fits(found: Iterable[Row]) -> list[CaseFit]:
    """Latency and bandwidth of every case with at least three sizes and a launch that measured all of them."""
    by_case: dict[Case, list[Row]] = {}
    for row in found:
        by_case.setdefault(row.case, []).append(row)
    fitted = []
    for case, own in by_case.items():
        own.sort(key=lambda row: row.size_bytes)
        launches = [dict(zip(row.repetitions, row.launch_seconds, strict=True)) for row in own]
        whole = sorted(set.intersection(*map(set, launches)))
        seconds = np.array([[each[repetition] for repetition in whole] for each in launches])
        if whole and (lines := fit([row.size_bytes for row in own], seconds)):
            fitted.append(CaseFit(case, tuple(whole), lines))
    return fitted


def timings(records: Mapping[str, CollectivesRecord], found: Iterable[Row]) -> list[Timing]:
    """What timing costs each library that was measured, in the order of `found`, the rows of these records."""
    by_library: dict[str, list[Row]] = {}
    for row in found:
        by_library.setdefault(row.case.library, []).append(row)
    costs: dict[str, list[float]] = {}
    for record in records.values():
        if any(cell.status == "ok" for cell in record.cells):
            costs.setdefault(record.library, []).append(record.timing_seconds)
    return [
        Timing(min(own, key=lambda row: row.seconds.median), statistics.median(costs[library]))
        for library, own in by_library.items()
    ]


def comparisons(found: Iterable[Row], margin: float = MARGIN) -> list[Comparison]:
    """Judge every two libraries at the same collective and size in the same world, by `common.statistics.paired`.

    The family over which the errors are held down is all libraries that have this collective at this size there, but
    for those with more threads than cores; the session's plan decided who they are. Pairs that share no round are left
    out.
    """
    families: dict[tuple[Case, int], list[Row]] = {}
    for row in found:
        if not row.oversubscribed:
            world = dataclasses.replace(row.case, library="", title="")
            families.setdefault((world, row.size_bytes), []).append(row)
    return [comparison for family in families.values() for comparison in _family(family, margin)]


def _cells(records: Mapping[str, CollectivesRecord]) -> Iterator[tuple[CollectivesRecord, Cell]]:
    return ((record, cell) for record in records.values() for cell in record.cells)


def _case(record: CollectivesRecord, collective: str) -> Case:
    return Case(
        library=record.library,
        title=record.title,
        workers=record.world_size,
        hosts=max(len(record.hosts), 1),
        placement=placement(record.hosts, record.virtual),
        device=record.device,
        data_type=record.sweep.data_type,
        pipelined=record.sweep.pipelined,
        collective=collective,
    )


def _measured(record: CollectivesRecord, cell: Cell) -> _Measured:
    """What a good cell says of its calls, in one clock."""
    own = _in_one_clock(record, cell)
    if record.sweep.pipelined:
        calls = cell.loop_calls * len(own.left_seconds[0])
        first = min(entered[0] for entered in own.entered_seconds)
        return _Measured(record, cell, (max(left[-1] for left in own.left_seconds) - first) / calls, None)
    seconds = statistics.median(transfer_seconds(own))
    if len(own.entered_seconds) < 2:
        return _Measured(record, cell, seconds, None)
    late = [max(of_call) for of_call in zip(*arrival_seconds(own), strict=True)]
    return _Measured(record, cell, seconds, statistics.median(late))


def _in_one_clock(record: CollectivesRecord, cell: Cell) -> Cell:
    """The cell by the clock of the machine that started the launch: the ranks of a host follow one another."""
    if len(record.hosts) < 2:
        return cell
    each = record.world_size // len(record.hosts)
    ahead = [record.hosts[rank // each].clock_offset_seconds or 0.0 for rank in range(record.world_size)]

    def set_right(moments: list[list[float]]) -> list[list[float]]:
        return [[moment - own for moment in of_rank] for of_rank, own in zip(moments, ahead, strict=True)]

    return structs.replace(
        cell, entered_seconds=set_right(cell.entered_seconds), left_seconds=set_right(cell.left_seconds)
    )


def _unsure_seconds(record: CollectivesRecord) -> float:
    """By how much two hosts' clocks may be apart at most once they are set right, whichever two these are."""
    if len(record.hosts) < 2:
        return 0.0
    return sum(sorted(host.clock_uncertainty_seconds or 0.0 for host in record.hosts)[-2:])


def _row(case: Case, size_bytes: int, measured: Sequence[_Measured]) -> Row:
    first, seconds = measured[0].cell, [each.seconds for each in measured]
    unsure = max(_unsure_seconds(each.record) for each in measured)
    arrival = _median(each.arrival for each in measured)
    sent, by_formula = (
        _median(getattr(each.cell, name) for each in measured) for name in ("sent_bytes", "formula_bytes")
    )
    processor = _median(each.cell.processor_seconds for each in measured)
    return Row(
        case=case,
        size_bytes=size_bytes,
        repetitions=tuple(each.record.repetition for each in measured),
        launch_seconds=tuple(seconds),
        seconds=median_interval(seconds),
        arrival_seconds=None if arrival is None or arrival < unsure else arrival,
        arrival_unknown_below_seconds=unsure,
        sent_bytes_per_rank=None if sent is None else sent / case.workers,
        formula_bytes_per_rank=None if by_formula is None else by_formula / case.workers,
        factor_bytes_per_rank=MEANINGS[Collective(case.collective)].bus_factor(case.workers) * size_bytes,
        processor_seconds_per_byte=None if processor is None or not size_bytes else processor / size_bytes,
        oversubscribed=any(each.record.oversubscribed for each in measured),
        algorithm=first.algorithm,
        formula=first.formula,
        source=first.source,
    )


def _median(values: Iterable[float | None]) -> float | None:
    """Of the launches that know it; None where none does."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _family(family: Sequence[Row], margin: float) -> list[Comparison]:
    """The comparisons between the libraries of these rows."""
    rates = {
        index: {each: 1 / seconds for each, seconds in zip(row.repetitions, row.launch_seconds, strict=True)}
        for index, row in enumerate(family)
    }
    return [
        Comparison(family[each.first], family[each.second], tuple(each.logs), each.judgement)
        for each in judge_all(rates, margin)
    ]
