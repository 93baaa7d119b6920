"""What a calibration launches. Standard library only: Nox asks it under the user's own Python."""

from common.declarations import catalogue
from common.declarations.strategy import Strategy


def subject() -> Strategy:
    """The strategy of a calibration for which nobody names one: the first base of the quick profile."""
    # The smallest is the first of those that are alike.
    return min(catalogue.strategies().values(), key=lambda strategy: (strategy.most_workers != 1, not strategy.quick))
