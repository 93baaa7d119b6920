"""Predictions in words and tables: the answer, the parts of a step, how far each strategy pays, and the scores."""

from functools import partial
from statistics import median

from scipy.stats import binomtest

from common.records.prediction import Predicted, Predictions, Scores
from reports import blocks
from reports.charts import prediction as charts

_PARTS = ("computing", "straggling", "exchange", "rest")


def headline(predictions: Predictions) -> blocks.Block:
    """The answer in one sentence."""
    if scores := predictions.scores or predictions.oversubscribed_scores:
        where = "had a core of its own" if predictions.scores else "shared cores"
        return blocks.headline(
            f"Held to {scores.launches} launches of {scores.configurations} configurations that were drawn after the "
            f"models were fitted, predictions were wrong by {blocks.percent(scores.median_error, 1)} in the median "
            f"where each worker {where}."
        )
    most = max(each.workers for each in predictions.predicted)
    own = [each for each in predictions.predicted if each.workers == most]
    best = max(own, key=lambda each: each.samples_per_second)
    low, high = best.alone_seconds / best.high_95, best.alone_seconds / best.low_95
    share = f"{blocks.percent(best.efficiency)} ({blocks.interval(low, high, blocks.percent)})"
    kind = "an extrapolation" if best.is_extrapolated else "a prediction"
    return blocks.headline(
        f"With {blocks.workers(most)} {best.strategy} would have most samples per second, each worker {share} of what "
        f"one has alone: {kind}."
    )


def answers(predictions: Predictions) -> list[blocks.Block]:
    """A row for each strategy and number of workers, and the figure."""
    lines = [
        [
            each.strategy,
            f"{each.workers:,} on {each.hosts:,}",
            blocks.with_interval(*(1e3 * value for value in (each.seconds, each.low_95, each.high_95)), blocks.number),
            f"{each.samples_per_second:,.0f}",
            blocks.percent(each.efficiency),
            *(blocks.milliseconds(getattr(each, f"{part}_seconds")) for part in _PARTS),
            blocks.DASH if each.bandwidth_for_90 is None else blocks.bandwidth(each.bandwidth_for_90),
            "all tried" if each.half_efficiency_workers is None else f"{each.half_efficiency_workers:,}",
        ]
        for each in predictions.predicted
    ]
    notes = [
        "Step in milliseconds, below it the interval that 95 of 100 new launches lie in, if the assumptions hold.",
        "Computing is that of two workers beside one another, stragglers what the slowest of all adds. Exchange is "
        "what messages add as the step's graph plays them, rest what the graph doesn't explain of two workers' step.",
        "For 90 %: the least bandwidth with which a worker has 90 % of what one has alone; a dash: none has.",
        "Half: the most workers, by doubling up to 65,536, of which each has half of what one has alone.",
    ]
    columns = ["strategy", "workers on hosts", "step, ms", "samples/s", "of one", "computing", "stragglers"]
    table = blocks.table([*columns, "exchange", "rest", "for 90 %", "half"], lines, notes, left=(0, 1))
    figure = blocks.figure(
        "scaling-out",
        partial(charts.scaling_out, predictions.predicted),
        "A step, the rate and the efficiency over workers, with the bands of 80 % (darker) and 95 % of new launches. "
        "Dashed, with open marks: extrapolated beyond the workers that predictions were held to.",
        "Three panels with a line for each strategy over workers: the milliseconds of a step, samples per second, and "
        "those of a worker in per cent of one alone.",
        stacks=True,
    )
    return [blocks.heading("What a step would take"), table, figure]


