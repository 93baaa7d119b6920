"""How predictions are shown: one table of what was predicted, and those that hold it to launches."""

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd
from scipy.stats import binomtest

from common.observations.display import Display, Measure, Series, Table
from common.observations.numbers import DAGGER, DASH, bandwidth, interval, link, number, percent, ratio, signed_percent
from common.observations.table import Observation
from common.records.prediction import Predicted, Predictions, Scores

_PARTS = {
    "computing": ("computing", "that of two workers beside one another"),
    "straggling": ("stragglers", "what the slowest of all adds"),
    "exchange": ("exchange", "what messages add as the step's graph plays them"),
    "rest": ("rest", "what the graph doesn't explain of two workers' step"),
}
"""Parts of a step, as the record has them: what they are called, and what they are."""


def observe(name: str, predictions: Predictions) -> Iterator[Observation]:
    """The rows of predictions; none where they were held to launches, which only tables of their own tell."""
    predicted = [] if _scores_by_title(predictions) else predictions.predicted
    links = dict.fromkeys(_link(each) for each in predicted if each.bandwidth_bits_per_second or each.latency_seconds)
    for each in predicted:
        row = partial(
            Observation,
            world=", ".join([each.preset, *(f"hosts joined with {own}" for own in links)]),
            x=each.workers,
            series=each.strategy,
            round=0,
            launch="",
            oversubscribed=each.oversubscribed,
        )
        yield row(measure="seconds", value=each.seconds, low=each.low_95, high=each.high_95)
        for measure in ("samples_per_second", "efficiency"):
            yield row(measure=measure, value=getattr(each, measure))
        for part in _PARTS:
            yield row(measure=part, value=getattr(each, f"{part}_seconds"))


def show(gathered: Sequence[Predictions], observed: pd.DataFrame) -> Display:
    """How a session's predictions are shown, and how well they did."""
    [predictions] = gathered
    scores = _scores_by_title(predictions)
    colors = {each.strategy: each.colors for each in predictions.predicted}
    digest = f"{predictions.digest[:16]} begins the SHA-256 of the models, fitted to {', '.join(predictions.sources)}."
    return Display(
        made_at=predictions.predicted_at,
        title="Before you scale out",
        answer=_answer_of_scores(scores) if scores else _answer(predictions.predicted),
        contender="strategy",
        x="workers",
        series=[Series(name=name, colors=own) for name, own in colors.items()],
        measures=[
            Measure(name="seconds", label="step, ms", factor=1e3),
            Measure(name="samples_per_second", label="samples/s"),
            Measure(name="efficiency", label="of one, %", factor=100),
            *(
                Measure(name=part, label=f"{name}, ms", factor=1e3, meaning=meaning)
                for part, (name, meaning) in _PARTS.items()
            ),
        ],
        sentences=[] if scores else ["Of 100 new launches 95 lie in a step's interval, if the assumptions hold."],
        next_steps=[] if scores else ["nox -s predict -- --verify: holds predictions to launches over virtual hosts."],
        method=[digest],
        tables=[
            *(_verification(scores, predictions.predicted) if scores else [_how_far(predictions.predicted)]),
            Table(title="What is assumed", columns=["assumption"], rows=[[each] for each in predictions.assumptions]),
        ],
    )


def _scores_by_title(predictions: Predictions) -> dict[str, Scores]:
    scored = {"a core for each worker": predictions.scores, "workers share cores": predictions.oversubscribed_scores}
    return {title: own for title, own in scored.items() if own}


def _answer(predicted: Sequence[Predicted]) -> str:
    most = max(each.workers for each in predicted)
    best = max((each for each in predicted if each.workers == most), key=lambda each: each.samples_per_second)
    share = interval(best.alone_seconds / best.high_95, best.alone_seconds / best.low_95, percent)
    kind = "an extrapolation" if best.is_extrapolated else "a prediction"
    return (
        f"With {most} worker{'s' * (most > 1)} {best.strategy} would have most samples per second, each worker "
        f"{percent(best.efficiency)} ({share}) of what one has alone: {kind}."
    )


