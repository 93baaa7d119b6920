"""The messages of TensorFlow's strategies: the sums over workers in the graph of a step."""

from types import SimpleNamespace

import pytest

from common.declarations.strategy import ExchangeOptions
from common.errors import UserError
from tf_impl.strategies import CENTRAL_STORAGE, MIRRORED, MULTI_WORKER_MIRRORED, ONE_DEVICE, PARAMETER_SERVER
from tf_impl.tracer import check, sums, trace_of


class Operation:
    """What the tracer reads of a tf.Operation."""

    def __init__(self, kind, device, *inputs, elements=10, floating=True):
        self.type, self.name, self.device = kind, kind, device
        self.inputs, self.control_inputs = [each.outputs[0] for each in inputs], []
        self.consumers = []
        dtype = SimpleNamespace(is_floating=floating, name="float32", size=4)
        shape = SimpleNamespace(num_elements=lambda: elements)
        self.outputs = [SimpleNamespace(op=self, dtype=dtype, shape=shape, consumers=lambda: self.consumers)]
        for each in inputs:
            each.consumers.append(self)


def added(count, elements=10, **named):
    """The gradient of each of so many devices, and their sum on the first."""
    own = [Operation("MatMul", f"cpu:{number}", elements=elements, **named) for number in range(count)]
    return [*own, Operation("AddN", "cpu:0", *own, elements=elements, **named)]


def run_of(strategy=MIRRORED, size=2, **options):
    world = SimpleNamespace(size=size, backend="ReductionToOneDevice")
    return SimpleNamespace(strategy=strategy, options=ExchangeOptions(**options), world=world)


def kinds(operations):
    return [str(collective) for collective, _ in sums(operations)]


@pytest.mark.parametrize(("devices", "kind"), [(("cpu:0", "cpu:1"), "all_reduce"), (("cpu:0",), "reduce")])
def test_a_sum_is_an_all_reduce_or_a_reduction_by_where_it_goes(devices, kind):
    *own, total = added(2)
    updates = [Operation("ResourceApplyGradientDescent", device, total) for device in devices]
    assert kinds([*own, total, *updates]) == [kind]


def test_a_sum_on_one_device_or_with_its_weight_decay_is_no_message_of_its_own():
    here = [Operation("MatMul", "cpu:0") for _ in range(2)]
    assert kinds([*here, Operation("AddN", "cpu:0", *here)]) == []
    *own, total = added(2)
    decays = [Operation("Mul", device) for device in ("cpu:0", "cpu:1")]
    directions = [Operation("AddN", decay.device, total, decay) for decay in decays]
    assert kinds([*own, total, *decays, *directions]) == ["all_reduce"]


def test_messages_are_told_by_their_operations_in_the_order_in_which_they_can_begin():
    last_layer = [Operation("MatMul", device, elements=3) for device in ("cpu:0", "cpu:1")]
    first_layer = [Operation("MatMul", each.device, each, elements=5) for each in last_layer]
    sums_of_layers = [Operation("AddN", "cpu:0", *first_layer, elements=5)]
    sums_of_layers += [Operation("AddN", "cpu:0", *last_layer, elements=3)]
    trace = trace_of(run_of(CENTRAL_STORAGE), [*last_layer, *first_layer, *sums_of_layers])
    assert [message.size_bytes for message in trace.messages] == [12, 20]
    own = Operation("ConcatV2", "cpu:0")
    trace = trace_of(run_of(MULTI_WORKER_MIRRORED), [own, Operation("CollectiveReduceV2", "cpu:0", own)])
    assert [(message.collective, message.size_bytes) for message in trace.messages] == [("all_reduce", 40)]
    assert (trace.library, trace.data_type, trace.under_way_seconds) == ("tensorflow", "float32", [])


def test_counts_of_rows_are_no_gradients_and_a_sum_of_unknown_size_is_refused():
    with pytest.raises(UserError, match="no sum over workers"):
        trace_of(run_of(), added(2, floating=False))
    with pytest.raises(UserError, match="leave --steps-per-call out"):
        trace_of(run_of(), added(2, elements=None))


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(PARAMETER_SERVER), "no collective"),
        (run_of(ONE_DEVICE, size=1), "one worker"),
        (run_of(size=1), "one worker"),
        (run_of(exchange=False), "--no-exchange"),
    ],
)
def test_a_run_without_messages_to_replay_is_refused(run, reason):
    with pytest.raises(UserError, match=reason):
        check(run)