def verification(predictions: Predictions) -> list[blocks.Block]:
    """The scores, beside baselines and the noise floor, and every configuration that was held out."""
    scored = {"a core for each worker": predictions.scores, "workers share cores": predictions.oversubscribed_scores}
    parts: list[blocks.Block] = [blocks.heading("Predictions held to launches")]
    for title, scores in scored.items():
        if scores:
            parts += [blocks.heading(blocks.capitalized(title), 2), _scores(scores)]
    measured = [each for each in predictions.predicted if each.measured_seconds]
    parts.append(
        blocks.figure(
            "held-out",
            partial(charts.held_out, measured),
            "Predicted over measured, with 95 % bands. Open marks: workers share cores.",
            "Predicted milliseconds of a step over measured ones, a mark for each configuration.",
        )
    )
    lines = [
        [
            each.strategy,
            each.preset,
            f"{each.rows}",
            blocks.world(each.workers, each.oversubscribed),
            blocks.link(each.bandwidth_bits_per_second, each.latency_seconds),
            blocks.milliseconds(each.seconds),
            blocks.interval(1e3 * each.low_95, 1e3 * each.high_95, blocks.number),
            ", ".join(blocks.milliseconds(seconds) for seconds in each.measured_seconds) or blocks.DASH,
        ]
        for each in predictions.predicted
    ]
    columns = ["strategy", "preset", "rows", "workers", "link", "predicted, ms", "95 %", "measured, ms"]
    notes = blocks.oversubscribed_note(each.oversubscribed for each in predictions.predicted)
    return [*parts, _by_strategy(measured), blocks.table(columns, lines, notes, left=(0, 1, 4))]


def _by_strategy(measured: list[Predicted]) -> blocks.Block:
    errors: dict[str, list[float]] = {}
    for each in measured:
        errors.setdefault(each.strategy, []).append(each.error_of(each.seconds))
    sizes = {name: sorted(map(abs, own)) for name, own in errors.items()}
    lines = [
        [
            name,
            f"{len(own)}",
            blocks.percent(median(own), 1),
            blocks.percent(own[-1], 1),
            blocks.signed_percent(median(errors[name]), 1),
        ]
        for name, own in sorted(sizes.items(), key=lambda item: -median(item[1]))
    ]
    return blocks.table(["strategy", "configurations", "median error", "largest", "bias"], lines, [], left=(0,))


def _scores(scores: Scores) -> blocks.Block:
    lines = [["the model", blocks.percent(scores.median_error, 1), blocks.percent(scores.ninth_decile_error, 1)]]
    lines += [
        [each.name, blocks.percent(each.median_error, 1), blocks.percent(each.ninth_decile_error, 1)]
        for each in scores.baselines
    ]
    if scores.noise_floor is not None:
        lines.append(["noise: one round predicts the other", blocks.percent(scores.noise_floor, 1), blocks.DASH])
    correlation = blocks.DASH if scores.rank_correlation is None else blocks.ratio(scores.rank_correlation)
    notes = [
        f"{scores.configurations} configurations, {scores.launches} launches. Largest error "
        f"{blocks.percent(scores.largest_error)}, bias {blocks.signed_percent(scores.bias, 1)}, rank correlation of "
        f"strategies {correlation}.",
        f"80 % bands held {_of(scores.covered_80, scores.launches)} launches, 95 % bands "
        f"{_of(scores.covered_95, scores.launches)}.",
    ]
    return blocks.table(["predicted by", "median error", "nine of ten within"], lines, notes, left=(0,))


def _of(count: int, total: int) -> str:
    """The share with its 95 % interval (Clopper & Pearson, 1934)."""
    found = binomtest(count, total).proportion_ci(0.95, method="exact")
    surely = blocks.interval(found.low, found.high, blocks.percent)
    return f"{count} of {total} ({blocks.percent(count / total)}, {surely})"


def assumptions(predictions: Predictions) -> list[blocks.Block]:
    """What is taken for granted, and what it rests on."""
    sources = blocks.listed([*predictions.sources])
    digest = f"Fitted to {sources}; the models' SHA-256 begins with {predictions.digest[:16]}."
    return [blocks.heading("What predictions take for granted"), blocks.items([*predictions.assumptions, digest])]
