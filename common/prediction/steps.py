"""The step of a strategy as events of one rank, which stands for all that are alike, or of all stages or workers.

Computing is divided among the layers by their multiplications: a layer of (inputs, outputs) takes inputs x outputs
forward, and backward as many for the gradients by its weights and, but for the first layer, by its inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.contract.task import Task
from common.contract.work import Order
from common.declarations.strategy import Graph
from common.prediction.events import Event, play
from common.prediction.messages import MOST_PLAYED_RANKS

_ITERATIONS = 4
"""Steps of a worker that are played where workers don't wait for one another; all but the first count."""

_BITS_BYTES = 8
"""Of the message by which ranks agree on the gradients that are ready on all of them."""

Sends = Callable[[str, float], float]
"""Seconds of a collective by its name and size in bytes."""


@dataclass(frozen=True)
class Layer:
    """What one layer of the MLP takes and sends."""

    forward: float
    """Seconds."""
    backward: float
    array_bytes: tuple[int, ...]
    """Of its weights, and of its bias where it has one."""
    output_bytes: int
    """Of all rows of a step."""

    @property
    def gradient_bytes(self) -> int:
        """Of all its arrays."""
        return sum(self.array_bytes)


def layers_of(task: Task, rows: int, seconds: float) -> list[Layer]:
    """The layers of a task, of which a step with so many `rows` takes so many `seconds`."""
    widths = [*pairwise(task.dimensions)]
    forward = [inputs * outputs for inputs, outputs in widths]
    backward = [(2 if number else 1) * products for number, products in enumerate(forward)]
    unit = seconds / (sum(forward) + sum(backward))
    return [
        Layer(
            forward=unit * forwards,
            backward=unit * backwards,
            array_bytes=(4 * inputs * outputs, 4 * outputs) if task.bias else (4 * inputs * outputs,),
            output_bytes=4 * rows * outputs,
        )
        for (inputs, outputs), forwards, backwards in zip(widths, forward, backward, strict=True)
    ]


def step_seconds(graph: Graph, layers: Sequence[Layer], workers: int, sends: Sends, beside: int = 0) -> float:
    """What a step takes, from its start to when the next one may start; where workers don't wait for one another, the
    time in which there are as many updates as workers.

    So many workers are `beside` the servers, on their host.
    """
    if workers == 1 and graph.order is not Order.SERVERS:
        return sum(layer.forward + layer.backward for layer in layers)
    if graph.order is Order.SERVERS:
        return _with_servers(layers, workers, beside, sends)
    if graph.order is Order.STAGES:
        return max(play(_stages(graph, layers, workers, sends)))
    return max(play(_EVENTS[graph.order](graph, layers, sends)))


def _computed(layers: Sequence[Layer]) -> list[Event]:
    """Forward, and each layer's backward from the last one to the first."""
    events = [Event("forward", sum(layer.forward for layer in layers), resource="core")]
    for layer in reversed(layers):
        events.append(Event("backward", layer.backward, (len(events) - 1,), "core"))
    return events


