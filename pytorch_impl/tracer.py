"""Run a strategy's script under the torch profiler, and write the messages of a step (`common.records.trace`).

To start it: `python -m pytorch_impl.tracer SCRIPT OPTIONS`. The script stays as it is: this process alone replaces
`Run.observe`. Every rank is profiled, so that all ranks are slowed alike. The first rank writes.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from common.contract.collective_meanings import MEANINGS, Collective
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script
from common.records.files import write_record
from common.records.trace import FIRST_STEP, STEPS, Message, Trace, seconds_under_way, trace_path
from pytorch_impl.libraries import GLOO, NCCL

LIBRARIES = {"gloo": GLOO, "nccl": NCCL}
"""Libraries of collectives by torch's backend, whose name is the prefix of its calls' names."""

BETWEEN_STEPS = "lockstep: between steps"
"""The profiler's event between a step and the next step."""

# Names of calls in ProcessGroupGloo.cpp and ProcessGroupNCCL.cpp (torch/csrc/distributed/c10d). Scatter isn't among
# them: one backend reports the size of the whole, the other that of a part. Nor are calls that join several.
_COLLECTIVES = {
    "send": Collective.SEND_RECEIVE,
    "recv": Collective.SEND_RECEIVE,
    "broadcast": Collective.BROADCAST,
    "gather": Collective.GATHER,
    "all_gather": Collective.ALL_GATHER,
    "_all_gather_base": Collective.ALL_GATHER,
    "reduce": Collective.REDUCE,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "_reduce_scatter_base": Collective.REDUCE_SCATTER,
    "all_reduce": Collective.ALL_REDUCE,
    "all_to_all": Collective.ALL_TO_ALL,
    "barrier": Collective.BARRIER,
    "all_reduce_barrier": Collective.BARRIER,
}

_REDUCTIONS = (Collective.REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE)

# NumPy's names of torch's C++ types.
_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "int": "int32",
    "long int": "int64",
}


@dataclass(frozen=True)
class Event:
    """A call in the profiler's trace: its tensors' shapes and types, its begin and its end."""

    name: str
    begin_ns: int
    end_ns: int
    shapes: Sequence[Sequence[int]] = ()
    types: Sequence[str] = ()

    @property
    def function(self) -> str:
        """The name less the backend's and, as NCCL has them, the ranks of a message: `send` of `nccl:send 0->1`."""
        return self.name.partition(":")[2].partition(" ")[0]


def main() -> None:
    """Run the script that the first argument names, as if the user had started that script."""
    Run.observe = with_profiler(Run.observe)
    run_script()


def with_profiler(observe: Callable[..., None]) -> Callable[..., None]:
    """A `Run.observe` that also profiles the steps to trace, and writes the trace after the last of them.

    It raises UserError where there is nothing to trace, after the first step where possible.
    """
    observed, profiler = 0, None

    def observe_profiled(run: Run, *arguments: object, **named: object) -> None:
        nonlocal observed, profiler
        # Imported here, since the script itself reports in one line that torch is missing.
        from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function

        observed += 1
        if observed == 1:
            refuse_early(run)
        with record_function(BETWEEN_STEPS):
            observe(run, *arguments, **named)
        if observed == FIRST_STEP - 1:
            # All threads: after a long call PowerSGD's hook goes on in one of Gloo's threads.
            config = _ExperimentalConfig(profile_all_threads=True)
            profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True, experimental_config=config)
            profiler.start()
        elif observed == FIRST_STEP - 1 + STEPS:
            profiler.stop()
            events = profiler.profiler.kineto_results.events()
            calls = [
                Event(each.name(), each.start_ns(), each.end_ns(), each.shapes(), each.dtypes()) for each in events
            ]
            # Every rank makes the trace of its own calls, so that all ranks refuse the same strategies.
            trace = trace_of(run.strategy.name, run.world.size, run.world.backend, calls)
            if run.world.rank == 0:
                write_record(trace_path(run.record_path), trace)

    return observe_profiled


def refuse_early(run: Run) -> None:
    """Raise UserError where torch.distributed carries nothing, or the launch has too few steps."""
    name, workers, backend = run.strategy.name, run.world.size, run.world.backend
    if backend.startswith("mpi"):
        raise UserError(f"{name} sends by mpi4py, which the torch profiler doesn't see: leave --backend mpi out.")
    if backend not in LIBRARIES or workers == 1:
        work = "copies tensors" if workers > 1 else "computes"
        raise UserError(f"{name} {work} within one process: torch.distributed carries nothing that could be replayed.")
    steps, needed = run.task.steps - run.first_step, FIRST_STEP - 1 + STEPS
    if steps < needed:
        raise UserError(f"Messages are traced up to step {needed}, but this launch has {steps}: give it more --steps.")


