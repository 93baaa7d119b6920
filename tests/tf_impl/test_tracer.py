"""The messages of TensorFlow's strategies: the sums over workers in the graph of a step."""

from types import SimpleNamespace

import pytest

from common.declarations.strategy import ExchangeOptions
from common.errors import UserError
from tests import laboratory
from tf_impl.strategies import CENTRAL_STORAGE, MIRRORED, MULTI_WORKER_MIRRORED, ONE_DEVICE, PARAMETER_SERVER
from tf_impl.tracer import check, sums, trace_of

# On pathway: four layers without biases, in float32, the last one's gradient ready first.
LAYER_BYTES = [4 * 256 * 32, 4 * 256 * 256, 4 * 256 * 256, 4 * 1024 * 256]


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


def gradients(elements=10, **named):
    """The same gradient on two devices."""
    return [Operation("MatMul", device, elements=elements, **named) for device in ("cpu:0", "cpu:1")]


def added(of_devices, **named):
    return Operation("AddN", "cpu:0", *of_devices, **named)


def run_of(strategy=MIRRORED, size=2, **options):
    world = SimpleNamespace(size=size, backend="ReductionToOneDevice")
    return SimpleNamespace(strategy=strategy, options=ExchangeOptions(**options), world=world)


def kinds(operations):
    return [str(collective) for collective, _ in sums(operations)]


def test_a_sum_is_an_all_reduce_or_a_reduction_by_where_it_goes():
    own, other = gradients()
    total = added([own, other])
    updates = [Operation("ResourceApplyGradientDescent", device, total) for device in ("cpu:0", "cpu:1")]
    assert kinds([own, other, total, *updates]) == ["all_reduce"]
    own, other = gradients()
    total = added([own, other])
    assert kinds([own, other, total, Operation("ResourceApplyGradientDescent", "cpu:0", total)]) == ["reduce"]
    here = [Operation("MatMul", "cpu:0") for _ in range(2)]
    assert kinds([*here, added(here)]) == []


def test_a_sum_to_which_another_device_adds_its_weight_decay_is_no_second_message():
    own, other = gradients()
    total = added([own, other])
    decays = [Operation("Mul", device) for device in ("cpu:0", "cpu:1")]
    directions = [Operation("AddN", decay.device, total, decay) for decay in decays]
    assert kinds([own, other, total, *decays, *directions]) == ["all_reduce"]


def test_messages_are_told_by_their_operations_in_the_order_in_which_they_can_begin():
    last_layer = gradients(elements=3)
    first_layer = [Operation("MatMul", each.device, each, elements=5) for each in last_layer]
    operations = [*last_layer, *first_layer, added(first_layer, elements=5), added(last_layer, elements=3)]
    assert [message.size_bytes for message in trace_of(run_of(CENTRAL_STORAGE), operations).messages] == [12, 20]
    own = Operation("ConcatV2", "cpu:0")
    trace = trace_of(run_of(MULTI_WORKER_MIRRORED), [own, Operation("CollectiveReduceV2", "cpu:0", own)])
    assert [(message.collective, message.size_bytes) for message in trace.messages] == [("all_reduce", 40)]
    assert (trace.library, trace.data_type, trace.under_way_seconds) == ("tensorflow", "float32", [])


def test_counts_of_rows_are_no_gradients_and_a_sum_of_unknown_size_is_refused():
    counts = gradients(floating=False)
    with pytest.raises(UserError, match="no sum over workers"):
        trace_of(run_of(), [*counts, added(counts, floating=False)])
    of_devices = gradients(elements=None)
    with pytest.raises(UserError, match="leave --steps-per-call out"):
        trace_of(run_of(), [*of_devices, added(of_devices, elements=None)])


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


@pytest.mark.parametrize(
    ("strategy", "library", "sizes"),
    [
        ("tf_multi_worker_mirrored", "tensorflow", [sum(LAYER_BYTES)]),
        pytest.param("tf_mirrored", "tf_reduction_to_one_device", LAYER_BYTES, marks=pytest.mark.grid),
    ],
)
def test_a_launch_leaves_the_real_messages_which_carry_all_gradients(tmp_path, strategy, library, sizes):
    trace = laboratory.trace_of(strategy, tmp_path, "--steps", "4", "--warmup-steps", "2", "--window-steps", "2")
    assert trace.library == library
    assert [(message.collective, message.size_bytes) for message in trace.messages] == [
        ("all_reduce", size) for size in sizes
    ]
