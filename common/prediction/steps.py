"""What a step of each graph takes: what waits for what on one rank, which stands for all that are alike.

Computing is divided among the layers by their multiplications: backward a layer takes as many as forward for the
gradients by its weights and, but for the first layer, by its inputs.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from common.contract.model import pieces
from common.contract.task import Task
from common.contract.work import Order
from common.declarations.strategy import Graph

_BITS_BYTES = 8
"""Of the message by which ranks agree on the gradients that are ready on all of them."""

Sends = Callable[[str, float], float]
"""Seconds of a collective by its name and size in bytes."""


@dataclass(frozen=True)
class Layer:
    """What one layer with parameters takes and sends."""

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
    parts = pieces(task)
    forward = [part.operations for part in parts]
    backward = [(2 if number else 1) * operations for number, operations in enumerate(forward)]
    unit = seconds / (sum(forward) + sum(backward))
    return [
        Layer(
            forward=unit * forwards,
            backward=unit * backwards,
            array_bytes=tuple(4 * math.prod(shape) for shape in part.shapes.values()),
            output_bytes=4 * rows * math.prod(part.output_shape),
        )
        for part, forwards, backwards in zip(parts, forward, backward, strict=True)
    ]


def step_seconds(graph: Graph, layers: Sequence[Layer], workers: int, sends: Sends, beside: int = 0) -> float:
    """What a step takes, from its start to when the next one may start; where workers don't wait for one another, the
    time in which there are as many updates as workers.

    So many workers are `beside` the servers, on their host.
    """
    if graph.order is Order.SERVERS:
        return _with_servers(layers, workers, beside, sends)
    if workers == 1:
        return _computing(layers)
    if graph.order is Order.STAGES:
        return _in_stages(graph, layers, workers, sends)
    return _SECONDS[graph.order](graph, layers, sends)


def _computing(layers: Sequence[Layer]) -> float:
    return sum(layer.forward + layer.backward for layer in layers)


def _computed(layers: Sequence[Layer]) -> list[tuple[float, Layer]]:
    """When the gradients of each layer are there, from the last one to the first."""
    ends = accumulate((layer.backward for layer in reversed(layers)), initial=sum(layer.forward for layer in layers))
    return [*zip([*ends][1:], reversed(layers), strict=True)]


def _over_one_link(messages: Iterable[tuple[float, float]], free: float = 0.0) -> float:
    """When the last message is there, of some that follow one another: each is ready at a time, and takes a time."""
    for ready, seconds in messages:
        free = max(ready, free) + seconds
    return free


def _at_end(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    return _computing(layers) + sends("all_reduce", sum(layer.gradient_bytes for layer in layers))


def _one_by_one(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    return _computing(layers) + sum(sends("all_reduce", size) for layer in layers for size in layer.array_bytes)


def _buckets(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    """While a bucket is sent, other layers are computed."""
    messages: list[tuple[float, float]] = []
    held, most = 0, graph.first_bucket_bytes
    for ready, layer in _computed(layers):
        held += layer.gradient_bytes
        if held >= most or layer is layers[0]:
            messages.append((ready, sends("all_reduce", held)))
            held, most = 0, graph.bucket_bytes
    return _over_one_link(messages)


def _fused(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    """Ranks agree on what is ready on all of them, by an all-reduce of some bits, sum that, and only then agree again.

    What becomes ready while they agree goes with the rest.
    """
    ready, free = _computed(layers), 0.0
    while ready:
        # On average half a cycle passes until the next one begins.
        begin = max(ready[0][0] + graph.cycle_seconds / 2, free) + sends("all_reduce", _BITS_BYTES)
        fused = [layer for at, layer in ready if at <= begin]
        free = begin + sends("all_reduce", sum(layer.gradient_bytes for layer in fused))
        ready = ready[len(fused) :]
    return free


def _shards(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    """Gathered before each use, the next while the one before computes; gradients reduced and scattered meanwhile."""
    used = [*((layer, layer.forward) for layer in layers), *((layer, layer.backward) for layer in reversed(layers))]
    gathered = [*accumulate(sends("all_gather", layer.gradient_bytes) for layer, _ in used)]
    computed, scattered = 0.0, list[tuple[float, float]]()
    for place, (layer, seconds) in enumerate(used):
        computed = max(gathered[place], computed) + seconds
        if place >= len(layers):
            scattered.append((computed, sends("reduce_scatter", layer.gradient_bytes)))
    return _over_one_link(scattered, free=gathered[-1])


def _shards_once(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    """Each array gathered before anything is computed, and its gradient scattered afterwards."""
    sizes = [size for layer in layers for size in layer.array_bytes]
    return _computing(layers) + sum(sends("all_gather", size) + sends("halving_scatter", size) for size in sizes)


def _sharded_state(graph: Graph, layers: Sequence[Layer], sends: Sends) -> float:
    """All gradients summed, then each parameter from the rank that has updated it."""
    return _at_end(graph, layers, sends) + sum(sends("broadcast", layer.gradient_bytes) for layer in layers)


def _in_stages(graph: Graph, layers: Sequence[Layer], workers: int, sends: Sends) -> float:
    """A pipeline of micro-batches (Huang et al., "GPipe", 2019, figure 2c): all forward through all stages, then back.

    A stage computes and sends one micro-batch at a time.
    """
    bounds = [round(stage * len(layers) / workers) for stage in range(workers + 1)]
    stages = [layers[begin:end] for begin, end in pairwise(bounds)]
    parts, cores, links = [0.0] * graph.micro_batches, [0.0] * workers, [0.0] * workers
    for is_backward in (False, True):
        for part in range(graph.micro_batches):
            for stage in reversed(range(workers)) if is_backward else range(workers):
                seconds = sum(layer.backward if is_backward else layer.forward for layer in stages[stage])
                parts[part] = cores[stage] = max(cores[stage], parts[part]) + seconds / graph.micro_batches
                border = stage - 1 if is_backward else stage
                if 0 <= border < workers - 1:
                    sent = sends("send_receive", stages[border][-1].output_bytes / graph.micro_batches)
                    parts[part] = links[stage] = max(links[stage], parts[part]) + sent
    return max(cores)


def _with_servers(layers: Sequence[Layer], workers: int, beside: int, sends: Sends) -> float:
    """Workers that fetch parameters and send gradients, each when it is ready. Those beside the servers copy them, as
    does the one worker of which `layers` have the seconds; the others share the servers' link, which carries both
    directions at the same time. In the long run either that link is always busy, or no worker ever waits for it.
    """
    seconds = _computing(layers)
    updates_per_second = beside / seconds
    if beside < workers:
        transfer = sends("send_receive", sum(layer.gradient_bytes for layer in layers))
        updates_per_second += 1 / max(transfer, (seconds + 2 * transfer) / (workers - beside))
    return workers / updates_per_second


_SECONDS: dict[Order, Callable[[Graph, Sequence[Layer], Sends], float]] = {
    Order.AT_END: _at_end,
    Order.ONE_BY_ONE: _one_by_one,
    Order.BUCKETS: _buckets,
    Order.FUSED: _fused,
    Order.SHARDS: _shards,
    Order.SHARDS_ONCE: _shards_once,
    Order.SHARDED_STATE: _sharded_state,
}
