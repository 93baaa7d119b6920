"""Shows a launch's standard error such that one sentence of ours is the last thing on the screen.

A launcher that loses a process prints a page of its own after that process's sentence. That page goes to the launch's
log.
"""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from common.errors import UserError, print_failure, print_refusal
from common.files import write_atomically
from common.launching import exit_cause
from common.launching.exit_cause import Ended

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

        def read() -> None:
            is_held = False
            with os.fdopen(reader, "rb") as lines:
                for line in lines:
                    self._lines.append(line)
                    is_held = is_held or any(exit_cause.sentences(line.decode(errors="replace")))
                    if not is_held:
                        self.show_rest()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield writer
        finally:
            os.close(writer)
            # A process that not even SIGKILL has ended would hold the other end on.
            thread.join(_LEAVE_SECONDS)

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
