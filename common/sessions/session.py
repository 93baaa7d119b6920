"""A session of the laboratory: rounds of launches, in a folder in which it goes on where it was interrupted."""

import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from common import command_line
from common.files import ensure_writable, locked, write_atomically
from common.launching.processes import signals_held
from common.measurement import machine
from common.records import manifest
from common.sessions.folder import order_seed, unfinished_or_new


class Arguments(Protocol):
    """The options that every session has, a dataclass with a default for each."""

    results: Path
    order_seed: int | None


class Launch(Protocol):
    """A planned launch: its name is that of its record and its log."""

    @property
    def name(self) -> str:
        """Unique in a session."""


class Record(Protocol):
    """What is kept of a launch."""

    status: str
    reason: str | None
    log: str | None


Rounds = Callable[[int, Path], Iterable[tuple[str, Sequence[Launch]]]]
"""From an order's seed and the session's folder the launches in their order: what a round is called, and its launches.
Each round is asked for when the one before has been made."""


def run(
    console: Console,
    kind: str,
    arguments: Arguments,
    identity: str,
    rounds: Rounds,
    make: Callable[[Launch, Path], Record],
    read: Callable[[Path], Record],
) -> Path:
    """Make every launch of the rounds that has no good record yet, alone on this machine; returns the folder.

    `kind` is the Nox session's name, `identity` what an interrupted session has in common with the one that goes on
    with it. `make` leaves one launch's record in the folder, and `read` reads one. Leaves by SystemExit where a signal
    asks for it. Raises UserError where another session fills the folder.
    """
    with machine.alone():
        folder = unfinished_or_new(arguments.results, kind, identity, "finished")
        refusal = f"Another session fills {folder}: wait for its end, or name another folder with --results."
        ensure_writable(folder / "lock")
        with locked(folder / "lock", refusal=refusal):
            seed = order_seed(folder, arguments.order_seed)
            again = command_line.of_session(kind, dataclasses.replace(arguments, order_seed=seed))
            write_atomically(folder / "command.txt", f"{again}\n".encode())
            console.print(f"Records go to {folder}; the launches' order has seed {seed}.")
            _fill(console, folder, rounds(seed, folder), make, read)
    return folder


def numbered(rounds: Sequence[Sequence[Launch]]) -> list[tuple[str, Sequence[Launch]]]:
    """The rounds, each with what it is called where there are so many of them."""
    return [(f"round {number} of {len(rounds)}", launches) for number, launches in enumerate(rounds, start=1)]


def ended(console: Console, records: Iterable[Record]) -> int:
    """Say how many launches ended how; returns 1 where one failed, else 0."""
    statuses = [record.status for record in records]
    counts = ", ".join(f"{statuses.count(each)} {each}" for each in ("ok", "unsupported", "failed"))
    console.print(f"{len(statuses)} launches: {counts}.")
    return int("failed" in statuses)


def _fill(
    console: Console,
    folder: Path,
    rounds: Iterable[tuple[str, Sequence[Launch]]],
    make: Callable[[Launch, Path], Record],
    read: Callable[[Path], Record],
) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        for title, launches in rounds:
            console.print(f"{title}:")
            for launch in launches:
                path = folder / f"{launch.name}.json"
                if path.exists() and read(path).status == "ok":
                    continue
                started = time.monotonic()
                try:
                    record = make(launch, folder)
                finally:
                    with signals_held():
                        manifest.note(folder, manifest.files_of(path.parent, path.stem))
                console.print(f"{_line_of(launch, record)} {time.monotonic() - started:>6.1f} s", markup=False)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    (folder / "finished").touch()


def _line_of(launch: Launch, record: Record) -> str:
    said = "" if record.status == "ok" else f": {record.reason} (log: {record.log})"
    return f"{record.status:>11}  {launch.name}{said}"
