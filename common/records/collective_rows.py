"""How fast each collective of each library was, what it sent, and who was faster: never averaged over sizes."""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
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
    """Of each of these launches the median over its calls of `transfer_seconds`; of pipelined calls the mean over the
    loop. Over several hosts each is wrong by `arrival_unknown_below_seconds` at most."""
    seconds: Interval
    """Their median."""
    arrival_seconds: float | None
    """By how much the last rank began a call after the first. None where calls are pipelined, where one process begins
    them for all ranks, and where the hosts' clocks can't tell."""
    arrival_unknown_below_seconds: float
    """By how much two hosts' clocks may be apart at most; 0 on one host."""
    sent_bytes_per_rank: float | None
    """Bytes of a call, packet headers included, over the number of ranks; over several hosts from host to host. None
    where nothing counted them."""
    formula_bytes_per_rank: float | None
    """The same by the formula of the library's algorithm; None where there is none."""
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
    arrival_seconds: float | None


def rows(records: Mapping[str, CollectivesRecord]) -> list[Row]:
    """One row for each library, world, collective, size and data type that was measured, in the records' order.

    Cells that a launch finished before it failed count as any others. Each rank's clock is set right by its host's
    offset; launches whose clocks were less sure than the call was short, so that it took no time at all by them, are
    in `missing`.
    """
    groups: dict[tuple[Case, int], list[_Measured]] = {}
    for record in records.values():
        for cell in record.cells:
            if cell.status == "ok" and (measured := _measured(record, cell)).seconds > 0:
                groups.setdefault((_case(record, cell.collective), cell.size_bytes), []).append(measured)
    return [_row(case, size_bytes, measured) for (case, size_bytes), measured in groups.items()]


def missing(records: Mapping[str, CollectivesRecord]) -> list[Missing]:
    """Every cell without a time and every launch that wasn't ok, with the reason, once for all launches that say so."""
    launches: dict[tuple[Case, int | None, str, str], list[int]] = {}
    for record in records.values():
        if record.status != "ok":
            key = (_case(record, ""), None, record.status, record.reason or "")
            launches.setdefault(key, []).append(record.repetition)
    for record in records.values():
        for cell in record.cells:
            status, reason = cell.status, cell.reason or ""
            if status == "ok" and _measured(record, cell).seconds <= 0:
                reason = f"The hosts' clocks may be {_clock_uncertainty(record):.2g} s apart, and it took less."
                status = "failed"
            if status != "ok":
                key = (_case(record, cell.collective), cell.size_bytes, status, reason)
                launches.setdefault(key, []).append(record.repetition)
    return [Missing(*key, repetitions=tuple(repetitions)) for key, repetitions in launches.items()]


def fits(measured: Iterable[Row]) -> list[CaseFit]:
    """Latency and bandwidth of every case with at least three sizes and a launch that measured all of them."""
    by_case: dict[Case, list[Row]] = {}
    for row in measured:
        by_case.setdefault(row.case, []).append(row)
    fitted: list[CaseFit] = []
    for case, of_case in by_case.items():
        of_case.sort(key=lambda row: row.size_bytes)
        launches = [dict(zip(row.repetitions, row.launch_seconds, strict=True)) for row in of_case]
        whole = sorted(set.intersection(*map(set, launches)))
        seconds = np.array([[each[repetition] for repetition in whole] for each in launches])
        if whole and (lines := fit([row.size_bytes for row in of_case], seconds)):
            fitted.append(CaseFit(case, tuple(whole), lines))
    return fitted


def timings(records: Mapping[str, CollectivesRecord], measured: Iterable[Row]) -> list[Timing]:
    """What timing costs each library, beside its shortest call, in the order of the rows of these records."""
    shortest: dict[str, Row] = {}
    for row in measured:
        least = shortest.setdefault(row.case.library, row)
        if row.seconds.median < least.seconds.median:
            shortest[row.case.library] = row
    costs: dict[str, list[float]] = {}
    for record in records.values():
        if any(cell.status == "ok" for cell in record.cells):
            costs.setdefault(record.library, []).append(record.timing_seconds)
    return [Timing(row, statistics.median(costs[library])) for library, row in shortest.items()]


