"""The laboratory's loop: a barrier before every call, a clock around it, and NumPy to say what it should give."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from common.contract.collective_meanings import Collective, Messages, elements_of_rank
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError
from common.measurement import machine, startup
from common.measurement.world import World, facts_of
from common.records.collective_times import Cell, append_line, cells_path, transfer_seconds
from common.records.site import site
from common.records.trace import STEP, Message, read_trace

_COUNTED_SECONDS, _MOST_COUNTED = 0.2, 200
"""About how long the calls take over which bytes are counted, and how many they are at most."""

_EMPTY_CALLS = 1000


@dataclass(frozen=True)
class Operation:
    """One collective at one size in one process, in memory of its own."""

    load: Callable[[list[np.ndarray]], object]
    """Puts in what the ranks of this process send in the next call: one array for each of them. Outside the clock."""
    run: Callable[[], object]
    """The call. It returns when the results of this process's ranks are there."""
    results: Callable[[], list[np.ndarray | None]]
    """What each rank of this process has after a call. Outside the clock."""


Prepare = Callable[..., Operation]
"""Makes the operation of a collective from how many elements each rank puts in; where a library sends both ways, also
from whether the last rank sends to the first one."""


@dataclass(frozen=True)
class _Call:
    """What is timed as one call: an operation with what it is given, or those of a step, one after another."""

    parts: Sequence[tuple[Operation, Messages]]
    ranks: Sequence[int]
    """Those of this process."""

    def load(self, number: int) -> None:
        for operation, messages in self.parts:
            operation.load([messages.of(rank, number) for rank in self.ranks])

    def timed(self) -> Callable[[], object]:
        """What is timed: the one operation itself, so that nothing comes on top of it."""
        runs = [operation.run for operation, _ in self.parts]

        def run_all() -> None:
            for run in runs:
                run()

        return runs[0] if len(runs) == 1 else run_all

    def error(self, number: int) -> str | None:
        """What is wrong with the first wrong result of this call; None where all are right."""
        for operation, messages in self.parts:
            for rank, result in zip(self.ranks, operation.results(), strict=True):
                expected = messages.expected(rank, number)
                if expected is None or (result is not None and np.array_equal(result, expected)):
                    continue
                about = f"{messages.collective} of {messages.size_bytes:,} bytes among {messages.ranks} ranks"
                if result is None or result.shape != expected.shape:
                    return f"{about} left rank {rank} without its result"
                places = np.flatnonzero(result != expected)
                return (
                    f"{about} gave rank {rank} {len(places):,} of {len(expected):,} elements wrong; element "
                    f"{places[0]} is {result[places[0]]:g} where {expected[places[0]]:g} belongs"
                )
        return None


@dataclass(frozen=True)
class _Counted:
    """What calls one right after the other took of the network and of this process's processor time."""

    calls: int
    sent_bytes: int | None
    processor_seconds: float


def measure(
    library: Library,
    sweep: Sweep,
    world: World,
    prepare: Prepare,
    barrier: Callable[[], object],
    facts: Mapping[str, str],
) -> None:
    """Measure every collective of the sweep at every size, or a step's messages; keep each as a line beside the record.

    `world.size` is the number of ranks, of which this process has one, or all where the library has them in one
    process. Raises LaunchFailedError where a library gave a wrong result: what came before is kept.
    """
    lines = cells_path(sweep.record) if world.rank == 0 and sweep.record else None
    if lines:
        launch_site = site()
        hosts = launch_site.facts() if launch_site else {}
        empty_calls = [_clocked(lambda: None) for _ in range(_EMPTY_CALLS)]
        timing_seconds = statistics.median(left - entered for entered, left in empty_calls) / 1e9
        about = {"facts": dict(facts), "timing_seconds": timing_seconds}
        append_line(lines, hosts | facts_of(world, library.family.packages) | about)
    for planned in _planned(sweep):
        cell = _cell(library, sweep, world, prepare, barrier, planned)
        if lines:
            append_line(lines, cell)
        if world.rank == 0:
            words = f"{cell.status}: {cell.reason}"
            if cell.status == "ok":
                calls = len(cell.entered_seconds[0])
                words = f"{1e6 * statistics.median(transfer_seconds(cell)):>12,.1f} us  ({calls} calls)"
            print(f"{cell.collective:<14} {cell.size_bytes:>12,} B  {words}", flush=True)
        if cell.status == "failed":
            raise LaunchFailedError(str(cell.reason))
    if lines:
        append_line(lines, {"elapsed_seconds": startup.seconds_since_start()})


def _planned(sweep: Sweep) -> list[Cell]:
    """The cells that are to be measured; only a step's has its messages."""
    if sweep.messages:
        messages = read_trace(sweep.messages).messages
        size_bytes = sum(each.size_bytes for each in messages)
        return [Cell(collective=STEP, size_bytes=size_bytes, status="ok", messages=messages)]
    sizes = {each: [0] if each == Collective.BARRIER else sweep.size_bytes for each in sweep.collectives}
    return [
        Cell(collective=str(each), size_bytes=size, status="ok") for each in sweep.collectives for size in sizes[each]
    ]