def _how_far(predicted: Sequence[Predicted]) -> Table:
    """How much bandwidth a strategy needs, and with how many workers it is half as efficient as one."""
    rows = [
        [
            each.strategy,
            f"{each.workers:,} on {each.hosts:,}",
            DASH if each.bandwidth_for_90 is None else bandwidth(each.bandwidth_for_90),
            "all tried" if each.half_efficiency_workers is None else f"{each.half_efficiency_workers:,}",
            "extrapolated" if each.is_extrapolated else "predicted",
        ]
        for each in predicted
    ]
    notes = [
        "For 90 %: the least bandwidth with which a worker has 90 % of what one has alone; a dash: none has.",
        "Half: the most workers, by doubling up to 65,536, of which each has half of what one has alone.",
        "Extrapolated: more workers than predictions are held to launches with.",
    ]
    columns = ["strategy", "workers on hosts", "for 90 %", "half", "this is"]
    return Table(title="How far it pays", columns=columns, rows=rows, notes=notes)


def _answer_of_scores(scores: dict[str, Scores]) -> str:
    title, own = next(iter(scores.items()))
    return (
        f"Held to {own.launches} launches of {own.configurations} configurations that were drawn after the models were "
        f"fitted, predictions were wrong by {percent(own.median_error, 1)} in the median ({title})."
    )


def _verification(scores: dict[str, Scores], predicted: Sequence[Predicted]) -> Iterator[Table]:
    """The scores beside baselines and the noise floor, each strategy's errors, and all that was held out."""
    for title, own in scores.items():
        yield _scores(title, own)
    measured = [each for each in predicted if each.measured_seconds]
    yield _by_strategy(measured)
    rows = [
        [
            each.strategy,
            each.preset,
            f"{each.rows}",
            f"{each.workers}{DAGGER * each.oversubscribed}",
            _link(each),
            number(1e3 * each.seconds),
            interval(1e3 * each.low_95, 1e3 * each.high_95, number),
            ", ".join(number(1e3 * seconds) for seconds in each.measured_seconds) or DASH,
        ]
        for each in predicted
    ]
    columns = ["strategy", "preset", "rows", "workers", "link", "predicted, ms", "95 %", "measured, ms"]
    yield Table(title="What was held out", columns=columns, rows=rows)


def _scores(title: str, scores: Scores) -> Table:
    rows = [["the model", percent(scores.median_error, 1), percent(scores.ninth_decile_error, 1)]]
    rows += [
        [each.name, percent(each.median_error, 1), percent(each.ninth_decile_error, 1)] for each in scores.baselines
    ]
    if scores.noise_floor is not None:
        rows.append(["noise: one round predicts the other", percent(scores.noise_floor, 1), DASH])
    correlation = DASH if scores.rank_correlation is None else ratio(scores.rank_correlation)
    notes = [
        f"{scores.configurations} configurations, {scores.launches} launches. Largest error "
        f"{percent(scores.largest_error)}, bias {signed_percent(scores.bias, 1)}, rank correlation of strategies "
        f"{correlation}.",
        f"80 % bands held {_of(scores.covered_80, scores.launches)} launches, 95 % bands "
        f"{_of(scores.covered_95, scores.launches)}.",
    ]
    columns = ["predicted by", "median error", "nine of ten within"]
    return Table(title=f"Held to launches: {title}", columns=columns, rows=rows, notes=notes, is_printed=True)


def _by_strategy(measured: Sequence[Predicted]) -> Table:
    errors = pd.DataFrame([(each.strategy, each.error_of(each.seconds)) for each in measured], columns=["name", "bias"])
    errors["size"] = errors["bias"].abs()
    found = errors.groupby("name").agg(
        count=("size", "size"), size=("size", "median"), largest=("size", "max"), bias=("bias", "median")
    )
    by_size = found.sort_values("size", ascending=False).to_dict("index")
    rows = [
        [name, str(own["count"]), percent(own["size"], 1), percent(own["largest"], 1), signed_percent(own["bias"], 1)]
        for name, own in by_size.items()
    ]
    columns = ["strategy", "configurations", "median error", "largest", "bias"]
    return Table(title="Errors by strategy", columns=columns, rows=rows)


def _of(count: int, total: int) -> str:
    """The share with its 95 % interval (Clopper & Pearson, 1934)."""
    found = binomtest(count, total).proportion_ci(0.95, method="exact")
    return f"{count} of {total} ({percent(count / total)}, {interval(found.low, found.high, percent)})"


def _link(each: Predicted) -> str:
    return link(each.bandwidth_bits_per_second, each.latency_seconds)
