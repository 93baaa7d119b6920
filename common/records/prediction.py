"""What was predicted, before it was measured or in place of that: bands of the seconds of a step."""

from pathlib import Path
from statistics import median

from common.records.header import Amount, Count, Part, Positive, Seconds, Versioned

FILE = "predictions.predicted"
"""The file in a session's folder."""


class Predicted(Part, frozen=True, kw_only=True):
    """The step of one strategy in one scenario."""

    strategy: str
    colors: list[str] = []
    preset: str
    rows: Positive
    """Of each worker, in a step."""
    workers: Positive
    hosts: Positive
    bandwidth_bits_per_second: Amount | None = None
    latency_seconds: Seconds = 0.0
    seconds: Seconds
    """The median."""
    low_80: Seconds
    high_80: Seconds
    low_95: Seconds
    high_95: Seconds
    alone_seconds: Seconds
    """The same rows in one worker."""
    computing_seconds: Seconds
    """Of two workers beside one another."""
    straggling_seconds: Seconds
    """More than that for the slowest of all workers."""
    exchange_seconds: float
    """What the messages add to computing, as the graph plays them."""
    rest_seconds: float
    """What no factor on the costs of messages explains of the step of two workers."""
    is_extrapolated: bool
    """Whether more workers are asked for than predictions are held to launches with."""
    oversubscribed: bool = False
    """Whether workers share cores."""
    half_efficiency_workers: Count | None = None
    """The most workers, by doubling, that are half as efficient as one at least; None where all tried are."""
    bandwidth_for_90: Amount | None = None
    """The least bandwidth, in bits per second, with which they are 90 % as efficient as one; None where none does."""
    measured_seconds: list[Seconds] = []
    """Of each launch that was made of it afterwards."""

    @property
    def efficiency(self) -> float:
        """Samples per second of a worker over those of one alone."""
        return self.alone_seconds / self.seconds

    def error_of(self, seconds: float) -> float:
        """By how much these seconds, predicted in whatever way, differ from the median launch, over that."""
        return seconds / median(self.measured_seconds) - 1

    @property
    def samples_per_second(self) -> float:
        """Of all workers."""
        return self.workers * self.rows / self.seconds


class Baseline(Part, frozen=True, kw_only=True):
    """A simple way to predict, and how well it did."""

    name: str
    median_error: Amount
    ninth_decile_error: Amount


class Scores(Part, frozen=True, kw_only=True):
    """How well predictions did on what was held out."""

    configurations: Count
    """Scenarios that were held out, by their name in earlier files."""
    launches: Count
    median_error: Amount
    """Of |predicted / measured - 1|, over scenarios."""
    ninth_decile_error: Amount
    largest_error: Amount
    bias: float
    """Median of predicted / measured - 1."""
    covered_80: Count
    """Launches within their 80 % band."""
    covered_95: Count
    rank_correlation: float | None = None
    """Spearman's, of samples per second over the strategies of a scenario, the median over scenarios."""
    noise_floor: Amount | None = None
    """The median error with which the first half of the launches predicts the second."""
    baselines: list[Baseline] = []


class Predictions(Versioned, frozen=True, kw_only=True):
    """All that was predicted in one session, and what it rests on."""

    predicted_at: str
    """When they were made, ISO 8601 with the zone."""
    sources: list[str]
    """Folders with what was measured."""
    digest: str
    """SHA-256 of the fitted models, from which the held-out scenarios were drawn."""
    assumptions: list[str]
    predicted: list[Predicted]
    scores: Scores | None = None
    """Where workers have cores of their own."""
    oversubscribed_scores: Scores | None = None


def predictions_path(folder: Path) -> Path:
    """Where a session keeps them."""
    return folder / FILE
