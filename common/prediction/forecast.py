"""The answers to what a step would take elsewhere: bands, the parts of a step, and how far each strategy pays."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from scipy.optimize import root_scalar

from common.contract.model import pieces
from common.contract.task import PRESETS
from common.declarations import catalogue
from common.prediction.measured import Measured, Scenario
from common.prediction.message_costs import Wire
from common.prediction.model import Model, bands, fit
from common.records.prediction import Predicted, Predictions

MOST_WORKERS = 65_536
"""Up to which efficiency is followed, by doubling."""

VERIFIED_WORKERS = 4
"""The most workers with which predictions are held to launches, on one machine."""

_SLOWEST, _FASTEST = math.log(1e4), math.log(1e13)
"""Logarithms of the bits per second between which a bandwidth is looked for."""


def predictions(measured: Measured, asked: Sequence[Scenario], sources: Sequence[str]) -> Predictions:
    """Predict each scenario from what was measured in the folders of these names.

    Raises UserError for a preset that wasn't measured.
    """
    model, ends = fit(measured), bands(measured, asked)
    return Predictions(
        predicted_at=datetime.now(UTC).isoformat(timespec="seconds"),
        sources=[*sources],
        digest=digest_of(model),
        assumptions=assumptions(measured),
        predicted=[_predicted(model, each, ends[each]) for each in asked],
    )


def digest_of(model: Model) -> str:
    """The SHA-256 of the fitted parameters."""
    return hashlib.sha256(repr(model).encode()).hexdigest()


def scenario_of(predicted: Predicted) -> Scenario:
    """What was predicted, as launches are grouped by it."""
    return Scenario(
        strategy=predicted.strategy,
        preset=predicted.preset,
        rows=predicted.rows,
        workers=predicted.workers,
        hosts=predicted.hosts,
        wire=Wire(predicted.bandwidth_bits_per_second, predicted.latency_seconds),
    )


def _predicted(model: Model, each: Scenario, band: Sequence[float]) -> Predicted:
    parts = model.parts(each)
    return Predicted(
        strategy=each.strategy,
        colors=[*catalogue.find(each.strategy).family.colors],
        preset=each.preset,
        rows=each.rows,
        workers=each.workers,
        hosts=each.hosts,
        bandwidth_bits_per_second=each.wire.bandwidth_bits_per_second,
        latency_seconds=each.wire.latency_seconds,
        seconds=parts.seconds,
        low_80=band[0],
        high_80=band[1],
        low_95=band[2],
        high_95=band[3],
        **asdict(parts),
        is_extrapolated=each.workers > VERIFIED_WORKERS,
        oversubscribed=each.oversubscribed,
        half_efficiency_workers=_half_efficiency_workers(model, each),
        bandwidth_for_90=_bandwidth_for_90(model, each),
    )


def _efficiency(model: Model, each: Scenario) -> float:
    parts = model.parts(each)
    return parts.alone_seconds / parts.seconds


def _half_efficiency_workers(model: Model, each: Scenario) -> int | None:
    """None where even the most workers are that efficient."""
    most = most_workers(each.strategy, each.preset)
    doubled = [2**power for power in range(most.bit_length())]
    return next((n // 2 for n in doubled if _efficiency(model, replace(each, workers=n)) < 0.5), None)


def most_workers(strategy: str, preset: str) -> int:
    """The most workers that are predicted: a pipeline has no more stages than layers."""
    is_divided = catalogue.find(strategy).work.is_divided
    return len(pieces(PRESETS[preset])) if is_divided else MOST_WORKERS


def _bandwidth_for_90(model: Model, each: Scenario) -> float | None:
    """The least bandwidth with an efficiency of 90 %; None where none has."""

    def excess(log_bits: float) -> float:
        wire = replace(each.wire, bandwidth_bits_per_second=math.exp(log_bits))
        return _efficiency(model, replace(each, wire=wire)) - 0.9

    if each.workers == 1 or excess(_FASTEST) < 0:
        return None
    if excess(_SLOWEST) >= 0:
        # Workers beside their servers need no wire.
        return math.exp(_SLOWEST)
    return math.exp(root_scalar(excess, bracket=(_SLOWEST, _FASTEST), xtol=1e-4).root)


def assumptions(measured: Measured) -> list[str]:
    """What every prediction takes for granted, in sentences."""
    most = max(measured.ratios, default=1.0)
    return [
        "Each worker has a core of its own, as fast as here, and each host's link is as fast as asked, in both "
        "directions and with no other traffic: a switch that blocks isn't modelled.",
        "All-reduces are rings. A message takes latency plus the wire's time or the processor's, whichever is longer.",
        "Most messages wait for the way between hosts twice, since the receiver first says that it is ready; where the "
        "sender knows that beforehand they wait once.",
        "Latency and the processor's time per byte are those of this machine's loopback or virtual links, fitted to "
        f"{len(measured.exchanges)} libraries.",
        "Ranks are late independently of one another, by as much as one machine's windows differed; none takes more "
        f"than {most:.2f} times the median.",
        "What a strategy does around a collective takes as long among many workers as between two.",
        "NVLink, NCCL's trees, more than one switch and shared clusters were never measured.",
    ]
