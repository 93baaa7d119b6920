"""Run a strategy's script, and write the messages of a step beside its record: the tensors between its graph's devices.

To start it: `python -m tf_impl.tracer SCRIPT OPTIONS`. The script stays as it is: this process alone replaces
`Run.export_with` and `Run.observe`. TensorFlow compiles the step at the first call, and runs the same graph from then
on. The tracer reads the optimized graph, which has a device for each operation and no times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from common.contract.collective_meanings import Collective
from common.contract.work import Work
from common.declarations.strategy import has_exchange
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script, writing_the_trace
from common.records.trace import Message, Trace
from tf_impl.libraries import COLLECTIVES, REDUCTION_TO_ONE_DEVICE

# Functions import TensorFlow themselves, since the script makes its settings before it imports TensorFlow.
if TYPE_CHECKING:
    import tensorflow as tf

ALL_REDUCE = "CollectiveReduceV"
"""The prefix of the names of TensorFlow's all-reduces among processes; a version follows."""
ADD = "AddN"
"""The operation by which one device adds the tensors of others."""


def main() -> None:
    """Run the script that the first argument names, as if the user had started that script."""
    Run.export_with = collecting_graphs(Run.export_with)
    Run.observe = writing_the_trace(Run.observe, lambda run: trace_of(run, operations_of_step()))
    run_script()


def collecting_graphs(export_with: Callable[..., None]) -> Callable[..., None]:
    """A `Run.export_with` after which rank 0 collects the graphs that TensorFlow compiles.

    Scripts call `export_with` before the first step. Raises UserError where the graphs won't have messages.
    """

    def export_and_collect(run: Run, *arguments: object, **named: object) -> None:
        check(run)
        export_with(run, *arguments, **named)
        if run.world.rank == 0:
            from tensorflow.python.eager import context

            # Like tf.summary.trace_on(graph=True).
            context.context().enable_graph_collection()

    return export_and_collect


def check(run: Run) -> None:
    """Raise UserError for a run whose graph has no messages, or none that a library of TensorFlow could replay."""
    if run.strategy.work is Work.COORDINATED:
        raise UserError(
            f"{run.strategy.name} reads weights from servers and sends gradients to them in calls over gRPC: there is "
            "no collective that could be replayed."
        )
    if run.world.size == 1:
        raise UserError(f"{run.strategy.name} with one worker sends nothing that could be replayed.")
    if not has_exchange(run.options):
        raise UserError("--no-exchange: the workers send nothing that could be replayed; leave it out.")


def operations_of_step() -> list[tf.Operation]:
    """The operations of the graphs that were collected, each after its inputs, with the shapes that TensorFlow infers.

    No more graphs are collected then.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    compiled = context.context().export_run_metadata().function_graphs
    context.context().disable_graph_collection()
    operations: list[tf.Operation] = []
    for graph in [each.post_optimization_graph for each in compiled]:
        # TensorFlow can't load all of its own graphs, for the names in them: others than these have no sum.
        if any(node.op == ADD or node.op.startswith(ALL_REDUCE) for node in graph.node):
            loaded = tf.Graph()
            with loaded.as_default():
                tf.import_graph_def(graph, name="")
            operations += loaded.get_operations()
    return operations


def trace_of(run: Run, operations: Sequence[tf.Operation]) -> Trace:
    """The messages of a step's operations. Raises UserError without messages, and where a size is unknown.

    Sums of whole numbers count rows and belong to no exchange. Nor do weights that replicas read from one device:
    replicas read those with gradient exchange off as well.
    """
    tensors = [(collective, operation.outputs[0]) for collective, operation in sums(operations)]
    tensors = [(collective, tensor) for collective, tensor in tensors if tensor.dtype.is_floating]
    if not tensors:
        raise UserError(
            f"The graph of {run.strategy.name} over {run.world.backend} has no sum over workers that a library of "
            "TensorFlow's collectives here could replay."
        )
    types = sorted({tensor.dtype.name for _, tensor in tensors})
    if len(types) > 1:
        raise UserError(f"{run.strategy.name} sums elements of {' and '.join(types)}: a replay sends one type.")
    among_processes = any(tensor.op.type.startswith(ALL_REDUCE) for _, tensor in tensors)
    library = COLLECTIVES if among_processes else REDUCTION_TO_ONE_DEVICE
    return Trace(
        strategy=run.strategy.name,
        workers=run.world.size,
        source="TensorFlow's graph of the step, optimized",
        library=library.name,
        data_type=types[0],
        messages=[Message(collective=collective, size_bytes=size_bytes(tensor)) for collective, tensor in tensors],
    )


def sums(operations: Sequence[tf.Operation]) -> list[tuple[Collective, tf.Operation]]:
    """The operations that sum over workers, each with its collective, in the order in which they can begin.

    Operations are ordered by the longest chain of operations before each: nothing else orders them.
    """
    depths: dict[tf.Operation, int] = {}
    for operation in operations:
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        # An operation that closes a loop comes later and has no depth yet.
        depths[operation] = 1 + max((depths.get(predecessor, 0) for predecessor in before), default=0)
    collectives: dict[tf.Operation, Collective] = {}
    for operation in sorted(operations, key=depths.__getitem__):
        if operation.type.startswith(ALL_REDUCE):
            collectives[operation] = Collective.ALL_REDUCE
        elif operation.type == ADD:
            # A device that adds others' tensors to its own. A sum plus its own weight decay doesn't count.
            devices = {tensor.op.device for tensor in operation.inputs if tensor.op not in collectives}
            if operation.device not in devices or len(devices) == 1:
                continue
            sent_back = any(consumer.device != operation.device for consumer in operation.outputs[0].consumers())
            collectives[operation] = Collective.ALL_REDUCE if sent_back else Collective.REDUCE
    return [(collective, operation) for operation, collective in collectives.items()]


def size_bytes(tensor: tf.Tensor) -> int:
    """The bytes of a tensor. Raises UserError where TensorFlow can't infer the shape, as in some loops."""
    elements = tensor.shape.num_elements()
    if elements is None:
        raise UserError(
            f"TensorFlow doesn't tell the size of {tensor.op.name}, which workers exchange: leave --steps-per-call out."
        )
    return elements * tensor.dtype.size


if __name__ == "__main__":
    main()