def comparisons(measured: Iterable[Row], margin: float = MARGIN) -> list[Comparison]:
    """Judge every two libraries at the same collective and size in the same world, by `common.statistics.paired`.

    The family over which the errors are held down is all libraries that have this collective at this size there, but
    for those with more threads than cores; the session's plan decided who they are. Pairs that share no round are left
    out.
    """
    families: dict[tuple[Case, int], list[Row]] = {}
    for row in measured:
        if not row.oversubscribed:
            world = dataclasses.replace(row.case, library="", title="")
            families.setdefault((world, row.size_bytes), []).append(row)
    compared: list[Comparison] = []
    for family in families.values():
        rates = {
            place: {each: 1 / seconds for each, seconds in zip(row.repetitions, row.launch_seconds, strict=True)}
            for place, row in enumerate(family)
        }
        for pair in judge_all(rates, margin):
            compared.append(Comparison(family[pair.first], family[pair.second], tuple(pair.logs), pair.judgement))
    return compared


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
    """What a good cell says of its calls, by the clock of the machine that started the launch."""
    if len(record.hosts) > 1:
        # The ranks of a host follow one another.
        each = record.world_size // len(record.hosts)
        ahead = [record.hosts[rank // each].clock_offset_seconds or 0.0 for rank in range(record.world_size)]
        entered, left = (
            [[moment - offset for moment in of_rank] for of_rank, offset in zip(moments, ahead, strict=True)]
            for moments in (cell.entered_seconds, cell.left_seconds)
        )
        cell = structs.replace(cell, entered_seconds=entered, left_seconds=left)
    if record.sweep.pipelined:
        calls = cell.loop_calls * len(cell.left_seconds[0])
        first = min(entered[0] for entered in cell.entered_seconds)
        return _Measured(record, cell, (max(left[-1] for left in cell.left_seconds) - first) / calls, None)
    last_arrivals = [max(of_call) for of_call in zip(*arrival_seconds(cell), strict=True)]
    arrival = statistics.median(last_arrivals) if len(cell.entered_seconds) > 1 else None
    return _Measured(record, cell, statistics.median(transfer_seconds(cell)), arrival)


def _clock_uncertainty(record: CollectivesRecord) -> float:
    """By how many seconds two hosts' clocks may be apart at most once they are set right, whichever two these are."""
    if len(record.hosts) < 2:
        return 0.0
    return sum(sorted(host.clock_uncertainty_seconds or 0.0 for host in record.hosts)[-2:])


def _row(case: Case, size_bytes: int, measured: Sequence[_Measured]) -> Row:
    first, seconds = measured[0].cell, [each.seconds for each in measured]
    uncertainty = max(_clock_uncertainty(each.record) for each in measured)
    arrival = _median(each.arrival_seconds for each in measured)
    sent_bytes = _median(each.cell.sent_bytes for each in measured)
    formula_bytes = _median(each.cell.formula_bytes for each in measured)
    processor = _median(each.cell.processor_seconds for each in measured)
    return Row(
        case=case,
        size_bytes=size_bytes,
        repetitions=tuple(each.record.repetition for each in measured),
        launch_seconds=tuple(seconds),
        seconds=median_interval(seconds),
        arrival_seconds=None if arrival is None or arrival < uncertainty else arrival,
        arrival_unknown_below_seconds=uncertainty,
        sent_bytes_per_rank=None if sent_bytes is None else sent_bytes / case.workers,
        formula_bytes_per_rank=None if formula_bytes is None else formula_bytes / case.workers,
        factor_bytes_per_rank=MEANINGS[Collective(case.collective)].bus_factor(case.workers) * size_bytes,
        processor_seconds_per_byte=None if processor is None or not size_bytes else processor / size_bytes,
        oversubscribed=any(each.record.oversubscribed for each in measured),
        algorithm=first.algorithm,
        formula=first.formula,
        source=first.source,
    )


def _median(values: Iterable[float | None]) -> float | None:
    """The median of those that aren't None; None where all are."""
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers else None
