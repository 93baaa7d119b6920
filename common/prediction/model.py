"""The model of every strategy's step, fitted to what was measured of it with one worker and with two.

Computing is a line over the rows of a worker: the strategy's own with one worker, or its baseline's. Contention is what
computing takes beside another worker, over alone. Latency and time per byte are those of the library that carries the
messages. What two workers took more than the graph plays with these is the overhead of each of its collectives, however
many ranks there are; where they took less, the library's costs are multiplied by a factor. The rest is what neither
explains, and is taken to stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
from scipy.optimize import root_scalar

from common.contract.task import PRESETS
from common.contract.work import Order
from common.declarations import catalogue
from common.declarations.strategy import Graph
from common.errors import UserError
from common.prediction.measured import Measured, Scenario
from common.prediction.message_costs import Costs, Wire, critical_path
from common.prediction.steps import layers_of, step_seconds
from common.statistics.fit import lines

_LEAST_FACTOR = 0.05
"""The least that a library's own costs are multiplied by."""

_ROUNDED_SECONDS = 1e-9
"""What roots of equations may miss."""

_QUARTILES = 1.349
"""Standard deviations of a normal distribution between its quartiles."""

_USUAL_SPREAD = 0.3
"""Of the logarithms of factors, where too few strategies were measured to tell."""


@dataclass(frozen=True)
class Line:
    """Seconds of a step alone, by its rows."""

    fixed: float
    per_row: float

    def seconds(self, rows: float) -> float:
        """Those of so many rows."""
        return self.fixed + self.per_row * rows


@dataclass(frozen=True)
class Fitted:
    """The parameters of one strategy."""

    graph: Graph
    computing: Mapping[str, Line]
    """By preset."""
    contention: float
    costs: Costs
    factor: float
    """What two workers took to exchange, over what the library's own costs give."""
    rest_seconds: float
    crowding: float
    """Of the two workers that were measured, as `Scenario` has it."""


@dataclass(frozen=True)
class Parts:
    """What a step is made of, in seconds."""

    alone_seconds: float
    """The same rows in one worker."""
    computing_seconds: float
    """The same beside other workers."""
    straggling_seconds: float
    exchange_seconds: float
    rest_seconds: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.computing_seconds + self.straggling_seconds + self.exchange_seconds + self.rest_seconds


@dataclass(frozen=True)
class Model:
    """The parameters of all strategies that were measured."""

    strategies: Mapping[str, Fitted]
    ratios: np.ndarray
    """As `Measured` has them."""

    def seconds(self, asked: Scenario, software: float = 1.0, busy: float = 0.5) -> float:
        """Seconds per step. Raises UserError as `parts` does."""
        return self.parts(asked, software, busy).seconds

    def parts(self, asked: Scenario, software: float = 1.0, busy: float = 0.5) -> Parts:
        """The parts of a step, where latency and the processor's time per byte are `software` times as long.

        Where workers share cores, computing and copying take as many times as long as there are threads to a core.
        Latency does where all of it is processor time (`busy` is 1), and stays where all of it is waiting (0).

        Raises UserError for a preset of which nothing was measured.
        """
        fitted = self.strategies[asked.strategy]
        if asked.preset not in fitted.computing:
            raise UserError(f"{asked.strategy} wasn't measured on {asked.preset}: name another --preset.")
        alone = fitted.computing[asked.preset].seconds(asked.rows)
        if asked.workers == 1:
            return Parts(alone, alone, 0.0, 0.0, 0.0)
        crowding = asked.crowding / fitted.crowding
        computing = alone * fitted.contention * crowding
        costs = fitted.costs.times(software * crowding**busy, software * crowding)
        # Rounded, the slowest of two may come out as faster than itself.
        slowest = computing * max(1.0, slowest_of(self.ratios, asked.workers) / slowest_of(self.ratios, 2))
        # A pipeline's stages compute at the same time, so its whole step may be shorter than one worker's.
        exchange = _played(fitted.graph, asked, slowest, costs) - slowest
        return Parts(alone, computing, slowest - computing, exchange, fitted.rest_seconds)


