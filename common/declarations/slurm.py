"""Steps of Slurm: the command line that starts one, and the step whose task this process is."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FIRST_PORT, PORTS = 20_000, 10_000
"""Where ranks meet: a port below those that systems give to whoever asks for any."""

WORLD = (
    r"SLURM_(ARRAY|CLUSTER|CPU|GTIDS|JOB|LAUNCH|LOCALID|MEM|NNODES|NODE|NPROCS|NTASKS|PRIO|PROCID|SRUN|STEP|SUBMIT|TASK"
    r"|TOPOLOGY|UMASK|WORKING)\w*|SLURMD_\w+"
)
"""The environment variables by which Slurm tells a process its job and its step (srun(1), "Output environment
variables"): a regular expression of their whole names."""


def srun(
    nodes: Sequence[str], tasks_per_node: int = 1, *, mpi: Literal["none", "pmix"] = "none", options: Sequence[str] = ()
) -> list[str]:
    """Return the command line of srun on these nodes of an allocation; the program's words follow it.

    The step shares its cores and its memory with other steps, such as those of launchers. Nothing that the user's
    variables say of steps is left open.
    """
    step = ["--overlap", "--quiet", f"--nodes={len(nodes)}", f"--ntasks={len(nodes) * tasks_per_node}"]
    step += [f"--ntasks-per-node={tasks_per_node}", f"--nodelist={','.join(nodes)}"]
    return ["srun", *step, "--mem=0", f"--mpi={mpi}", "--export=ALL", *options]


@dataclass(frozen=True)
class SlurmTask:
    """This process among those of its step, and among those of its host."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    first_host: str
    """The host of rank 0, where all ranks meet at the `port`."""
    port: int


def is_task() -> bool:
    """Whether srun started this very process. What it starts inherits the number in SLURM_TASK_PID, not the process."""
    return os.environ.get("SLURM_TASK_PID") == str(os.getpid()) and "SLURM_STEP_NUM_TASKS" in os.environ


def task_of_step() -> SlurmTask | None:
    """This process as a task of a step of Slurm's; None where srun didn't start this very process.

    Whatever a task starts has Slurm's variables too, such as a launcher's workers, and so has a batch script: the
    process of SLURM_TASK_PID is the task itself (srun(1), "Output environment variables").
    """
    if not is_task():
        return None
    variables = os.environ
    # The first name of a list such as `node[07-12,20],login1`.
    first_host = re.match(r"([^\[,\s]+)(?:\[(\d+)[^\]]*\]([^\[,\s]*))?", variables["SLURM_STEP_NODELIST"])
    assert first_host, "A step has a node."
    return SlurmTask(
        rank=int(variables["SLURM_PROCID"]),
        world_size=int(variables["SLURM_STEP_NUM_TASKS"]),
        local_rank=int(variables["SLURM_LOCALID"]),
        local_world_size=per_node(variables["SLURM_STEP_TASKS_PER_NODE"])[int(variables["SLURM_NODEID"])],
        first_host="".join(filter(None, first_host.groups())),
        # Steps of one job, and jobs on one host, seldom have the same.
        port=FIRST_PORT + (int(variables["SLURM_JOB_ID"]) * 100 + int(variables["SLURM_STEP_ID"])) % PORTS,
    )


def per_node(text: str) -> list[int]:
    """The number of each node in a list such as `2(x3),1`, which is 2, 2, 2 and 1; none where it's no such list."""
    counts = [re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", each, re.ASCII) for each in text.split(",")]
    if not all(counts):
        return []
    return [int(count[1]) for count in counts if count for _ in range(int(count[2] or 1))]