def _at_end(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    events = _computed(layers)
    size = sum(layer.gradient_bytes for layer in layers)
    return [*events, Event("all-reduce", sends("all_reduce", size), (len(events) - 1,), "link")]


def _one_by_one(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    events = _computed(layers)
    for size in (size for layer in layers for size in layer.array_bytes):
        events.append(Event("all-reduce of an array", sends("all_reduce", size), (len(events) - 1,), "link"))
    return events


def _buckets(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    events, held, most = _computed(layers), 0, graph.first_bucket_bytes
    for place, layer in enumerate(reversed(layers), start=1):
        held += layer.gradient_bytes
        if held >= most or place == len(layers):
            events.append(Event("all-reduce of a bucket", sends("all_reduce", held), (place,), "link"))
            held, most = 0, graph.bucket_bytes
    return events


def _fused(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    """Ranks agree on what is ready on all of them, by an all-reduce of some bits, sum that, and only then agree again.

    What becomes ready while they agree goes with the rest.
    """
    events = _computed(layers)
    ready = [*zip(play(events)[1:], reversed(layers), strict=True)]
    free = 0.0
    while ready:
        # On average half a cycle passes until the next one begins.
        begin = max(ready[0][0] + graph.cycle_seconds / 2, free) + sends("all_reduce", _BITS_BYTES)
        fused = [layer for at, layer in ready if at <= begin]
        place = len(layers) - len(ready) + len(fused)
        waiting = begin - ready[len(fused) - 1][0]
        seconds = sends("all_reduce", sum(layer.gradient_bytes for layer in fused))
        events.append(Event("agreeing", waiting, (place,)))
        events.append(Event("fused all-reduce", seconds, (len(events) - 1,), "link"))
        free, ready = begin + seconds, ready[len(fused) :]
    return events


def _shards(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    """Gathered before each use, the next while the one before computes; gradients reduced and scattered meanwhile."""
    events: list[Event] = []
    computed: int | None = None
    order = [*((layer, layer.forward, False) for layer in layers)]
    order += [(layer, layer.backward, True) for layer in reversed(layers)]
    for layer, seconds, is_backward in order:
        events.append(Event("all-gather", sends("all_gather", layer.gradient_bytes), resource="link"))
        before = (len(events) - 1,) if computed is None else (len(events) - 1, computed)
        computed = len(events)
        events.append(Event("compute", seconds, before, "core"))
        if is_backward:
            events.append(Event("scatter", sends("reduce_scatter", layer.gradient_bytes), (computed,), "link"))
    return events


def _shards_once(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    """Each array gathered before anything is computed, and its gradient scattered afterwards."""
    sizes = [size for layer in layers for size in layer.array_bytes]
    events = [Event("all-gather", sends("all_gather", size), resource="link") for size in sizes]
    seconds = sum(layer.forward + layer.backward for layer in layers)
    events.append(Event("compute", seconds, (len(events) - 1,), "core"))
    for size in sizes:
        events.append(Event("scatter", sends("halving_scatter", size), (len(events) - 1,), "link"))
    return events


def _sharded_state(graph: Graph, layers: Sequence[Layer], sends: Sends) -> list[Event]:
    """All gradients summed, then each parameter from the rank that has updated it."""
    events = _at_end(graph, layers, sends)
    for layer in layers:
        events.append(Event("broadcast", sends("broadcast", layer.gradient_bytes), (len(events) - 1,), "link"))
    return events


def _stages(graph: Graph, layers: Sequence[Layer], workers: int, sends: Sends) -> list[Event]:
    """A pipeline of micro-batches (Huang et al., "GPipe", 2019, figure 2c): forward through all stages, and back."""
    bounds = [round(stage * len(layers) / workers) for stage in range(workers + 1)]
    stages = [layers[begin:end] for begin, end in pairwise(bounds)]
    events: list[Event] = []
    last: dict[int, int] = {}
    for is_backward in (False, True):
        for part in range(graph.micro_batches):
            arrived = last[part] if is_backward else None
            for stage in reversed(range(workers)) if is_backward else range(workers):
                seconds = sum(layer.backward if is_backward else layer.forward for layer in stages[stage])
                before = () if arrived is None else (arrived,)
                events.append(Event("compute", seconds / graph.micro_batches, before, f"core {stage}"))
                last[part] = arrived = len(events) - 1
                border = stage - 1 if is_backward else stage
                if 0 <= border < workers - 1:
                    size = stages[border][-1].output_bytes / graph.micro_batches
                    events.append(Event("send", sends("send_receive", size), (arrived,), f"link {stage}"))
                    arrived = len(events) - 1
    return events


def _with_servers(layers: Sequence[Layer], workers: int, beside: int, sends: Sends) -> float:
    """Workers that fetch parameters and send gradients, each when it is ready. Those beside the servers copy them, as
    does the one worker of which `layers` have the seconds; the others share the servers' link, which carries both
    directions at the same time.
    """
    seconds = sum(layer.forward + layer.backward for layer in layers)
    size = sum(layer.gradient_bytes for layer in layers)
    updates_per_second = beside / seconds
    if beside < workers:
        updates_per_second += _over_a_link(seconds, workers - beside, sends("send_receive", size))
    return workers / updates_per_second


def _over_a_link(seconds: float, workers: int, transfer: float) -> float:
    """Updates per second of workers that each compute so many seconds, over the one link of their servers."""
    if workers > MOST_PLAYED_RANKS:
        # In the long run either the link is always busy, or no worker ever waits for it.
        return 1 / max(transfer, (seconds + 2 * transfer) / workers)
    events: list[Event] = []
    updates: list[int] = []
    before: list[tuple[int, ...]] = [()] * workers
    for _ in range(_ITERATIONS):
        for worker in range(workers):
            for name, lasts, resource in (
                ("fetch", transfer, "link from servers"),
                ("compute", seconds, f"core {worker}"),
                ("send", transfer, "link to servers"),
            ):
                events.append(Event(name, lasts, before[worker], resource))
                before[worker] = (len(events) - 1,)
            updates.append(len(events) - 1)
    played = play(events)
    ends = sorted(played[update] for update in updates)
    return (len(ends) - workers) / (ends[-1] - ends[workers - 1])


_EVENTS: dict[Order, Callable[[Graph, Sequence[Layer], Sends], list[Event]]] = {
    Order.AT_END: _at_end,
    Order.ONE_BY_ONE: _one_by_one,
    Order.BUCKETS: _buckets,
    Order.FUSED: _fused,
    Order.SHARDS: _shards,
    Order.SHARDS_ONCE: _shards_once,
    Order.SHARDED_STATE: _sharded_state,
}
