"""common/prediction/steps.py: the step of each graph."""

import dataclasses
from collections import Counter

import pytest

from common.contract import model
from common.contract.task import PRESETS
from common.contract.work import Order
from common.declarations.strategy import Graph
from common.prediction.steps import layers_of, step_seconds

CYCLE_SECONDS, MICRO_BATCHES = 0.001, 4

WIDE, PATHWAY = PRESETS["wide"], PRESETS["pathway"]


def graph(order):
    """What strategies of each order declare."""
    return Graph(
        order,
        first_bucket_bytes=2**20,
        bucket_bytes=25 * 2**20,
        cycle_seconds=CYCLE_SECONDS,
        micro_batches=MICRO_BATCHES,
    )


def nothing(collective, size):
    return 0.0


class Noted(Counter[tuple[str, float]]):
    """A function by which each message takes a second: how often each of a collective and a size was sent."""

    def __call__(self, collective, size):
        self[collective, size] += 1
        return 1.0

    def bytes_of(self):
        """What was sent by each collective."""
        sent = Counter[str]()
        for (collective, size), times in self.items():
            sent[collective] += times * size
        return sent


def by_size(collective, size):
    """A gigabyte takes a second, whatever it is."""
    return size / 1e9


@pytest.mark.parametrize("preset", ["digits", "pathway", "wide"])
def test_layers_divide_the_step_and_the_gradients(preset):
    task = PRESETS[preset]
    layers = layers_of(task, 64, 3.0)
    assert sum(layer.forward + layer.backward for layer in layers) == pytest.approx(3.0)
    assert sum(layer.gradient_bytes for layer in layers) == model.parameter_bytes(task)
    assert [layer.output_bytes for layer in layers] == [4 * 64 * width for width in task.dimensions[1:]]
    # The first layer needs no gradient by its inputs.
    assert layers[0].backward == layers[0].forward
    assert layers[1].backward == 2 * layers[1].forward


@pytest.mark.parametrize("cycle_seconds", [CYCLE_SECONDS, 0.0])
@pytest.mark.parametrize("order", [each for each in Order if each not in (Order.STAGES, Order.SERVERS)])
def test_where_messages_take_no_time_a_step_takes_what_computing_does(order, cycle_seconds):
    of_order = dataclasses.replace(graph(order), cycle_seconds=cycle_seconds)
    waited = cycle_seconds / 2 if order is Order.FUSED else 0.0
    assert step_seconds(of_order, layers_of(PATHWAY, 64, 0.01), 4, nothing) == pytest.approx(0.01 + waited)


@pytest.mark.parametrize("order", [each for each in Order if each is not Order.SERVERS])
def test_one_worker_sends_nothing(order):
    assert step_seconds(graph(order), layers_of(PATHWAY, 64, 0.01), 1, by_size) == pytest.approx(0.01)


def test_buckets_hide_what_is_sent_while_other_layers_are_computed_and_a_small_model_is_one_bucket():
    # Of wide the last bucket has the first layer's gradient, and the others go while that is computed.
    layers = layers_of(WIDE, 512, 1.0)
    expected = 1.0 + layers[0].gradient_bytes / 1e9
    assert step_seconds(graph(Order.BUCKETS), layers, 2, by_size) == pytest.approx(expected)
    at_end, buckets = (
        step_seconds(graph(order), layers_of(PATHWAY, 64, 0.01), 2, by_size) for order in (Order.AT_END, Order.BUCKETS)
    )
    assert at_end == buckets == pytest.approx(0.01 + model.parameter_bytes(PATHWAY) / 1e9)


@pytest.mark.parametrize(
    ("computing_seconds", "agreeing_seconds", "message_seconds", "messages"),
    [
        # All is ready in a cycle; nothing is ready with anything else.
        (CYCLE_SECONDS / 10, 0.0, 0.0, 1),
        (100 * CYCLE_SECONDS, 0.0, 0.0, 4),
        # The rest gathers while the first is on its way; all does while ranks agree.
        (100 * CYCLE_SECONDS, 0.0, 1.0, 2),
        (100 * CYCLE_SECONDS, 1.0, 0.0, 1),
    ],
)
def test_what_is_ready_together_is_one_message(computing_seconds, agreeing_seconds, message_seconds, messages):
    sent = []

    def note(collective, size):
        sent.append(size)
        return agreeing_seconds if size == 8 else message_seconds

    layers = layers_of(PATHWAY, 64, computing_seconds)
    step_seconds(graph(Order.FUSED), layers, 2, note)
    agreed, fused = sent[::2], sent[1::2]
    assert agreed == [8] * messages
    assert len(fused) == messages
    assert sum(fused) == model.parameter_bytes(PATHWAY)


