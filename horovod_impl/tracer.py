"""Run a strategy's script, and write the messages of a step beside its record: the all-reduces of Horovod's timeline.

To start it: `python -m horovod_impl.tracer SCRIPT --trace OPTIONS`. The script stays as it is: this process alone
replaces `Run.export_with` and `Run.finish`. Horovod fuses gradients that are ready at the same time, so the sizes may
differ from step to step. The trace has the most frequent sequence of messages among the traced steps.
"""

from collections import Counter

from common.contract.collective_meanings import Collective
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script
from common.records.files import write_record
from common.records.trace import FIRST_STEP, STEPS, Message, Trace, seconds_under_way, trace_path
from horovod_impl import timeline
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from horovod_impl.timeline import Exchange

LIBRARIES = {"gloo": OVER_GLOO, "mpi": OVER_MPI}
"""Libraries of collectives by the backend of a run's world."""


def main() -> None:
    """Run the script that the first argument names, as if the user had started that script."""
    export_with, finish = Run.export_with, Run.finish

    def check_and_export_with(run: Run, *arguments: object, **named: object) -> None:
        # Scripts call this before the first step.
        check(run)
        export_with(run, *arguments, **named)

    def finish_and_trace(run: Run, *arguments: object, **named: object) -> None:
        finish(run, *arguments, **named)
        if run.world.rank == 0:
            exchanges = timeline.exchanges(run.record_path.with_suffix(".trace"))
            library = LIBRARIES[run.world.backend].name
            trace = trace_of(exchanges, strategy=run.strategy.name, workers=run.world.size, library=library)
            write_record(trace_path(run.record_path), trace)

    Run.export_with, Run.finish = check_and_export_with, finish_and_trace
    run_script()


def check(run: Run) -> None:
    """Raise UserError for a run whose options or world leave no messages that a library of Horovod could replay."""
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


def trace_of(exchanges: list[Exchange], *, strategy: str, workers: int, library: str) -> Trace:
    """The most frequent sequence of messages of the traced steps. Raises UserError without a traced step."""
    traced_range = range(FIRST_STEP, FIRST_STEP + STEPS)
    steps = [[exchange for exchange in exchanges if exchange.step == number] for number in traced_range]
    steps = [step for step in steps if step]
    if not steps:
        raise UserError(f"Horovod's timeline has no all-reduce in step {FIRST_STEP} or later: train more steps.")
    types = sorted({exchange.data_type for step in steps for exchange in step})
    if len(types) > 1:
        raise UserError(f"{strategy} exchanges elements of {' and '.join(types)}: a replay sends one type.")
    [(sizes, times)] = Counter(tuple(exchange.size_bytes for exchange in step) for step in steps).most_common(1)
    return Trace(
        strategy=strategy,
        workers=workers,
        source=f"Horovod's timeline, as {times} of {len(steps)} steps fused the gradients",
        library=library,
        data_type=types[0],
        messages=[Message(collective=Collective.ALL_REDUCE, size_bytes=size) for size in sizes],
        under_way_seconds=[seconds_under_way([exchange.span for exchange in step]) for step in steps],
    )


if __name__ == "__main__":
    main()
