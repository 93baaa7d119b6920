"""Shows a launch on the screen: what it waits for, and its standard error, with one sentence of ours last.

A launcher that loses a process prints a page of its own after that process's sentence. That page goes to the launch's
log.
"""

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from common.errors import UserError, print_failure, print_note, print_refusal
from common.files import write_atomically
from common.launching import exit_cause
from common.launching.exit_cause import Ended
from common.measurement.startup import FIRST_STEP, UP

_FIRST_SECONDS, _NEXT_SECONDS = 8.0, 30.0
_LEAVE_SECONDS = 5.0
"""What the reader has for coming to the end of what was written."""


class ErrorOutput:
    """The lines of a launch's standard error, shown up to the first sentence on why a process ends."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._shown = 0
        """How many of the lines are on the screen."""

    @property
    def text(self) -> str:
        """Everything that was written."""
        return b"".join(self._lines).decode(errors="replace")

    @contextmanager
    def stream(self) -> Generator[int]:
        """Give the descriptor that processes write to. All of it has been read when the block is over."""
        self.show_rest()
        reader, writer = os.pipe()
        thread = threading.Thread(target=self._read, args=(reader,), daemon=True)
        thread.start()
        try:
            yield writer
        finally:
            os.close(writer)
            # A process that not even SIGKILL has ended would hold the other end on.
            thread.join(_LEAVE_SECONDS)

    def _read(self, reader: int) -> None:
        is_held = False
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                self._lines.append(line)
                is_held = is_held or any(exit_cause.sentences(line.decode(errors="replace")))
                if not is_held:
                    self.show_rest()

    def show_rest(self) -> None:
        """Print the lines that aren't on the screen yet."""
        rest, self._shown = self._lines[self._shown :], len(self._lines)
        sys.stderr.buffer.write(b"".join(rest))
        sys.stderr.flush()

    def conclude(self, program: str, ended: Ended, log: Path) -> None:
        """Print why the launch of this `program` ended, and keep what isn't on the screen in the `log`, which it names.

        Where the log can't be kept, everything is shown first.
        """
        if self._shown == len(self._lines) and self._lines and not self._lines[-1].endswith(b"\n"):
            # The last line of a launcher's page may be open.
            sys.stderr.write("\n")
        sentence = str(ended.reason).replace("It ended", f"{program} ended", 1).rstrip(".")
        is_page = any(not any(exit_cause.sentences(line.decode(errors="replace"))) for line in self._lines)
        try:
            if is_page:
                write_atomically(log, b"".join(self._lines))
                sentence += f" (all error output: {log})"
        except UserError:
            self.show_rest()
        (print_failure if ended.status == "failed" else print_refusal)(f"{sentence}.")


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