def trace_of(strategy: str, workers: int, backend: str, events: Iterable[Event]) -> Trace:
    """The trace of a strategy, made from the profiler's events on one rank in the steps to trace.

    Raises UserError where there are no messages, or messages that can't be replayed.
    """
    steps = steps_of(events, backend)
    data_type = data_type_of(strategy, [call for step in steps for call in step])
    # Gloo's threads may begin two calls in either order. Mostly they keep the order in which the calls were issued.
    sequences = Counter(tuple(message_of(call, workers) for call in step) for step in steps)
    [(messages, _), *_] = sequences.most_common(1)
    if any(Counter(sequence) != Counter(messages) for sequence in sequences):
        raise UserError(f"{strategy} sends other messages in some steps than in others: no one step stands for all.")
    under_way = []
    # Over NCCL a call ends for the profiler once it is queued on the GPU (ProcessGroupNCCL.cpp, markCompleted).
    for step in steps if backend == "gloo" else []:
        # Relative to the first call's begin: a float can't hold the nanoseconds since 1970.
        start = step[0].begin_ns
        spans = [((call.begin_ns - start) / 1e9, (call.end_ns - start) / 1e9) for call in step]
        under_way.append(seconds_under_way(spans))
    return Trace(
        strategy=strategy,
        workers=workers,
        source="the torch profiler",
        library=LIBRARIES[backend].name,
        data_type=data_type,
        messages=list(messages),
        under_way_seconds=under_way,
    )


def steps_of(events: Iterable[Event], backend: str) -> list[list[Event]]:
    """The backend's calls of each step, in the order in which they began.

    Leaves out calls between two steps, and calls with empty tensors, which send nothing. A barrier has no tensors.
    """
    ordered = sorted(events, key=lambda event: event.begin_ns)
    calls = [event for event in ordered if event.name.startswith(f"{backend}:")]
    calls = [call for call in calls if not call.shapes or any(math.prod(shape) for shape in call.shapes)]
    gaps = [Event(BETWEEN_STEPS, 0, 0), *(event for event in ordered if event.name == BETWEEN_STEPS)]
    return [
        [call for call in calls if before.end_ns <= call.begin_ns < after.begin_ns]
        for before, after in itertools.pairwise(gaps)
    ]


def data_type_of(strategy: str, calls: Sequence[Event]) -> str:
    """NumPy's name of the type in which all calls can be replayed: the type of the elements that are summed, if any.

    Calls without a sum only move bytes, so their type doesn't matter. Raises UserError where nothing is sent, where
    sums have several types, and for an unknown type.
    """
    all_types = {kind for call in calls for kind in call.types}
    if not all_types:
        raise UserError(f"{strategy} sent nothing in the steps that were traced: there is nothing to replay.")
    summed_types = {kind for call in calls for kind in call.types if collective_of(call) in _REDUCTIONS}
    types = summed_types or all_types
    if len(types) != 1 or not all_types <= _TYPES.keys():
        names = " and ".join(sorted(all_types))
        raise UserError(f"{strategy} sends elements of {names}, but a replay sends one type of {', '.join(_TYPES)}.")
    return _TYPES[types.pop()]


def collective_of(call: Event) -> Collective:
    """The collective of a call. Raises UserError for an unknown call."""
    if call.function not in _COLLECTIVES:
        raise UserError(f"{call.name} is a call that the tracer doesn't know: it knows {', '.join(_COLLECTIVES)}.")
    return _COLLECTIVES[call.function]


def message_of(call: Event, workers: int) -> Message:
    """The message that a call sent. Raises UserError for an unknown call, or one that not all ranks can send."""
    collective = collective_of(call)
    if collective is Collective.SEND_RECEIVE and workers > 2:
        raise UserError("Workers who send to one another send different messages: trace this strategy with 2 workers.")
    size_bytes = 0
    if collective is not Collective.BARRIER:
        sizes = [
            math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
            for shape, kind in zip(call.shapes, call.types, strict=True)
        ]
        size_bytes = sum(sizes) * (workers if MEANINGS[collective].parts_in else 1)
    return Message(collective=collective.value, size_bytes=size_bytes, backwards=call.function == "recv")


if __name__ == "__main__":
    main()
