"""The words that a report uses in a sense of its own, each explained once."""

from reports import blocks
from reports.tables.material import Material

WORDS = {
    "allocation": "The nodes and cores that Slurm gave to one job. Every launch there is a step of that job.",
    "baseline": "The framework's own program without distribution. A speed-up is a rate over one worker of it.",
    "certificate": "Whether a launch computed the same as a float64 NumPy run of the same rows, step by step.",
    "confidence interval": "From repeated experiments, 95 of 100 such intervals hold the true value.",
    "configuration": "Preset, task, scaling and machine, a strategy with its options and hosts, and a number of "
    "workers: what is never pooled with anything else.",
    "equivalent": "A test shows that two strategies differ by less than the margin. Without that test they may differ.",
    "exposed communication": "What a step takes with gradient exchange beyond the same step without it, in one round.",
    "launch": "One start of a strategy's processes. A number n counts launches, or rounds where it says so.",
    "margin": "The difference that nobody cares about. It was set before the first launch.",
    "oversubscribed": "More threads than cores, so that they take turns. Such numbers are marked and never ranked.",
    "p value": "How often strategies that are equally fast would differ by as much. It is no size of a difference.",
    "relative": "How many times as long as the fastest a strategy takes for the same work.",
    "round": "A block of launches, each configuration once. Strategies are compared within rounds.",
    "significant": "A difference that a test shows to be there, however small. Its size is the ratio beside it.",
    "straggler": "The slowest rank of a synchronous step, for which all others wait.",
    "weak and strong scaling": "The rows of each worker stay the same, or the rows of all workers together do.",
}
"""By their words, in alphabetical order, the explanations of the glossary."""


def section(_: Material) -> list[blocks.Block]:
    """Return the glossary: a table of words and what they mean here."""
    rows = [[word, meaning] for word, meaning in WORDS.items()]
    return [
        blocks.heading("Glossary", level=2),
        blocks.table(["word", "meaning"], rows, [], left=(0, 1), wide={1: 1}),
    ]