# Three layers, with weights and biases.
@pytest.mark.parametrize(
    ("order", "times_the_model", "messages"),
    [
        (Order.AT_END, {"all_reduce": 1}, 1),
        (Order.ONE_BY_ONE, {"all_reduce": 1}, 6),
        # Gathered in both passes and scattered once.
        (Order.SHARDS, {"all_gather": 2, "reduce_scatter": 1}, 9),
        # Six arrays, each gathered and scattered.
        (Order.SHARDS_ONCE, {"all_gather": 1, "halving_scatter": 1}, 12),
        (Order.SHARDED_STATE, {"all_reduce": 1, "broadcast": 1}, 4),
    ],
)
def test_what_each_order_sends_of_the_model_follows_one_another(order, times_the_model, messages):
    sends, size = Noted(), model.parameter_bytes(PRESETS["digits"])
    # Computing takes hardly any time beside the messages.
    seconds = step_seconds(graph(order), layers_of(PRESETS["digits"], 64, 0.01), 2, sends)
    assert seconds == pytest.approx(messages, abs=0.02)
    assert sends.bytes_of() == {name: times * size for name, times in times_the_model.items()}


def test_stages_of_equal_layers_take_what_gpipe_says():
    task = dataclasses.replace(WIDE, dimensions=(64,) * 5, bias=False)
    layers = layers_of(task, 64, 1.0)
    # GPipe, section 2.3: with M micro-batches in K stages M + K - 1 turns of the slowest stage, each way; the first
    # layer, which is the last one backward, has half as much to do there.
    turns = MICRO_BATCHES + 4 - 1
    expected = (turns * layers[0].forward + (turns - 1) * layers[1].backward + layers[0].backward) / MICRO_BATCHES
    assert step_seconds(graph(Order.STAGES), layers, 4, nothing) == pytest.approx(expected)


def test_stages_send_each_micro_batch_over_each_border_both_ways_and_the_borders_at_the_same_time():
    layers, sends = layers_of(dataclasses.replace(WIDE, dimensions=(8, 16, 32, 64, 128)), 64, 0.01), Noted()
    # Each way the first micro-batch crosses three borders, and the others follow it.
    assert step_seconds(graph(Order.STAGES), layers, 4, sends) == pytest.approx(2 * (3 + MICRO_BATCHES - 1), abs=0.02)
    sizes = [4 * 64 / MICRO_BATCHES * width for width in (16, 32, 64)]
    assert sends == {("send_receive", size): 2 * MICRO_BATCHES for size in sizes}


def test_servers_are_the_bottleneck_of_many_workers_and_computing_that_of_few():
    layers = layers_of(PATHWAY, 64, 0.01)
    transfer = model.parameter_bytes(PATHWAY) / 1e9
    assert step_seconds(graph(Order.SERVERS), layers, 1, by_size) == pytest.approx(0.01 + 2 * transfer)
    # Weights go one way and gradients the other.
    assert step_seconds(graph(Order.SERVERS), layers, 65, by_size) == pytest.approx(65 * transfer)
    assert step_seconds(graph(Order.SERVERS), layers, 64, by_size) == pytest.approx(64 * transfer, rel=0.05)


# One beside the servers makes 100 updates a second. The others share a link that carries so many both ways, or compute.
@pytest.mark.parametrize(
    ("workers", "transfer_seconds", "away"),
    [(1, 0.01, 0), (3, 0.01, 2 / 0.03), (4, 0.01, 100), (4, 1.0, 1), (68, 0.01, 100)],
)
def test_workers_beside_the_servers_do_not_wait_for_their_link(workers, transfer_seconds, away):
    def sends(collective, size):
        return {("send_receive", model.parameter_bytes(PATHWAY)): transfer_seconds}[collective, size]

    seconds = step_seconds(graph(Order.SERVERS), layers_of(PATHWAY, 64, 0.01), workers, sends, beside=1)
    assert seconds == pytest.approx(workers / (100 + away))
