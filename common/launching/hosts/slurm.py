"""The allocation of Slurm's that this process is in: its nodes, and what Slurm decided."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from common.declarations.slurm import per_node, srun
from common.errors import UserError
from common.launching.hosts.survey import HostFacts
from common.launching.places.place import Host
from common.launching.places.slurm_node import SlurmNode
from common.records.header import Allocated


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """Whether a session's launches are steps of an allocation."""

    slurm: bool = False
    """Launch over the nodes of this allocation of Slurm's, such as one of `salloc`: each launch is a step of it."""
    submit: bool = False
    """With --slurm: write a batch script beside the results that does this, print it, and submit it. All words after
    --submit are sbatch's, such as --nodes 2 --time 1:00:00."""

    def __post_init__(self) -> None:
        """Raises UserError for options that contradict one another."""
        if self.submit and not self.slurm:
            raise UserError("--submit hands the work to Slurm: add --slurm, or leave --submit out.")


def job() -> str | None:
    """The number of the job whose allocation this process is in, if any."""
    return os.environ.get("SLURM_JOB_ID")


def nodes() -> list[Host]:
    """The nodes of the allocation, each with as many slots as it has tasks, or else cores.

    Raises UserError outside of an allocation, and where Slurm doesn't answer.
    """
    variables = os.environ
    if "SLURM_JOB_NODELIST" not in variables:
        raise UserError(
            "--slurm compares over the nodes of an allocation of Slurm's, and this process is in none: start it "
            "within one, as by `salloc --nodes 2`, or add --submit."
        )
    cores = per_node(variables.get("SLURM_JOB_CPUS_PER_NODE", ""))
    asked_for_tasks = {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"} & {*variables}
    slots = per_node(variables.get("SLURM_TASKS_PER_NODE", "")) if asked_for_tasks else cores
    command = ["scontrol", "show", "hostnames", variables["SLURM_JOB_NODELIST"]]
    try:
        names = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"The nodes of this allocation aren't known (`scontrol show hostnames` failed: {error}): see whether "
            "Slurm's client programs are on the PATH."
        ) from error
    if not len(names) == len(cores) == len(slots):
        raise UserError(
            f"Slurm's variables don't describe an allocation ({len(names)} nodes, cores of {len(cores)}): start this "
            "within one, as by `salloc --nodes 2`."
        )
    return [SlurmNode(name, count, of_node) for name, count, of_node in zip(names, slots, cores, strict=True)]


def starts_mpi(hosts: Sequence[Host]) -> bool:
    """Whether `srun --mpi=pmix` starts a step. It may be listed (`srun --mpi=list`) where Slurm can't load PMIx."""
    command = [*srun([hosts[0].name], mpi="pmix"), "true"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def allocated(hosts: Sequence[Host]) -> Allocated:
    """What Slurm decided of this process's allocation, for records."""
    return Allocated(
        job=job() or "",
        partition=os.environ.get("SLURM_JOB_PARTITION", ""),
        nodes=os.environ.get("SLURM_JOB_NODELIST", ""),
        cores_per_node=[host.cores for host in hosts if isinstance(host, SlurmNode)],
    )


def refuse_types(surveyed: Sequence[HostFacts]) -> None:
    """Raises UserError where nodes are of different types, whose launches can't be compared."""
    for facts in surveyed:
        one, other = ((each.machine.processor, each.cores, each.machine.gpus) for each in (surveyed[0], facts))
        if one != other:
            words = " and ".join(
                f"{cores} cores of {processor}, {len(gpus)} GPUs" for processor, cores, gpus in (one, other)
            )
            raise UserError(
                f"{surveyed[0].host.name} and {facts.host.name} are nodes of different types ({words}): ask for one "
                "type, as by sbatch's `--constraint`, and for as many cores on each."
            )
