"""Errors that a user can cause: one sentence with cause and remedy, and an exit status of their own."""

import importlib.util
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from typing import TextIO

REFUSED_STATUS = 2
"""Exit status of a program that refused its input before it trained anything."""

FAILED_STATUS = 1
"""Exit status of a launch that began and couldn't go on."""

PREFIX = "lockstep: "
"""What a line of ours begins with: after it comes the sentence of a refusal, or `FAILED` or `NOTE` and a sentence."""

FAILED, NOTE = "failed: ", "note: "
"""What tells the sentence of a failure, and a remark that ends nothing, from a refusal's."""

speaker: str | None = None
"""What a sentence on this process's end begins with once it trains, such as `rank 1: `; None: it doesn't train yet."""

has_failed = False
"""Whether this process has said why it can't go on, although others may wait for it."""

main_began: tuple[float, float] | None = None
"""Seconds from the machine's boot until a script's imports were done, and this process's processor time by then."""


class UserError(Exception):
    """Something a user can cause and mend. Its text is one sentence that names the cause and the remedy."""


class NotInstalledError(UserError):
    """A framework whose environment isn't made, or couldn't be."""


class LaunchFailedError(Exception):
    """A launch that began and can't go on for no fault of its input: a partner that died or never came.

    Its text is one sentence that names the cause and, where there is one, the remedy.
    """


def exit_with_one_line(main: Callable[[], None]) -> None:
    """Call `main` of a script whose imports are done, which is noted in `main_began`.

    On a `UserError` or a `LaunchFailedError` exit as `report` says. Any other exception is a bug of ours and keeps its
    traceback. What the output's encoding lacks is replaced wherever this process prints.
    """
    global speaker
    speaker = None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    note_main_began()
    try:
        main()
    except (LaunchFailedError, UserError) as error:
        sys.exit(report(error))


def note_main_began() -> None:
    """Note in `main_began` that this process's imports are done."""
    global main_began
    main_began = (time.clock_gettime(time.CLOCK_BOOTTIME), time.process_time())


def report(error: UserError | LaunchFailedError) -> int:
    """Print the error's sentence, and return the exit status that goes with it.

    A launch that trains already can only fail, by whatever error. Before that a `UserError` is a refusal.
    """
    if speaker is None and isinstance(error, UserError):
        print_refusal(str(error))
        return REFUSED_STATUS
    global has_failed
    has_failed = True
    print_failure(f"{speaker or ''}{error}")
    return FAILED_STATUS


def print_refusal(sentence: str) -> None:
    """Say why a program refuses its input."""
    print(f"{PREFIX}{sentence}", file=sys.stderr, flush=True)


def print_failure(sentence: str, output: TextIO | None = None) -> None:
    """Say why a launch that began can't go on, on standard error unless another `output` is given."""
    print(f"{PREFIX}{FAILED}{sentence}", file=output or sys.stderr, flush=True)


def print_note(sentence: str) -> None:
    """Say what a user should know, though the launch goes on."""
    print(f"{PREFIX}{NOTE}{sentence}", flush=True)


def require_framework(name: str) -> None:
    """End this program with one sentence, instead of a traceback from its imports, where `name` isn't installed."""
    if importlib.util.find_spec(name) is None:
        print_refusal(
            f"{name} isn't installed for {sys.executable}: run `nox -s {name}` once, then "
            f"`source .nox/{name}/bin/activate`."
        )
        sys.exit(REFUSED_STATUS)
