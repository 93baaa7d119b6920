"""How well predictions did: errors, coverage and rank correlation, beside simple baselines and the noise floor."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pandas as pd
from msgspec import structs

from common.contract.model import parameter_bytes
from common.contract.task import PRESETS
from common.prediction.forecast import scenario_of
from common.prediction.measured import Measured, Scenario
from common.prediction.message_costs import critical_path
from common.records.prediction import Baseline, Predicted, Predictions, Scores


def scored(kept: Predictions, launched: Measured, fitted_to: Measured) -> Predictions:
    """The kept predictions with what was measured of each since, and how well they did beside the baselines."""
    predicted = [
        structs.replace(each, measured_seconds=[*launched.steps.get(scenario_of(each), ())]) for each in kept.predicted
    ]
    baselines = baselines_of(fitted_to)
    return structs.replace(
        kept,
        predicted=predicted,
        scores=score([each for each in predicted if not each.oversubscribed], baselines),
        oversubscribed_scores=score([each for each in predicted if each.oversubscribed], baselines),
    )


def score(predicted: Sequence[Predicted], baselines: Mapping[str, Callable[[Predicted], float]]) -> Scores | None:
    """Score what was predicted and then measured; None where nothing was."""
    launched = [each for each in predicted if each.measured_seconds]
    if not launched:
        return None
    errors = _errors(launched, lambda each: each.seconds)
    launches = [(each, seconds) for each in launched for seconds in each.measured_seconds]
    rounds = [each.measured_seconds for each in launched if len(each.measured_seconds) > 1]
    return Scores(
        configurations=len(launched),
        launches=len(launches),
        median_error=float(np.median(np.abs(errors))),
        ninth_decile_error=float(np.percentile(np.abs(errors), 90)),
        largest_error=float(np.abs(errors).max()),
        bias=float(np.median(errors)),
        covered_80=sum(each.low_80 <= seconds <= each.high_80 for each, seconds in launches),
        covered_95=sum(each.low_95 <= seconds <= each.high_95 for each, seconds in launches),
        rank_correlation=_rank_correlation(launched),
        noise_floor=median(abs(median(own[::2]) / median(own[1::2]) - 1) for own in rounds) if rounds else None,
        baselines=[
            Baseline(
                name=name,
                median_error=float(np.median(np.abs(_errors(launched, predict)))),
                ninth_decile_error=float(np.percentile(np.abs(_errors(launched, predict)), 90)),
            )
            for name, predict in baselines.items()
        ],
    )


def _errors(launched: Sequence[Predicted], predict: Callable[[Predicted], float]) -> np.ndarray:
    return np.array([each.error_of(predict(each)) for each in launched])


def _rank_correlation(launched: Sequence[Predicted]) -> float | None:
    """Spearman's, over strategies, in each scenario that at least four have; the median of all."""
    scenario = ["preset", "rows", "workers", "hosts", "bandwidth_bits_per_second"]
    table = pd.DataFrame([structs.asdict(each) for each in launched], columns=[*scenario, "seconds"])
    table["measured"] = [median(each.measured_seconds) for each in launched]
    groups = [own for _, own in table.groupby(scenario, dropna=False) if len(own) > 3]
    correlations = [float(np.corrcoef(own[["seconds", "measured"]].rank().T)[0, 1]) for own in groups]
    return median(correlations) if correlations else None


def baselines_of(measured: Measured) -> dict[str, Callable[[Predicted], float]]:
    """Three ways to predict that need no model: each gives seconds per step."""

    def alone(asked: Predicted) -> float:
        own = {
            each: median(seconds)
            for each, seconds in measured.steps.items()
            if each.strategy == asked.strategy and each.workers == 1 and each.preset == asked.preset
        }
        nearest = min(own, key=lambda each: abs(math.log(each.rows / asked.rows)))
        return own[nearest] * asked.rows / nearest.rows

    def nearest_measured(asked: Predicted) -> float:
        own = [each for each in measured.steps if each.strategy == asked.strategy]
        return median(measured.steps[min(own, key=lambda each: _distance(each, asked))])

    def bytes_over_bandwidth(asked: Predicted) -> float:
        bits = asked.bandwidth_bits_per_second
        size = parameter_bytes(PRESETS[asked.preset])
        return alone(asked) + (8 * critical_path("all_reduce", asked.workers).share * size / bits if bits else 0.0)

    def amdahl(asked: Predicted) -> float:
        """A step's part that doesn't shrink with more workers is what two workers have shown (Amdahl, 1967)."""
        two = next(each for each in measured.steps if each.strategy == asked.strategy and each.workers == 2)
        one = median(measured.steps[replace(two, workers=1, hosts=1)])
        # N workers take s N + 1 - s times as long for N times the rows, where s is the part that doesn't divide.
        serial = min(max(median(measured.steps[two]) / one - 1, 0.0), 1.0)
        return alone(asked) * (serial * asked.workers + 1 - serial)

    return {
        "nearest measured": nearest_measured,
        "computing plus bytes over bandwidth": bytes_over_bandwidth,
        "Amdahl": amdahl,
    }


def _distance(each: Scenario, asked: Predicted) -> tuple[int, float, float]:
    """Another preset is farthest, then other numbers of workers, then other rows."""
    return (
        int(each.preset != asked.preset),
        abs(math.log(each.workers / asked.workers)),
        abs(math.log(each.rows / asked.rows)),
    )
