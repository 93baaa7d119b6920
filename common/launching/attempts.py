"""A launch that suffers a fault, or is started again from its checkpoint after it failed, and the account of it."""

from collections.abc import Mapping, Sequence

from common.contract.fault import parse
from common.contract.task import Task
from common.declarations.strategy import Strategy
from common.errors import REFUSED_STATUS, print_note
from common.launching.ending import TIMED_OUT_STATUS
from common.launching.injector import Injector
from common.launching.processes import Outcome, run_group
from common.records.files import write_record
from common.records.recovery import Attempt, Recovery, recovery_path

AGAIN = "It is started again from its checkpoint"
"""What the note begins with that separates the output of two attempts."""


def run(strategy: Strategy, task: Task, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Run the command, again after each failure as often as the task allows; returns how the last attempt ended.

    The account is left beside the task's record, however that ends.
    """
    assert task.record, "Its launcher names one."
    injector = Injector(task.fault, strategy.launcher.task_in)
    attempts: list[Attempt] = []
    with injector.listening():
        while True:
            started = injector.seconds()
            outcome = run_group([command], {**environment, **injector.variables}, task.deadline_seconds)
            status = TIMED_OUT_STATUS if outcome.timed_out else outcome.status
            attempts.append(
                Attempt(
                    started_seconds=started,
                    noticed_seconds=injector.seconds(outcome.noted_boottime_ns),
                    ended_seconds=injector.seconds(),
                    status=status,
                )
            )
            if status in (0, REFUSED_STATUS) or len(attempts) > task.restarts:
                break
            print_note(f"{AGAIN} ({len(attempts)} of {task.restarts}), since it ended with status {status}.")
    account = Recovery(
        fault=task.inject or "",
        injected_seconds=injector.injected_seconds,
        injected_process=injector.injected_process,
        attempts=attempts,
        moments=injector.moments,
    )
    path = recovery_path(task.record)
    write_record(path, account)
    print_note(f"{in_words(account)} ({path}).")
    return outcome


def in_words(account: Recovery) -> str:
    """What became of the launch, in a sentence without its end."""
    detection, next_step = account.detection_seconds, account.next_step_seconds
    words = [parse(account.fault).in_words if account.fault else "no fault"]
    if account.fault and account.injected_seconds is None:
        words.append("which it never came to")
    if detection is not None:
        words.append(f"noticed after {detection:.1f} s")
    if account.injected_seconds is not None:
        words.append("no step after it" if next_step is None else f"next step after {next_step:.1f} s")
    return ", ".join([*words, f"{account.steps_again} steps computed twice"])
