"""common/launching/exit_cause.py: how a launch ended is read from lines that programs print, and its status."""

import dataclasses
import re

import pytest

from common.declarations.strategy import MPIRUN_CAUSE, MPIRUN_SIGNAL, PROCESS, SRUN_SIGNAL
from common.errors import print_failure, print_note, print_refusal
from common.launching import exit_cause
from common.launching.exit_cause import TIMED_OUT_STATUS, Ended
from common.paths import ROOT


@pytest.mark.parametrize(
    ("status", "log", "ended"),
    [
        (1, "lockstep: note: no private network\nlockstep: a batch of 63\n", Ended("unsupported", "a batch of 63")),
        (1, "lockstep: a batch of 63\nlockstep: failed: worker 1 ended\n", Ended("failed", "worker 1 ended")),
        (
            1,
            "host2| lockstep: failed: worker 1 ended\nhost1| lockstep: failed: Gloo\n",
            Ended("failed", "worker 1 ended"),
        ),
        (1, "lockstep: note: no private network\nTraceback\n", Ended("failed", "It ended with status 1.")),
        (TIMED_OUT_STATUS, "lockstep: a batch\n", Ended("failed", "It was ended by its deadline of 60 s.")),
        (0, "lockstep: failed: worker 1 ended\n", Ended("ok")),
    ],
)
def test_a_log_and_a_status_say_whether_a_launch_refused_or_failed(status, log, ended):
    assert exit_cause.read(status, 60.0, log) == ended


def reporting(*signals, silences=()):
    """A launcher that reports signals and silent ranks so."""
    return dataclasses.replace(PROCESS, signal_reports=signals, silence_reports=silences)


# prterun's of Open MPI 5 and mpirun's of Open MPI 4, which wrap lines.
NOTICED = [
    "prterun noticed that process rank 3 with PID 4262 on node vm exited on\nsignal 9 (Killed).\n",
    "host1| mpirun noticed that process rank 3 with PID 0 on node a-long-name exited\nhost1| on signal 9 (Killed).\n",
]


@pytest.mark.parametrize("log", NOTICED)
def test_where_the_launcher_reports_a_signal_the_reason_names_it_with_the_rank(log):
    reason = "rank 3 ended with signal 9, so all processes were ended."
    assert exit_cause.read(137, 60.0, f"{log}lockstep: a batch\n", reporting(MPIRUN_SIGNAL)) == Ended("failed", reason)


HOROVODRUN_SIGNAL = r"Process name: (?P<rank>\d+)\n(?:\S+\| )?Exit code: (?P<status>129|1[3-8]\d|19[0-2])\b"
"""Of horovodrun over Gloo, which reports signals as a shell does, and only of the process that ended first."""


@pytest.mark.parametrize("host", ["", "host1| "])
def test_a_report_on_the_process_that_ended_first_comes_before_what_the_others_say_of_its_loss(host):
    report = f"{host}to do so was:\n{host}Process name: 1\n{host}Exit code: 137\n"
    log = f"{host}[0]<stderr>:lockstep: failed: Horovod lost a worker\n{report}"
    reason = "rank 1 ended with signal 9, so all processes were ended."
    assert exit_cause.read(1, 60.0, log, reporting(HOROVODRUN_SIGNAL, MPIRUN_SIGNAL)) == Ended("failed", reason)
    by_itself = exit_cause.read(1, 60.0, log.replace("137", "1"), reporting(HOROVODRUN_SIGNAL))
    assert by_itself == Ended("failed", "Horovod lost a worker")


def test_srun_tells_a_signal_by_its_description():
    log = "host1| srun: error: host2: task 1: {}\n"
    killed = exit_cause.read(137, 60.0, log.format("Killed"), reporting(SRUN_SIGNAL))
    assert killed == Ended("failed", "rank 1 ended with signal Killed, so all processes were ended.")
    by_itself = exit_cause.read(1, 60.0, log.format("Exited with exit code 1"), reporting(SRUN_SIGNAL))
    assert by_itself == Ended("failed", "It ended with status 1.")


COORDINATED = (r"no heartbeat of:\n(?P<rank>\d+)", "no answer to a heartbeat")


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("no heartbeat of:\n1\n", 1),
        ("no answer to a heartbeat\n", 0),
        # A rank 0 that goes on after all misses the others.
        ("no answer to a heartbeat\nno heartbeat of:\n1\n", 0),
    ],
)
def test_a_rank_that_no_longer_answers_comes_before_what_the_others_say_of_its_loss(log, rank):
    log = f"{log}lockstep: failed: worker {1 - rank} ended with signal 6, so all processes were ended.\n"
    reason = f"rank {rank} stopped answering, so all processes were ended."
    assert exit_cause.read(1, 60.0, log, reporting(silences=COORDINATED)) == Ended("failed", reason)
    assert exit_cause.read(TIMED_OUT_STATUS, 60.0, log, reporting(silences=COORDINATED)).reason.startswith(
        "It was ended by its"
    )


@pytest.mark.parametrize(
    "ended", ["worker 1 ended with signal 9", "worker 1 was stopped by a signal, and then worker 0 ended with status 1"]
)
def test_a_signal_to_the_first_process_comes_before_what_the_others_say_of_its_loss(ended):
    reason = f"{ended}, so all processes were ended."
    lost = "lockstep: failed: rank 0 lost another worker"
    assert exit_cause.read(1, 60.0, f"{lost}\nlockstep: failed: {reason}\n") == Ended("failed", reason)


def test_what_a_rank_says_comes_before_the_status_of_the_first_process():
    lost = "lockstep: failed: rank 0 lost another worker"
    by_itself = f"{lost}\nlockstep: failed: worker 1 ended with status 9, so all processes were ended.\n"
    assert exit_cause.read(1, 60.0, by_itself) == Ended("failed", "rank 0 lost another worker")


def test_what_a_rank_says_of_its_own_failure_comes_before_a_signal():
    log = f"{NOTICED[0]}lockstep: failed: a loss is missing\n"
    assert exit_cause.read(1, 60.0, log, reporting(MPIRUN_SIGNAL)) == Ended("failed", "a loss is missing")


LINE = "-" * 74
PAGE = f"""{LINE}
At least one pair of MPI processes are unable to reach each other for
MPI communications.  This means that no Open MPI device has indicated
that it can be used to communicate between these processes.
{LINE}
"""
LAST_PAGE = f"{LINE}\nprterun has exited due to process rank 0 with PID 0 on node vm.\n{LINE}\n"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            PAGE + LAST_PAGE,
            "The launcher gave up (At least one pair of MPI processes are unable to reach each other for MPI "
            "communications): unset variables by which it was set up, such as OMPI_MCA_btl, or see its own words.",
        ),
        # That a process has ended is no cause.
        (LAST_PAGE, "It ended with status 14."),
        (f"{PAGE}lockstep: failed: rank 0: the disk is full\n", "rank 0: the disk is full"),
    ],
)
def test_what_a_launcher_says_of_its_own_counts_where_nobody_else_names_a_cause(log, reason):
    launcher = dataclasses.replace(PROCESS, cause_report=MPIRUN_CAUSE)
    assert exit_cause.read(14, 60.0, log, launcher) == Ended("failed", reason)


def test_what_programs_print_is_what_is_read(capsys):
    print_note("no private network.")
    print_refusal("A batch of 63.")
    print_failure("worker 1 ended.")
    out, err = capsys.readouterr()
    found = [*exit_cause.sentences(out + err)]
    assert found == [Ended("unsupported", "A batch of 63."), Ended("failed", "worker 1 ended.")]


def test_a_signal_is_told_as_a_shell_tells_it():
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
