"""A node of a Slurm allocation: the command line of srun, what launches get there, and why a step went wrong."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.declarations.slurm import is_task, srun
from common.launching.places.place import Host
from common.paths import ROOT

_REMOTE_SHELL = Path(__file__).with_name("remote_shell")
"""The folder with a program named ssh that starts a step."""

_OF_TASK = re.compile(r"SLURM_(STEP\w*|SRUN\w*|LAUNCH\w*|CPU_BIND\w*|TASK_PID|PROCID|LOCALID|NODEID|GTIDS)|SLURMD_\w*")
"""What Slurm tells a single task, or the batch script, which is one as well (srun(1), "Output environment variables").
"""

_LOSSES = (
    (r"DUE TO TIME LIMIT", "{host} was lost at the time limit of the allocation: ask for more by sbatch's `--time`."),
    (
        r"DUE TO NODE FAILURE|Node failure on|Communication connection failure",
        "{host} was lost (a node of the job has failed): see `sinfo --list-reasons`.",
    ),
    (r"(?:STEP|JOB) \S+ ON \S+ CANCELLED", "{host} was lost (scancel ended the step or the job): start it again."),
    (
        r"(?:Unable to create step for job \S+|Unable to confirm allocation for job \S+): (.+)",
        "{host} takes no step of this allocation ({detail}): see `scontrol show job` and `scontrol show node {host}`.",
    ),
)
"""What srun and slurmstepd print, and what that means."""

_LEAVE_SECONDS = 5.0


@dataclass(frozen=True)
class SlurmNode(Host):
    """A node of this process's allocation, on which srun starts a step."""

    client = "Slurm's client programs"
    losses = _LOSSES
    loss = "{host} was lost (its step ended): see `scontrol show node {host}`."
    is_lost_by_words = True
    heartbeat_seconds = 10.0
    cores: int = 1
    """Processor cores that the allocation has there."""

    def command(self, words: Sequence[str]) -> list[str]:
        """As `Host` has it, by a step of one task."""
        # From the environment srun takes cores only as of release 22.05.9.
        options = (f"--cpus-per-task={self.cores}", "--job-name=lockstep", f"--chdir={ROOT}")
        return [*srun([self.name], options=options), sys.executable, *words]

    def variables(self) -> dict[str, str]:
        """What Slurm tells the allocation, which launchers such as mpirun read, and srun in the place of ssh."""
        of_allocation = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
        return {name: value for name, value in of_allocation.items() if not _OF_TASK.fullmatch(name)} | {
            "SLURM_CPUS_PER_TASK": str(self.cores),
            # The steps of launchers share cores with the step that starts them.
            "SLURM_OVERLAP": "1",
            "PATH": os.pathsep.join([str(_REMOTE_SHELL), os.environ.get("PATH", os.defpath)]),
        }

    def break_off(self, process: subprocess.Popen[bytes]) -> None:
        """Have srun leave, which ends the step with it. Killed it would leave the step behind."""
        process.terminate()
        try:
            process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def leave_step() -> None:
    """Make of this process, which srun started, one as ssh would have started it: a step's task no more.

    Frameworks and launchers would take the step for theirs. Its cores stay this process's: where Slurm binds nobody,
    it is kept on as many as the allocation has.
    """
    if not is_task():
        return
    available, given = sorted(os.sched_getaffinity(0)), os.environ.get("SLURM_CPUS_PER_TASK", "")
    if given.isdecimal():
        os.sched_setaffinity(0, available[: int(given)])
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        del os.environ[name]
