"""Run a strategy's script, and leave the messages of a step beside its record: the all-reduces of Horovod's timeline.

To start it: `python -m horovod_impl.tracer SCRIPT --trace OPTIONS`. The script stays as it is: what it calls before its
first step and after its last one is replaced in this process alone. Horovod fuses what it finds ready at the same time,
so the sizes may differ from step to step: a step's messages are the most frequent sequence among the traced steps.
"""

from collections import Counter
from collections.abc import Callable

from common.contract.collectives import Collective
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script
from common.records.files import write_record
from common.records.trace import FIRST_STEP, STEPS, Message, Trace, seconds_under_way, trace_path
from horovod_impl import timeline
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from horovod_impl.timeline import Exchange

LIBRARIES = {"gloo": OVER_GLOO, "mpi": OVER_MPI}
"""The libraries by what carries the tensors, as a run's world names it."""


def main() -> None:
    """Run the script that the first argument names, as if it had been started itself."""
    Run.export_with = when_it_can_be_traced(Run.export_with)
    Run.finish = leaving_a_trace(Run.finish)
    run_script()


def when_it_can_be_traced(export_with: Callable[..., None]) -> Callable[..., None]:
    """`Run.export_with`, which comes before the first step, and raises UserError where the timeline won't tell."""

    def check_and_export_with(run: Run, *arguments: object, **named: object) -> None:
        check(run)
        export_with(run, *arguments, **named)

    return check_and_export_with


def check(run: Run) -> None:
    """Raises UserError for a run whose options or world leave no messages that a library of Horovod could replay."""
    if not run.options.trace:
        raise UserError("Horovod's messages are read from its timeline: add --trace.")
    if not run.options.exchange or run.world.size == 1:
        raise UserError("One worker, or --no-exchange, sends nothing that could be replayed: start two or more.")
    if run.options.adasum:
        raise UserError("--adasum: no library of collectives here combines as Adasum does; leave it out.")
    if run.world.backend not in LIBRARIES:
        raise UserError(
            f"{run.world.backend} carries the gradients, and the libraries of Horovod's collectives here are over "
            f"{' and '.join(LIBRARIES)}: add --device cpu."
        )


def leaving_a_trace(finish: Callable[..., None]) -> Callable[..., None]:
    """`Run.finish`, after which rank 0 writes the messages of a step beside the record."""

    def finish_and_trace(run: Run, *arguments: object, **named: object) -> None:
        finish(run, *arguments, **named)
        if run.world.rank == 0:
            exchanges = timeline.exchanges(run.record_path.with_suffix(".trace"))
            library = LIBRARIES[run.world.backend].name
            trace = trace_of(exchanges, strategy=run.strategy.name, workers=run.world.size, library=library)
            write_record(trace_path(run.record_path), trace)

    return finish_and_trace


def trace_of(exchanges: list[Exchange], *, strategy: str, workers: int, library: str) -> Trace:
    """The most frequent messages of the traced steps. Raises UserError where no step is among them."""
    of_steps = [[each for each in exchanges if each.step == step] for step in range(FIRST_STEP, FIRST_STEP + STEPS)]
    traced = [own for own in of_steps if own]
    if not traced:
        raise UserError(f"Horovod's timeline has no all-reduce in step {FIRST_STEP} or later: train more steps.")
    types = sorted({each.data_type for own in traced for each in own})
    if len(types) > 1:
        raise UserError(f"{strategy} exchanges elements of {' and '.join(types)}: a replay sends one type.")
    [(sizes, times)] = Counter(tuple(each.size_bytes for each in own) for own in traced).most_common(1)
    return Trace(
        strategy=strategy,
        workers=workers,
        source=f"Horovod's timeline, as {times} of {len(traced)} steps fused the gradients",
        library=library,
        data_type=types[0],
        messages=[Message(collective=Collective.ALL_REDUCE, size_bytes=size) for size in sizes],
        under_way_seconds=[seconds_under_way([each.span for each in own]) for own in traced],
    )


if __name__ == "__main__":
    main()
