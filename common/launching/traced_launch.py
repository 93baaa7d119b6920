"""Start one strategy with its framework's tracer, which leaves the messages of a step; else as
`common.launching.launch` does.

To start it: `python -m common.launching.traced_launch STRATEGY --workers 2 --preset pathway --record FILE`.
"""

import sys

from common.declarations import catalogue
from common.errors import UserError, exit_with_one_line
from common.launching import launch


def main() -> None:
    """Run one strategy as the command line says. Raises UserError where its framework has no tracer."""
    strategies = catalogue.strategies()
    family = strategies[sys.argv[1]].family if sys.argv[1:2] and sys.argv[1] in strategies else None
    if family and not family.tracer:
        raise UserError(f"{family.title} declares no tracer, so what {sys.argv[1]} sends isn't known.")
    # Without a strategy's name the launcher says what is wrong.
    launch.main(runner=family.tracer if family else None)


if __name__ == "__main__":
    exit_with_one_line(main)