def slowest_of(ratios: np.ndarray, workers: int) -> float:
    """The expected largest of so many draws from the measured ratios, by the distribution of the maximum, F^N.

    (David & Nagaraja, "Order Statistics", 2003, section 2.1.) It never exceeds the largest that was measured.
    """
    if not len(ratios):
        return 1.0
    below = np.arange(len(ratios) + 1) / len(ratios)
    return float(ratios @ np.diff(below**workers))


def fit(measured: Measured) -> Model:
    """Fit every strategy that declares a graph and was measured with one worker and two, alone and exchanging.

    Raises UserError where there is none.
    """
    fitted: dict[str, Fitted] = {}
    names = {scenario.strategy for scenario in measured.steps}
    for name, strategy in catalogue.strategies().items():
        exchanges = measured.exchanges.get(strategy.family.library, {})
        if name not in names or strategy.graph is None or len(exchanges) < 2:
            continue
        computing = _computing(name, measured.steps) or _computing(str(strategy.base), measured.steps)
        two = min(
            (
                each
                for each in measured.steps
                if each.strategy == name and each.workers == 2 and each.preset in computing
            ),
            key=lambda each: (each.wire.bandwidth_bits_per_second is not None, each.preset, each.rows),
            default=None,
        )
        if two:
            fitted[name] = _fitted(strategy.graph, computing, two, measured, _costs(exchanges, strategy.graph))
    if not fitted:
        raise UserError(
            "Nothing was measured that a prediction needs, a strategy with one worker and with two, and its library's "
            "all-reduce between two ranks: run `nox -s compare` and `nox -s collectives`."
        )
    return Model(fitted, measured.ratios)


def _computing(name: str, steps: Mapping[Scenario, Sequence[float]]) -> dict[str, Line]:
    """By preset the line through what one worker took; through one batch alone it goes to zero."""
    points: dict[str, list[tuple[int, float]]] = {}
    for each, seconds in steps.items():
        if each.strategy == name and each.workers == 1:
            points.setdefault(each.preset, []).append((each.rows, median(seconds)))
    fitted = dict[str, Line]()
    for preset, own in points.items():
        rows, taken = np.array(own, float).T
        fixed, per_row, _ = lines(rows, taken[None])[:, 0] if len(rows) > 1 else (0.0, taken[0] / rows[0], 0.0)
        fitted[preset] = Line(float(fixed), float(per_row))
    return fitted


def _costs(exchanges: Mapping[int, Sequence[float]], graph: Graph) -> Costs:
    """The costs of a message, from all-reduces between two ranks: as many messages as a ring has follow one another.

    Where gradients are fused, each of these all-reduces waited for half a cycle, and followed one that agrees on it.
    """
    ring = critical_path("all_reduce", 2)
    agreed = 2 if graph.order is Order.FUSED else 1
    medians = [median(seconds) for seconds in exchanges.values()]
    latency, per_byte, _ = lines(np.array([*exchanges], float), np.array([medians]))[:, 0].tolist()
    latency = max(0.0, latency - graph.cycle_seconds / 2)
    return Costs(latency / (agreed * ring.messages), per_byte / ring.share)


def _fitted(graph: Graph, computing: Mapping[str, Line], two: Scenario, measured: Measured, costs: Costs) -> Fitted:
    alone = computing[two.preset].seconds(two.rows)
    without = measured.without_exchange.get(two)
    contention = median(without) / alone if without else 1.0
    whole, computed = median(measured.steps[two]), alone * contention

    def excess(costs: Costs) -> float:
        return _played(graph, two, computed, costs) - whole

    least, of_library = costs.times(_LEAST_FACTOR, _LEAST_FACTOR), _played(graph, two, computed, costs) - computed
    if of_library <= whole - computed:
        overhead = root_scalar(lambda each: excess(replace(costs, overhead_seconds=each)), bracket=(0.0, whole)).root
        costs = replace(costs, overhead_seconds=float(overhead))
    elif excess(least) >= 0:
        costs = least
    else:
        less = root_scalar(lambda each: excess(costs.times(each, each)), bracket=(_LEAST_FACTOR, 1.0)).root
        costs = costs.times(float(less), float(less))
    # Stages that compute at the same time may hide what they send.
    factor = max((whole - computed) / of_library, _LEAST_FACTOR) if of_library > 0 else 1.0
    rest = 0.0 if abs(excess(costs)) < _ROUNDED_SECONDS else -excess(costs)
    return Fitted(graph, computing, contention, costs, factor, rest, two.crowding)


