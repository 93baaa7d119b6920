"""Made-up accounts of launches that suffered a fault."""

import dataclasses
from pathlib import Path

from msgspec import structs

from common.contract.task import PRESETS
from common.records.files import write_record
from common.records.recovery import Attempt, Moment, Recovery, recovery_path
from tests.reports.records import make_record

TASK = dataclasses.replace(
    PRESETS["digits"], workers=2, seed=3, steps=300, checkpoint=Path("weights.safetensors"), checkpoint_steps=50
)


def attempt(started, noticed, ended, status=0):
    return Attempt(started_seconds=started, noticed_seconds=noticed, ended_seconds=ended, status=status)


def moments(process, rank, *reached):
    return [Moment(rank=rank, process=process, step=step, seconds=seconds) for step, seconds in reached]


RESTARTED = Recovery(
    fault="kill:rank=1,step=160",
    injected_seconds=4.0,
    injected_process=12,
    attempts=[attempt(0, 4.5, 4.75, 1), attempt(4.75, 12, 12)],
    moments=[
        *moments(11, 0, (0, 2.0), (140, 3.7), (150, 3.8)),
        *moments(12, 1, (0, 2.0), (150, 3.8), (160, 3.9)),
        # What was under way when the signal came.
        *moments(11, 0, (160, 4.01)),
        *moments(21, 0, (150, 8.0), (151, 9.0), (300, 11.0)),
        *moments(22, 1, (150, 8.1), (151, 9.1), (300, 11.0)),
    ],
)


def write_session(folder):
    """A session's folder: three rounds of a launch undisturbed, and of one that was killed, once for good."""
    for number in (1, 2, 3):
        for fault in ("", RESTARTED.fault):
            name = f"some-{'kill' if fault else 'plain'}-{number:02d}"
            is_lost = bool(fault) and number == 3
            task = dataclasses.replace(TASK, inject=fault or None, restarts=0 if is_lost else 1)
            record = make_record(workers=2, task=task, status="failed" if is_lost else "ok")
            write_record(folder / f"{name}.json", record)
            account = RESTARTED if fault else Recovery(attempts=[attempt(0, 5 + number, 5 + number)])
            if is_lost:
                account = structs.replace(account, attempts=account.attempts[:1], moments=account.moments[:7])
            write_record(
                recovery_path(folder / f"{name}.json"),
                structs.replace(account, repetition=number, noticed_by="torchrun"),
            )
    return folder
