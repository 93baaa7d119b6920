"""What everything that can be started says of itself, whatever it does. Standard library only."""

from typing import Protocol

from common.declarations.strategy import Family, Launcher


class Program(Protocol):
    """What can be started: a strategy, a library of collectives, a way to multiply matrices, a probe."""

    @property
    def name(self) -> str:
        """What it is called everywhere; no two programs have the same."""

    @property
    def script(self) -> str:
        """From the repository's root."""

    @property
    def family(self) -> Family:
        """What it shares with others of its folder."""

    @property
    def launcher(self) -> Launcher:
        """What starts its processes."""

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""