def _played(graph: Graph, asked: Scenario, computed: float, costs: Costs) -> float:
    limited, wire = _step(graph, asked, computed, costs), asked.wire
    if not (wire.burst_bytes and wire.bandwidth_bits_per_second) or graph.order is Order.SERVERS:
        return limited
    # A token bucket also fills while ranks compute, so its burst is free. But the wire carries no more than its rate,
    # and ranks take no less than without a limit. Of servers the wire alone says nothing: not all workers need it.
    unlimited = _step(graph, replace(asked, wire=Wire(None, wire.latency_seconds)), computed, costs)
    wire_alone = _step(graph, replace(asked, wire=replace(wire, latency_seconds=0.0)), 0.0, Costs(0.0, 0.0))
    return max(unlimited, wire_alone, limited - wire.burst_bytes * wire.seconds_per_byte)


def _step(graph: Graph, asked: Scenario, computed: float, costs: Costs) -> float:
    # Stages of one model see the rows of all workers.
    share = asked.workers if graph.order is Order.STAGES else 1
    layers = layers_of(PRESETS[asked.preset], share * asked.rows, share * computed)
    sends = partial(_collective, graph, asked.wire, asked.workers, costs)
    return step_seconds(graph, layers, asked.workers, sends, asked.workers // asked.hosts)


def _collective(graph: Graph, wire: Wire, workers: int, costs: Costs, name: str, size: float) -> float:
    chain = critical_path(name, 2 if name == "send_receive" else workers)
    if graph.asks_ahead:
        # Of the two passes of a ring only the first message waits twice.
        chain = replace(chain, ways_of_each=1 + 2 / chain.messages)
    return costs.seconds(wire, chain, size)


def bands(
    measured: Measured, asked: Iterable[Scenario], draws: int = 200, seed: int = 0
) -> dict[Scenario, list[float]]:
    """By scenario the ends of the intervals that 80 % of new launches lie in, low and high, and 95 %.

    They are percentiles over models that are fitted to resampled launches.

    A draw also multiplies latency and the processor's time per byte by a number with the spread of the strategies'
    factors, by their quartiles, and the whole step by how much one launch differs from the median of its scenario.
    How much of latency is processor time isn't known: each draw has another part.
    """
    draw, scenarios = np.random.default_rng(seed), [*asked]
    point = fit(measured)
    factors = np.log([each.factor for each in point.strategies.values()])
    low, high = np.percentile(factors, (25.0, 75.0))
    spread = float(high - low) / _QUARTILES if len(factors) > 2 else _USUAL_SPREAD
    noise = _launch_noise(measured)
    drawn: dict[Scenario, list[float]] = {each: [] for each in scenarios}
    for _ in range(draws):
        model, software, busy = fit(measured.resampled(draw)), float(np.exp(draw.normal(0.0, spread))), draw.uniform()
        for each in scenarios:
            drawn[each].append(model.seconds(each, software, busy) * draw.choice(noise))
    return {each: np.percentile(drawn[each], (10.0, 90.0, 2.5, 97.5)).tolist() for each in scenarios}


def _launch_noise(measured: Measured) -> np.ndarray:
    """Launches over the median of their scenario, widened since a median of few is near each of them."""
    logs = [
        np.log(np.array(seconds) / median(seconds)) * np.sqrt(len(seconds) / (len(seconds) - 1))
        for launches in (measured.steps, measured.without_exchange)
        for seconds in launches.values()
        if len(seconds) > 1
    ]
    return np.exp(np.concatenate(logs)) if logs else np.ones(1)
