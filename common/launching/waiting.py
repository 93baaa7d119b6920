"""Says what a launch waits for, while its processes haven't come to their first step yet."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from common.errors import print_note
from common.measurement.startup import FIRST_STEP, UP

_FIRST_SECONDS, _NEXT_SECONDS = 8.0, 30.0


@contextmanager
def waiting(folder: Path, processes: int, deadline_seconds: float) -> Generator[None]:
    """Print a note within ten seconds, and then every 30 s, until the first step or the end of the block.

    It says how many of the `processes` are up, by what they leave in the `folder` (`common.measurement.startup`), and
    how long it is until the deadline. Of no processes nothing is said.
    """
    is_over, deadline = threading.Event(), time.monotonic() + deadline_seconds

    def tell() -> None:
        seconds = _FIRST_SECONDS
        while processes and not is_over.wait(seconds) and not (folder / FIRST_STEP).exists():
            up, left = len([*folder.glob(f"{UP}*")]), deadline - time.monotonic()
            print_note(
                f"no step yet: {min(up, processes)} of {processes} processes are up, {left:.0f} s until the deadline."
            )
            seconds = _NEXT_SECONDS

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
