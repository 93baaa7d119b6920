"""What the words of a report mean: the page tells it where each of them stands first."""

TERMS = {
    "weak scaling": "The rows of each worker stay the same, so more workers train on more rows per step.",
    "strong scaling": "The rows of all workers together stay the same, so each has fewer.",
    "speed-up": "Samples per second over those of one worker of the base, by the medians.",
    "efficiency": "Speed-up divided by the number of workers: 100 % is N times as fast with N workers.",
    "base": "The strategy that distributes nothing, of the same framework: one process computes alone.",
    "rounds": "Blocks of launches, each configuration once, in shuffled order.",
    "95 % interval": "From order statistics of the launches: it holds the true median in 95 of 100 experiments.",
    "95 % confidence": "In at most 5 of 100 comparisons of equally fast strategies some would be called different.",
    "power": "How often a test finds a difference that is there.",
    "equivalent": "The difference is shown to be smaller than the margin that was set beforehand.",
    "gradient exchange": "What makes training distributed: every worker's gradients reach all the others.",
    "T_comp": "The time of the same step, in the same processes, without gradient exchange.",
    "slowest rank": "Of a synchronous step, for which all others wait: the straggler.",
    "oracle": "The same training in NumPy, in float64, in one process.",
    "residual": "The share of an update that the declared recipe doesn't explain.",
    "asynchronous": "Workers don't wait for one another, so the order of their updates isn't repeatable.",
    "other maths": "Options that round or approximate on purpose: shown, and not ranked.",
}