def _cell(
    library: Library, sweep: Sweep, world: World, prepare: Prepare, barrier: Callable[[], object], planned: Cell
) -> Cell:
    """The planned cell with what was measured."""
    parts = planned.messages or [Message(collective=planned.collective, size_bytes=planned.size_bytes)]
    if reason := next(filter(None, (refusal(library, sweep, each, world.size) for each in parts)), None):
        return structs.replace(planned, status="unsupported", reason=reason)
    prepared: list[tuple[Operation, Messages]] = []
    for seed, each in enumerate(parts, start=sweep.seed):
        collective = Collective(each.collective)
        messages = Messages(collective, each.size_bytes, sweep.data_type, world.size, seed, each.backwards)
        turned = (True,) if each.backwards else ()
        prepared.append((prepare(collective, messages.elements, *turned), messages))
    call = _Call(prepared, range(world.size) if library.one_process else [world.rank])
    moments, error = _timed(sweep, call, barrier)
    # Of ranks in one process it is that process's alone.
    gathered = world.all_gather((moments, error, _counted(world, call.timed(), moments)))
    if error := next((error for _, error, _ in gathered if error), None):
        return structs.replace(planned, status="failed", reason=f"{library.title}: {error}.")
    # All by the first rank's first moment, so that the numbers are small; hosts' clocks stay as they are.
    start = gathered[0][0][0][0]
    calls = gathered[0][2].calls
    sent = [counted.sent_bytes for *_, counted in gathered if counted.sent_bytes is not None]
    algorithms = list(filter(None, (library.algorithm(each.collective, each.size_bytes) for each in parts)))
    formulas = [
        algorithm.sent_bytes and algorithm.sent_bytes(each.size_bytes, world.size)
        for algorithm, each in zip(algorithms, parts, strict=True)
    ]
    # Of several hosts only what goes from host to host is counted, and the formula has what goes from rank to rank.
    launch_site = site()
    is_counted = launch_site is None or len(launch_site.hosts) in (1, world.size)
    return structs.replace(
        planned,
        entered_seconds=[[(entered - start) / 1e9 for entered, _ in calls] for calls, *_ in gathered],
        left_seconds=[[(left - start) / 1e9 for _, left in calls] for calls, *_ in gathered],
        counted_calls=calls,
        sent_bytes=sum(sent) / calls if sent else None,
        processor_seconds=sum(counted.processor_seconds for *_, counted in gathered) / calls,
        formula_bytes=None if not is_counted or None in formulas else sum(filter(None, formulas)),
        algorithm="; ".join(dict.fromkeys(each.name for each in algorithms)),
    )


def refusal(library: Library, sweep: Sweep, message: Message, ranks: int) -> str | None:
    """Why the library can't do this, in one sentence; None where it can."""
    collective, size_bytes = Collective(message.collective), message.size_bytes
    if message.backwards and not library.both_ways:
        return f"{library.title} isn't told here to send from the last rank to the first one."
    if collective not in library.collectives:
        return library.lacks.get(collective, f"{library.title} has no {collective}.")
    if sweep.data_type not in library.types:
        return f"{library.title} can't send {sweep.data_type}: give one of {', '.join(library.types)}."
    if elements_of_rank(collective, size_bytes, np.dtype(sweep.data_type).itemsize, ranks) is None:
        return f"{size_bytes:,} bytes of {sweep.data_type} can't be divided among {ranks} ranks."
    return None


def _timed(sweep: Sweep, call: _Call, barrier: Callable[[], object]) -> tuple[list[tuple[int, int]], str | None]:
    """When this process began and left each timed call, in nanoseconds, and what was wrong with a result, if anything.

    All calls are made even where one was wrong, since the other ranks make theirs.
    """
    run = call.timed()
    moments: list[tuple[int, int]] = []
    error = None
    for number in range(sweep.warmup_iterations + sweep.iterations):
        call.load(number)
        barrier()
        clocked = _clocked(run)
        if number < sweep.warmup_iterations:
            continue
        moments.append(clocked)
        if sweep.check and error is None:
            error = call.error(number)
    return moments, error


def _clocked(run: Callable[[], object]) -> tuple[int, int]:
    """When a call began and ended, in nanoseconds: by the clock that counts from the machine's boot, which nobody sets,
    and which hosts compare.
    """
    now, clock = time.clock_gettime_ns, time.CLOCK_BOOTTIME
    entered = now(clock)
    run()
    return entered, now(clock)


def _counted(world: World, run: Callable[[], object], moments: list[tuple[int, int]]) -> _Counted:
    """Count over calls one right after the other.

    Meetings of the ranks before and after send something too, which as many meetings without calls tell. The ranks of
    a host follow one another, and the first of them counts its host's bytes.
    """
    launch_site, interface = site(), machine.counted_interface()
    if world.rank % (world.size // (len(launch_site.hosts) if launch_site else 1)):
        interface = None
    typical = statistics.median(left - entered for entered, left in moments) / 1e9
    [calls, *_] = world.all_gather(max(1, min(_MOST_COUNTED, int(_COUNTED_SECONDS / max(typical, 1e-9)))))
    sent: list[int] = []
    processor: list[float] = []
    for repetitions in (0, calls):
        world.all_gather(None)
        before, processor_before = machine.bytes_sent(interface) if interface else 0, time.process_time()
        world.all_gather(None)
        for _ in range(repetitions):
            run()
        processor.append(time.process_time() - processor_before)
        world.all_gather(None)
        sent.append((machine.bytes_sent(interface) if interface else 0) - before)
    sent_bytes = max(sent[1] - sent[0], 0) if interface else None
    return _Counted(calls, sent_bytes, max(processor[1] - processor[0], 0.0))
