"""common/launching/exit_cause.py: how a launch ended is read from lines that programs print, and its status."""

import dataclasses
import re

import pytest

from common.declarations.strategy import MPIRUN_CAUSE, MPIRUN_SIGNAL, PROCESS, SRUN_SIGNAL
from common.errors import print_failure, print_note, print_refusal
from common.launching import exit_cause
from common.launching.exit_cause import TIMED_OUT_STATUS, Ended
from common.paths import ROOT

# prterun's of Open MPI 5 and mpirun's of Open MPI 4, which wrap lines.
NOTICED = [
    "prterun noticed that process rank 3 with PID 4262 on node vm exited on\nsignal 9 (Killed).\n",
    "host1| mpirun noticed that process rank 3 with PID 0 on node a-long-name exited\nhost1| on signal 9 (Killed).\n",
]
HOROVODRUN_SIGNAL = r"Process name: (?P<rank>\d+)\n(?:\S+\| )?Exit code: (?P<status>129|1[3-8]\d|19[0-2])\b"
"""Of horovodrun over Gloo, which reports signals as a shell does, and only of the process that ended first."""
FIRST = "{0}[0]<stderr>:lockstep: failed: Horovod lost a worker\n{0}Process name: 1\n{0}Exit code: {1}\n"
LINE = "-" * 74
PAGE = f"""{LINE}
At least one pair of MPI processes are unable to reach each other for
MPI communications.  This means that no Open MPI device has indicated
that it can be used to communicate between these processes.
{LINE}
"""
LAST_PAGE = f"{LINE}\nprterun has exited due to process rank 0 with PID 0 on node vm.\n{LINE}\n"

MPIRUN = dataclasses.replace(PROCESS, signal_reports=(MPIRUN_SIGNAL,), cause_report=MPIRUN_CAUSE)
HOROVODRUN = dataclasses.replace(PROCESS, signal_reports=(HOROVODRUN_SIGNAL, MPIRUN_SIGNAL))
SRUN = dataclasses.replace(PROCESS, signal_reports=(SRUN_SIGNAL,))
SILENT = dataclasses.replace(PROCESS, silence_reports=(r"no heartbeat of:\n(?P<rank>\d+)", "no answer to a heartbeat"))

FAILED = "lockstep: failed: "
ALL_ENDED = "so all processes were ended."
BY_SIGNAL = f"worker 1 ended with signal 9, {ALL_ENDED}"
STOPPED = f"worker 1 was stopped by a signal, and then worker 0 ended with status 1, {ALL_ENDED}"
LOST = "rank 0 lost another worker"


@pytest.mark.parametrize(
    ("launcher", "log", "reason"),
    [
        (PROCESS, f"lockstep: a batch of 63\n{FAILED}worker 1 ended\n", "worker 1 ended"),
        (PROCESS, f"host2| {FAILED}worker 1 ended\nhost1| {FAILED}Gloo\n", "worker 1 ended"),
        (PROCESS, "lockstep: note: no private network\nTraceback\n", "It ended with status 1."),
        *((MPIRUN, f"{log}lockstep: a batch\n", f"rank 3 ended with signal 9, {ALL_ENDED}") for log in NOTICED),
        (SRUN, "host1| srun: error: host2: task 1: Killed\n", f"rank 1 ended with signal Killed, {ALL_ENDED}"),
        (SRUN, "host1| srun: error: host2: task 1: Exited with exit code 1\n", "It ended with status 1."),
        # What ended first comes before what the others say of its loss.
        *(
            (HOROVODRUN, FIRST.format(host, 137), f"rank 1 ended with signal 9, {ALL_ENDED}")
            for host in ("", "host1| ")
        ),
        (HOROVODRUN, FIRST.format("host1| ", 1), "Horovod lost a worker"),
        *((PROCESS, f"{FAILED}{LOST}\n{FAILED}{ended}\n", ended) for ended in (BY_SIGNAL, STOPPED)),
        (PROCESS, f"{FAILED}{LOST}\n{FAILED}worker 1 ended with status 9, {ALL_ENDED}\n", LOST),
        (SILENT, f"no heartbeat of:\n1\n{FAILED}{BY_SIGNAL}\n", f"rank 1 stopped answering, {ALL_ENDED}"),
        (SILENT, f"no answer to a heartbeat\n{FAILED}{BY_SIGNAL}\n", f"rank 0 stopped answering, {ALL_ENDED}"),
        # A rank 0 that goes on after all misses the others.
        (
            SILENT,
            f"no answer to a heartbeat\nno heartbeat of:\n1\n{FAILED}{BY_SIGNAL}\n",
            f"rank 0 stopped answering, {ALL_ENDED}",
        ),
        # What a rank says of its own failure comes before all.
        (MPIRUN, f"{NOTICED[0]}{FAILED}a loss is missing\n", "a loss is missing"),
        (MPIRUN, f"{PAGE}{FAILED}rank 0: the disk is full\n", "rank 0: the disk is full"),
        (
            MPIRUN,
            PAGE + LAST_PAGE,
            "The launcher gave up (At least one pair of MPI processes are unable to reach each other for MPI "
            "communications): unset variables by which it was set up, such as OMPI_MCA_btl, or see its own words.",
        ),
        # That a process has ended is no cause.
        (MPIRUN, LAST_PAGE, "It ended with status 1."),
    ],
)
def test_the_reason_of_a_failure_is_what_came_first(launcher, log, reason):
    assert exit_cause.read(1, 60.0, log, launcher) == Ended("failed", reason)
    assert exit_cause.read(TIMED_OUT_STATUS, 60.0, log, launcher).reason == "It was ended by its deadline of 60 s."
    assert exit_cause.read(0, 60.0, log, launcher) == Ended("ok")


def test_what_programs_print_is_what_is_read_and_a_refusal_where_it_is_no_failure(capsys):
    print_note("no private network.")
    print_refusal("A batch of 63.")
    print_failure("worker 1 ended.")
    out, err = capsys.readouterr()
    found = [*exit_cause.sentences(out + err)]
    assert found == [Ended("unsupported", "A batch of 63."), Ended("failed", "worker 1 ended.")]
    log = "lockstep: note: no private network\nlockstep: a batch of 63\n"
    assert exit_cause.read(1, 60.0, log) == Ended("unsupported", "a batch of 63")
    assert [exit_cause.exit_status(status) for status in (0, 7, -9)] == [0, 7, 137]


def test_the_prefix_is_typed_in_one_place_and_in_the_program_that_imports_nothing_of_ours():
    folders = ("common", "reports", "pytorch_impl", "tf_impl", "horovod_impl")
    typing = {
        path.name
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"[\"']lockstep: (?!between steps)", path.read_text())
    }
    assert typing == {"errors.py", "enter.py"}
