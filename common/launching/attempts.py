"""A launch that suffers a fault, or is started again from its checkpoint after it failed, and the account of it."""

from collections.abc import Callable
from pathlib import Path

from common.contract.fault import parse
from common.contract.task import Task
from common.declarations.strategy import Launcher
from common.errors import REFUSED_STATUS
from common.launching import exit_cause
from common.launching.exit_cause import ENDED_WITH_SIGNAL, TIMED_OUT_STATUS
from common.launching.injector import Injector
from common.launching.places.place import LOST_STATUS
from common.launching.processes import Outcome
from common.records.files import write_record
from common.records.recovery import Attempt, Recovery, recovery_path

AGAIN = "It is started again from its checkpoint"
"""What the note begins with that separates the output of two attempts."""


def run(
    task: Task, record: Path, injector: Injector, start: Callable[[], Outcome], note: Callable[[str], object]
) -> Outcome:
    """`start` the launch, again after each failure as often as the task allows; returns how the last attempt ended.

    The account is left beside the `record`, however that ends. `note` says what isn't in the launch's own output.
    """
    attempts: list[Attempt] = []
    with injector.listening():
        while True:
            started = injector.seconds()
            outcome = start()
            attempts.append(
                Attempt(
                    started_seconds=started,
                    noticed_seconds=injector.seconds(outcome.noted_boottime_ns),
                    ended_seconds=injector.seconds(),
                    status=outcome.status,
                )
            )
            if outcome.status in (0, REFUSED_STATUS) or len(attempts) > task.restarts:
                break
            injector.mend()
            note(f"{AGAIN} ({len(attempts)} of {task.restarts}), since it ended with status {outcome.status}.")
    account = Recovery(
        fault=task.inject or "",
        injected_seconds=injector.injected_seconds,
        injected_process=injector.injected_process,
        reached_factor=injector.reached_factor,
        attempts=attempts,
        moments=injector.moments,
    )
    path = recovery_path(record)
    write_record(path, account)
    note(f"{in_words(account)} ({path}).")
    return outcome


def in_words(account: Recovery) -> str:
    """What became of the launch, in a sentence without its end."""
    detection, next_step = account.detection_seconds, account.next_step_seconds
    words = [parse(account.fault).in_words if account.fault else "no fault"]
    if account.reached_factor is not None:
        words.append(f"{account.reached_factor:.1f} times in fact")
    if account.fault and account.injected_seconds is None:
        words.append("which it never came to")
    if detection is not None:
        words.append(f"noticed after {detection:.1f} s")
    if account.injected_seconds is not None:
        words.append("no step after it" if next_step is None else f"next step after {next_step:.1f} s")
    return ", ".join([*words, f"{account.steps_again} steps computed twice"])


def noticed(account: Recovery, log: str, launcher: Launcher, deadline_seconds: float) -> tuple[str, str]:
    """Who ended the first attempt, whose output the `log` begins with, and in which words; empty where nobody did."""
    if not account.attempts or not account.attempts[0].status:
        return "", ""
    status, log = account.attempts[0].status, log.partition(AGAIN)[0]
    words = exit_cause.read(status, deadline_seconds, log, launcher).reason or ""
    if status == TIMED_OUT_STATUS:
        return "the deadline", words
    if status == LOST_STATUS:
        return "Lockstep", "its connection to the host ended."
    if ENDED_WITH_SIGNAL not in words:
        return "the library", words
    return ("Lockstep" if any(each.reason == words for each in exit_cause.sentences(log)) else launcher.name), words
