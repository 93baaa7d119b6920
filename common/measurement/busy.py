"""Run a strategy's script with busy work in its loop, which makes every step longer by a known share.

To start it: `python -m common.measurement.busy SCRIPT OPTIONS`.
"""

import time
from collections.abc import Callable

from common.measurement.run import Run
from common.measurement.runner import run_script

SHARE = 0.05
"""Of the time of a step, what the busy work after it takes."""


def main() -> None:
    """Run the script that the first argument names, as if it had been started itself."""
    Run.observe = with_busy_work(Run.observe)
    run_script()


def with_busy_work(observe: Callable[..., None], share: float = SHARE) -> Callable[..., None]:
    """`Run.observe`, before which this process spins, within the window's clock, for a share of the step's own time.

    That time is what the steps of the window before took without the spinning. There is none in the first step, which
    compiles, nor in the rest of the warm-up's first windows. Where a device computes meanwhile, the step becomes longer
    by less.
    """
    spin_seconds = 0.0
    windows, steps_of_window, spun_of_window = 0, 0, 0.0

    def observe_busily(run: Run, losses: object, rows: object = 0, steps: int = 1) -> None:
        nonlocal spin_seconds, windows, steps_of_window, spun_of_window
        spun_of_window += _spin(steps * spin_seconds)
        steps_of_window += steps
        before = run.clock.training_seconds
        observe(run, losses, rows, steps)
        if window_seconds := run.clock.training_seconds - before:
            windows += 1
            if windows > 1:
                spin_seconds = share * (window_seconds - spun_of_window) / steps_of_window
            steps_of_window, spun_of_window = 0, 0.0

    return observe_busily


def _spin(seconds: float) -> float:
    """Keep this core busy for so long; returns how long it really was."""
    start = now = time.perf_counter()
    while now - start < seconds:
        now = time.perf_counter()
    return now - start


if __name__ == "__main__":
    main()
