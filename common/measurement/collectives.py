"""The laboratory's loop: every call of every rank is clocked, a barrier comes before, NumPy says what it should give.

A library's script makes an `Operation` of each collective, by the library's own idiom; this keeps the clock.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.contract.collectives import Collective, elements_of_rank
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError
from common.measurement import machine, startup
from common.measurement.messages import Messages
from common.measurement.world import World, facts_of
from common.records.collectives import Cell, append_line, cells_path, transfer_seconds
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
"""Makes the operation of a collective, whose ranks put in so many elements each. Of a library that sends both ways it
has a third argument: whether the last rank sends to the first one."""

_Call = Sequence[tuple[Operation, Messages]]
"""What is timed as one call: an operation with what it is given, or those of a step, one after another."""


def measure(
    library: Library,
    sweep: Sweep,
    world: World,
    prepare: Prepare,
    barrier: Callable[[], object],
    facts: Mapping[str, str],
) -> None:
    """Measure every collective of the sweep at every size, and keep each as a line beside the sweep's record.

    Where the sweep has a step's messages they are measured in place of these, as one cell. `world.size` is the number
    of ranks, of which this process has one, or all where the library has them in one process. Raises LaunchFailedError
    where a library gave a wrong result: what came before is kept.
    """
    if world.rank == 0 and sweep.record:
        append_line(cells_path(sweep.record), _about(library, world, facts))
    for known, messages in _planned(sweep):
        cell = _cell(library, sweep, world, prepare, barrier, known, messages)
        if world.rank == 0:
            if sweep.record:
                append_line(cells_path(sweep.record), cell)
            print(in_words(cell), flush=True)
        if cell.status == "failed":
            raise LaunchFailedError(str(cell.reason))
    if world.rank == 0 and sweep.record:
        append_line(cells_path(sweep.record), {"elapsed_seconds": startup.seconds_since_start()})


def in_words(cell: Cell) -> str:
    """One line on a cell, with the median over its calls of `transfer_seconds`."""
    about = f"{cell.collective:<14} {cell.size_bytes:>12,} B"
    if cell.status != "ok":
        return f"{about}  {cell.status}: {cell.reason}"
    seconds, calls = statistics.median(transfer_seconds(cell)), cell.loop_calls * len(cell.entered_seconds[0])
    return f"{about}  {1e6 * seconds:>12,.1f} us  ({calls} calls)"


def _about(library: Library, world: World, facts: Mapping[str, str]) -> dict[str, object]:
    """The fields of a record that only its first rank knows."""
    told = site()
    return {
        **(told.facts() if told else {}),
        **facts_of(world, library.family.packages),
        "facts": dict(facts),
        "timing_seconds": _timing_seconds(),
    }


def _planned(sweep: Sweep) -> list[tuple[dict[str, object], list[Message]]]:
    """What tells each cell from the others, and its messages: one, or all of a step."""
    if sweep.messages:
        messages = read_trace(sweep.messages).messages
        size_bytes = sum(each.size_bytes for each in messages)
        return [({"collective": STEP, "size_bytes": size_bytes, "messages": messages}, messages)]
    sizes = {each: [0] if each == Collective.BARRIER else sweep.size_bytes for each in sweep.collectives}
    return [
        ({"collective": str(each), "size_bytes": size}, [Message(collective=str(each), size_bytes=size)])
        for each in sweep.collectives
        for size in sizes[each]
    ]


def _cell(
    library: Library,
    sweep: Sweep,
    world: World,
    prepare: Prepare,
    barrier: Callable[[], object],
    known: Mapping[str, object],
    messages: Sequence[Message],
) -> Cell:
    reasons = [refusal(library, sweep, each, world.size) for each in messages]
    if reason := next(filter(None, reasons), None):
        return Cell(**known, status="unsupported", reason=reason)
    call = [_prepared(sweep, world, prepare, each, sweep.seed + place) for place, each in enumerate(messages)]
    ranks = [*range(world.size)] if library.one_process else [world.rank]
    mine, wrong = _timed(sweep, call, barrier, ranks)
    loop_calls = sweep.iterations if sweep.pipelined else 1
    counted = _counted(world, call, mine, loop_calls)
    # Of ranks in one process it is that process's alone.
    times, wrongs, counts = zip(*world.all_gather((mine, wrong, counted)), strict=True)
    if wrong := next(filter(None, wrongs), None):
        return Cell(**known, status="failed", reason=f"{library.title}: {wrong}.")
    # All by the first rank's first moment, so that the numbers are small; hosts' clocks stay as they are.
    start = times[0][0][0]
    return Cell(
        **known,
        **_costs(counts),
        **_by_formula(library, messages, world.size),
        status="ok",
        loop_calls=loop_calls,
        entered_seconds=[[(entered - start) / 1e9 for entered, _ in calls] for calls in times],
        left_seconds=[[(left - start) / 1e9 for _, left in calls] for calls in times],
    )


def _prepared(sweep: Sweep, world: World, prepare: Prepare, message: Message, seed: int) -> tuple[Operation, Messages]:
    collective = Collective(message.collective)
    messages = Messages(collective, message.size_bytes, sweep.data_type, world.size, seed, message.backwards)
    turned = (True,) if message.backwards else ()
    return prepare(collective, messages.elements, *turned), messages


def _run_of(call: _Call) -> Callable[[], object]:
    """What is timed: the one operation itself, so that nothing comes on top of it."""
    runs = [operation.run for operation, _ in call]

    def run() -> None:
        for each in runs:
            each()

    return runs[0] if len(runs) == 1 else run


def _costs(counts: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """The fields of a cell on what its calls cost, from what every process has counted."""
    calls = counts[0]["calls"]
    sent = [each["sent_bytes"] for each in counts if each["sent_bytes"] is not None]
    return {
        "counted_calls": calls,
        "sent_bytes": sum(sent) / calls if sent else None,
        "processor_seconds": sum(each["processor_seconds"] for each in counts) / calls,
    }


def _by_formula(library: Library, messages: Sequence[Message], ranks: int) -> dict[str, object]:
    """The fields of a cell on the library's algorithms."""
    algorithms, told = [library.algorithm(each.collective, each.size_bytes) for each in messages], site()
    # Of several hosts only what goes from host to host is counted, and the formula has what goes from rank to rank.
    is_counted = told is None or len(told.hosts) in (1, ranks)
    sent_bytes = None
    if is_counted and all(algorithm.sent_bytes for algorithm in algorithms):
        pairs = zip(algorithms, messages, strict=True)
        sent_bytes = sum(algorithm.sent_bytes(each.size_bytes, ranks) for algorithm, each in pairs)
    return {
        "formula_bytes": sent_bytes,
        "algorithm": "; ".join(dict.fromkeys(each.name for each in algorithms)),
    }


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


