"""What everything that can be started says of itself, whatever it does. Standard library only."""

from typing import Protocol

from common.declarations.strategy import Family, Launcher


class Program(Protocol):
    """What can be started: a strategy, a library of collectives, a way to multiply matrices, a probe."""

    name: str
    """No two programs have the same."""
    script: str
    """From the repository's root."""
    family: Family
    launcher: Launcher

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""
