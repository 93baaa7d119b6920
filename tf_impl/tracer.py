"""Run a strategy's script, and leave the messages of a step beside its record: what its graph sends between devices.

To start it: `python -m tf_impl.tracer SCRIPT OPTIONS`. The script stays as it is: what it calls before and after its
first step is replaced in this process alone. TensorFlow compiles the step when it is called first, and runs the same
graph from then on: it is read as optimized, with a device for each operation. It tells no times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from common.contract.collectives import Collective
from common.contract.work import Work
from common.declarations.strategy import has_exchange
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script
from common.records.files import write_record
from common.records.trace import Message, Trace, trace_path
from tf_impl.libraries import COLLECTIVES, REDUCTION_TO_ONE_DEVICE

# TensorFlow itself is imported where it is needed: the script sets what has to be set before that.
if TYPE_CHECKING:
    import tensorflow as tf

ALL_REDUCE = "CollectiveReduceV"
"""How the names of TensorFlow's all-reduces among processes begin; their version follows."""
ADD = "AddN"
"""The operation by which one device adds what others have."""


def main() -> None:
    """Run the script that the first argument names, as if it had been started itself."""
    Run.export_with = collecting_graphs(Run.export_with)
    Run.observe = leaving_a_trace(Run.observe)
    run_script()


def collecting_graphs(export_with: Callable[..., None]) -> Callable[..., None]:
    """`Run.export_with`, which comes before the first step, after which rank 0 keeps the graphs that are compiled.

    Raises UserError where they won't have messages.
    """

    def export_and_collect(run: Run, *arguments: object, **named: object) -> None:
        check(run)
        export_with(run, *arguments, **named)
        if run.world.rank == 0:
            from tensorflow.python.eager import context

            # As tf.summary.trace_on(graph=True) does.
            context.context().enable_graph_collection()

    return export_and_collect


def check(run: Run) -> None:
    """Raises UserError for a run whose graph has no messages, or none that a library of TensorFlow could replay."""
    if run.strategy.work is Work.COORDINATED:
        raise UserError(
            f"{run.strategy.name} reads weights from servers and sends gradients to them in calls over gRPC: there is "
            "no collective that could be replayed."
        )
    if run.world.size == 1:
        raise UserError(f"{run.strategy.name} with one worker sends nothing that could be replayed.")
    if not has_exchange(run.options):
        raise UserError("--no-exchange: the workers send nothing that could be replayed; leave it out.")


def leaving_a_trace(observe: Callable[..., None]) -> Callable[..., None]:
    """`Run.observe`, before which, in the first step, rank 0 writes the messages of a step beside the record."""
    written = False

    def trace_and_observe(run: Run, *arguments: object, **named: object) -> None:
        nonlocal written
        if run.world.rank == 0 and not written:
            from tensorflow.python.eager import context

            compiled = context.context().export_run_metadata().function_graphs
            context.context().disable_graph_collection()
            graphs = [each.post_optimization_graph for each in compiled if may_sum(each.post_optimization_graph)]
            operations = [each for graph in graphs for each in operations_of(graph)]
            write_record(trace_path(run.record_path), trace_of(run, operations))
            written = True
        observe(run, *arguments, **named)

    return trace_and_observe


def may_sum(graph: tf.compat.v1.GraphDef) -> bool:
    """Whether the graph has to be looked at: some of its own TensorFlow can't load, for the names that are in them."""
    return any(node.op == ADD or node.op.startswith(ALL_REDUCE) for node in graph.node)


def operations_of(graph: tf.compat.v1.GraphDef) -> list[tf.Operation]:
    """The operations of a graph, each after those that it waits for, with the shapes that TensorFlow infers."""
    import tensorflow as tf

    loaded = tf.Graph()
    with loaded.as_default():
        tf.import_graph_def(graph, name="")
    return loaded.get_operations()


def trace_of(run: Run, operations: Sequence[tf.Operation]) -> Trace:
    """The messages of a step's operations. Raises UserError where there are none, or not all of their sizes are known.

    Sums of whole numbers, which count rows, belong to no exchange; nor do weights that replicas read from one device,
    since they read them without an exchange as well.
    """
    found = [
        (collective, each.outputs[0]) for collective, each in sums(operations) if each.outputs[0].dtype.is_floating
    ]
    if not found:
        raise UserError(
            f"The graph of {run.strategy.name} over {run.world.backend} has no sum over workers that a library of "
            "TensorFlow's collectives here could replay."
        )
    types = sorted({tensor.dtype.name for _, tensor in found})
    if len(types) > 1:
        raise UserError(f"{run.strategy.name} sums elements of {' and '.join(types)}: a replay sends one type.")
    among_processes = any(tensor.op.type.startswith(ALL_REDUCE) for _, tensor in found)
    library = COLLECTIVES if among_processes else REDUCTION_TO_ONE_DEVICE
    return Trace(
        strategy=run.strategy.name,
        workers=run.world.size,
        source="TensorFlow's graph of the step, optimized",
        library=library.name,
        data_type=types[0],
        messages=[Message(collective=collective, size_bytes=size_bytes(tensor)) for collective, tensor in found],
    )


def sums(operations: Sequence[tf.Operation]) -> list[tuple[Collective, tf.Operation]]:
    """The operations that sum over workers, with what each does, in the order in which they can begin.

    That is the order of the longest chains of operations before them: nothing else orders them.
    """
    depths: dict[tf.Operation, int] = {}
    for operation in operations:
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        # What closes a loop comes later.
        depths[operation] = 1 + max((depths.get(each, 0) for each in before), default=0)
    found: dict[tf.Operation, Collective] = {}
    for operation in sorted(operations, key=depths.__getitem__):
        if operation.type.startswith(ALL_REDUCE):
            found[operation] = Collective.ALL_REDUCE
        elif operation.type == ADD and _adds_what_others_have(operation, found):
            sent_back = any(consumer.device != operation.device for consumer in operation.outputs[0].consumers())
            found[operation] = Collective.ALL_REDUCE if sent_back else Collective.REDUCE
    return [(collective, operation) for operation, collective in found.items()]


def _adds_what_others_have(operation: tf.Operation, sums_before: Collection[tf.Operation]) -> bool:
    """Whether a device adds to what it has what others have: not where it gets a sum, and adds its own weight decay."""
    devices = {tensor.op.device for tensor in operation.inputs if tensor.op not in sums_before}
    return operation.device in devices and len(devices) > 1


def size_bytes(tensor: tf.Tensor) -> int:
    """Raises UserError where TensorFlow can't infer the tensor's shape, as in some loops."""
    elements = tensor.shape.num_elements()
    if elements is None:
        raise UserError(
            f"TensorFlow doesn't tell the size of {tensor.op.name}, which workers exchange: leave --steps-per-call out."
        )
    return elements * tensor.dtype.size


if __name__ == "__main__":
    main()
