"""Errors that a user can cause: one sentence with cause and remedy, and an exit status of their own."""

import importlib.util
import sys
import time
from collections.abc import Callable

REFUSED_STATUS = 2
"""Exit status of a program that refused its input before it trained anything."""

FAILED_STATUS = 1
"""Exit status of a launch that began and couldn't go on."""


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

    On a `UserError` print its one sentence and exit with `REFUSED_STATUS`; on a `LaunchFailedError` print its sentence,
    marked as a failure, and exit with `FAILED_STATUS`. Any other exception is a bug of ours and keeps its traceback.
    """
    global main_began
    main_began = (time.clock_gettime(time.CLOCK_BOOTTIME), time.process_time())
    try:
        main()
    except LaunchFailedError as error:
        print(f"lockstep: failed: {error}", file=sys.stderr, flush=True)
        sys.exit(FAILED_STATUS)
    except UserError as error:
        print(f"lockstep: {error}", file=sys.stderr, flush=True)
        sys.exit(REFUSED_STATUS)


def require_framework(name: str) -> None:
    """End this program with one sentence, instead of a traceback from its imports, where `name` isn't installed."""
    if importlib.util.find_spec(name) is None:
        print(
            f"lockstep: {name} isn't installed for {sys.executable}: run `nox -s {name}` once, then "
            f"`source .nox/{name}/bin/activate`.",
            file=sys.stderr,
            flush=True,
        )
        sys.exit(REFUSED_STATUS)