def _timed(
    sweep: Sweep, call: _Call, barrier: Callable[[], object], ranks: list[int]
) -> tuple[list[tuple[int, int]], str | None]:
    """When this process began and left each timed call, in nanoseconds, and what was wrong with a result, if anything.

    All calls are made even where one was wrong, since the other ranks make theirs.
    """
    run = _run_of(call)
    if sweep.pipelined:
        _load(call, ranks, 0)
        return _one_after_the_other(sweep, run), None
    moments, wrong = [], None
    for number in range(sweep.warmup_iterations + sweep.iterations):
        _load(call, ranks, number)
        barrier()
        moment = _clocked(run)
        if number < sweep.warmup_iterations:
            continue
        moments.append(moment)
        if sweep.check and wrong is None:
            found = (_what_is_wrong(operation, messages, ranks, number) for operation, messages in call)
            wrong = next(filter(None, found), None)
    return moments, wrong


def _load(call: _Call, ranks: list[int], number: int) -> None:
    for operation, messages in call:
        operation.load([messages.of(rank, number) for rank in ranks])


def _clocked(run: Callable[[], object]) -> tuple[int, int]:
    """When one call began and ended, in nanoseconds: by the clock that counts from the machine's boot, which nobody
    sets, and which hosts compare.
    """
    now, clock = time.clock_gettime_ns, time.CLOCK_BOOTTIME
    entered = now(clock)
    run()
    return entered, now(clock)


def _one_after_the_other(sweep: Sweep, run: Callable[[], object]) -> list[tuple[int, int]]:
    """When a loop of nothing but calls began and ended."""
    now, clock = time.clock_gettime_ns, time.CLOCK_BOOTTIME
    for _ in range(sweep.warmup_iterations):
        run()
    started = now(clock)
    for _ in range(sweep.iterations):
        run()
    return [(started, now(clock))]


def _what_is_wrong(operation: Operation, messages: Messages, ranks: list[int], call: int) -> str | None:
    for rank, result in zip(ranks, operation.results(), strict=True):
        expected = messages.expected(rank, call)
        if expected is None or (result is not None and np.array_equal(result, expected)):
            continue
        about = f"{messages.collective} of {messages.size_bytes:,} bytes among {messages.ranks} ranks"
        if result is None or result.shape != expected.shape:
            return f"{about} left rank {rank} without its result"
        places = np.flatnonzero(result != expected)
        first = places[0]
        return (
            f"{about} gave rank {rank} {len(places):,} of {len(expected):,} elements wrong; element {first} is "
            f"{result[first]:g} where {expected[first]:g} belongs"
        )
    return None


def _counted(world: World, call: _Call, moments: list[tuple[int, int]], loop_calls: int) -> dict[str, float | None]:
    """What calls one right after the other take of the network and of this process's processor time.

    Meetings of the ranks before and after send something too, which as many meetings without calls tell.
    """
    interface, run = machine.counted_interface(), _run_of(call)
    counts = interface is not None and _is_first_on_host(world)
    typical = statistics.median(left - entered for entered, left in moments) / loop_calls / 1e9
    [calls, *_] = world.all_gather(max(1, min(_MOST_COUNTED, int(_COUNTED_SECONDS / max(typical, 1e-9)))))
    sent, processor = [], []
    for repetitions in (0, calls):
        world.all_gather(None)
        before, processor_before = machine.bytes_sent(interface) if counts else 0, time.process_time()
        world.all_gather(None)
        for _ in range(repetitions):
            run()
        processor.append(time.process_time() - processor_before)
        world.all_gather(None)
        sent.append((machine.bytes_sent(interface) if counts else 0) - before)
    return {
        "calls": calls,
        "sent_bytes": max(sent[1] - sent[0], 0) if counts else None,
        "processor_seconds": max(processor[1] - processor[0], 0.0),
    }


def _is_first_on_host(world: World) -> bool:
    """Whether this rank counts its host's bytes: the ranks of a host follow one another."""
    told = site()
    hosts = len(told.hosts) if told else 1
    return world.rank % (world.size // hosts) == 0


def _timing_seconds() -> float:
    """What `_clocked` takes of a call that does nothing: the median."""
    moments = [_clocked(lambda: None) for _ in range(_EMPTY_CALLS)]
    return statistics.median(left - entered for entered, left in moments) / 1e9
