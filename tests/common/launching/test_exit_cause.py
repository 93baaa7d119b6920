"""common/launching/exit_cause.py: how a launch ended is read from lines that programs print, and its status."""

import pytest

from common.declarations.catalogue import find, find_library
from common.declarations.strategy import PROCESS
from common.launching import exit_cause
from common.launching.exit_cause import TIMED_OUT_STATUS, Ended

NOTE = "lockstep: note: no private network\n"
REFUSED = "lockstep: a batch of 63\n"
LOST_WORDS = "rank 0 lost another worker"
LOST = f"lockstep: failed: {LOST_WORDS}\n"
NOTICED = "prterun noticed that process rank 3 with PID 4262 on node vm exited on\nsignal 9 (Killed).\n"
"""By Open MPI 5; mpirun of Open MPI 4 wraps lines elsewhere."""

NOTICED_BY_4 = (
    "host1| mpirun noticed that process rank 3 with PID 0 on node a-name exited\nhost1| on signal 9 (Killed).\n"
)
ENDED_FIRST = "host1| [0]<stderr>:lockstep: failed: Lost.\nhost1| Process name: 1\nhost1| Exit code: {}\n"
"""By horovodrun over Gloo, which reports signals as a shell does, and only of the process that ended first."""

RANK_LOST = "lockstep: failed: worker {} ended with signal 6, so all processes were ended.\n"
LINE = "-" * 74
PAGE = f"{LINE}\nMPI processes are unable to\nreach each other.  This means that no device has indicated\nit.\n{LINE}\n"
LAST_PAGE = f"{LINE}\nprterun has exited due to process rank 0 with PID 0 on node vm.\n{LINE}\n"

MPIRUN = find_library("mpi").launcher
SRUN = find("torch_sync_sgd").launcher
HOROVODRUN = find("horovod_torch").launcher
COORDINATED = find("jax_data_parallel").launcher


def ended_by_signal(rank, number=9):
    return f"rank {rank} ended with signal {number}, so all processes were ended."


def silent(rank):
    return f"rank {rank} stopped answering, so all processes were ended."


ERRORS = "Traceback\n{}torch.OutOfMemoryError: full.\nValueError: later\n"
BY_OUR_SIGNAL = "worker 1 ended with signal 9."
STOPPED = "worker 1 was stopped by a signal, and then worker 0 ended."
MISSED = "stopped sending heartbeats):\n1\n"
NO_ANSWER = "DEADLINE_EXCEEDED: none for RPC: /xla.coordination.CoordinationService/Heartbeat\n"
GAVE_UP = (
    "The launcher gave up (MPI processes are unable to reach each other): unset variables by which it was set up, such "
    "as OMPI_MCA_btl, or see its own words."
)

CAUSES = {
    "notes and what others print": (PROCESS, f"{NOTE}Traceback\n", "It ended with status 1."),
    **{
        f"the first error that Python printed, behind '{before}'": (
            PROCESS,
            ERRORS.format(before),
            "It ended with status 1: torch.OutOfMemoryError: full.",
        )
        for before in ("", "[rank1]: ", "[1]<stderr>:", "host2| [rank1]: ")
    },
    "a failure before a refusal": (PROCESS, f"{REFUSED}lockstep: failed: worker 1 ended\n", "worker 1 ended"),
    "the first failure": (PROCESS, "host2| lockstep: failed: One.\nlockstep: failed: Two.", "One."),
    "our signal before words on its loss": (PROCESS, f"{LOST}lockstep: failed: {BY_OUR_SIGNAL}\n", BY_OUR_SIGNAL),
    "as well where a signal stopped it": (PROCESS, f"{LOST}lockstep: failed: {STOPPED}\n", STOPPED),
    "a rank's words before a status": (PROCESS, f"{LOST}lockstep: failed: worker 1 ended with status 9.\n", LOST_WORDS),
    "the launcher's report before a refusal": (MPIRUN, f"{NOTICED}{REFUSED}", ended_by_signal(3)),
    "also where it wraps lines": (MPIRUN, NOTICED_BY_4, ended_by_signal(3)),
    "a rank's words before the report": (MPIRUN, f"{NOTICED}lockstep: failed: a loss\n", "a loss"),
    "srun's words": (SRUN, "srun: error: host2: task 1: Killed\n", ended_by_signal(1, "Killed")),
    "no signal in them": (SRUN, "srun: error: host2: task 1: Exited with exit code 1\n", "It ended with status 1."),
    "the first that ended before words on its loss": (HOROVODRUN, ENDED_FIRST.format(137), ended_by_signal(1)),
    "unless it ended by itself": (HOROVODRUN, ENDED_FIRST.format(1), "Lost."),
    "a silent rank": (COORDINATED, f"{MISSED}{RANK_LOST.format(0)}", silent(1)),
    "silent rank 0": (COORDINATED, f"{NO_ANSWER}{RANK_LOST.format(1)}", silent(0)),
    "rank 0 that misses the others": (COORDINATED, f"{NO_ANSWER}{MISSED}{RANK_LOST.format(1)}", silent(0)),
    "a launcher's own cause where nobody names one": (MPIRUN, PAGE + LAST_PAGE, GAVE_UP),
    "that a process has ended is no cause": (MPIRUN, LAST_PAGE, "It ended with status 1."),
    "a rank's own words before it": (MPIRUN, f"{PAGE}lockstep: failed: It is full.\n", "It is full."),
}


@pytest.mark.parametrize(("launcher", "log", "reason"), CAUSES.values(), ids=CAUSES)
def test_a_launch_failed_for_the_first_cause_that_its_output_names(launcher, log, reason):
    assert exit_cause.read(1, 60.0, log, launcher) == Ended("failed", reason)


def test_a_status_or_a_refusal_alone_says_that_a_launch_did_not_fail_by_itself():
    assert exit_cause.read(1, 60.0, NOTE + REFUSED) == Ended("unsupported", "a batch of 63")
    assert exit_cause.read(0, 60.0, LOST) == Ended("ok")
    ended = exit_cause.read(TIMED_OUT_STATUS, 60.0, f"{REFUSED}{NO_ANSWER}", COORDINATED)
    assert ended == Ended("failed", "It was ended by its deadline of 60 s.")
