"""common/launching/hosts/slurm.py: the nodes of an allocation, by what Slurm tells a process in it."""

import os
import shlex

import pytest

from common.declarations.slurm import srun
from common.launching.hosts import slurm
from common.launching.hosts.selection import Selection
from common.launching.places.slurm_node import SlurmNode
from common.records.header import Allocated, Machine
from tests.common.launching.hosts.test_cluster import member

ALLOCATION = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "node[1-2,5]",
    "SLURM_JOB_CPUS_PER_NODE": "4(x2),8",
    "SLURM_TASKS_PER_NODE": "1(x3)",
    "SLURM_JOB_PARTITION": "short",
}
OTHER_TYPES = [
    {"cores": 8},
    {"machine": Machine(processor="another")},
    {"machine": Machine(processor="a processor", gpus=["a GPU"])},
]
"""What tells a node from one of another type."""


@pytest.fixture
def allocation(tmp_path, monkeypatch):
    """A function that puts this process into an allocation, but for some of its variables."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames node[1-2,5]" ] && printf "node1\\nnode2\\nnode5\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)

    def enter(**changes: str | None) -> None:
        for name, value in (ALLOCATION | changes).items():
            if value is not None:
                monkeypatch.setenv(name, value)

    return enter


def test_nodes_have_as_many_slots_as_cores_where_nobody_asked_for_tasks_and_what_slurm_decided_is_kept(allocation):
    allocation()
    nodes = [SlurmNode("node1", 4, 4), SlurmNode("node2", 4, 4), SlurmNode("node5", 8, 8)]
    assert Selection(slurm=True).real_hosts() == slurm.nodes() == nodes
    decided = Allocated(job="7", partition="short", nodes="node[1-2,5]", cores_per_node=[4, 4, 8])
    assert slurm.allocated(nodes) == decided


@pytest.mark.parametrize("variable", ["SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"])
def test_nodes_have_as_many_slots_as_tasks_where_somebody_asked_for_them(allocation, variable):
    allocation(**{variable: "3"})
    assert [node.slots for node in slurm.nodes()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"SLURM_JOB_CPUS_PER_NODE": "4"}, "don't describe an allocation (3 nodes, cores of 1)"),
        ({"SLURM_JOB_NODELIST": "other"}, "The nodes of this allocation aren't known"),
        ({"SLURM_JOB_NODELIST": None}, "in none: start it within one, as by `salloc --nodes 2`, or add --submit"),
    ],
)
def test_what_describes_no_allocation_is_refused(allocation, change, said, refusal):
    allocation(**change)
    assert said in refusal(slurm.nodes)


@pytest.mark.parametrize("status", [0, 1])
def test_whether_srun_starts_mpi_is_tried_on_the_first_node(status, tmp_path, allocation):
    # It lists PMIx where it can't load it.
    _, *tried = [*srun(["node1"], mpi="pmix"), "true"]
    (tmp_path / "srun").write_text(f'#!/bin/sh\n[ "$*" = "{shlex.join(tried)}" ] && exit {status}\n')
    (tmp_path / "srun").chmod(0o755)
    assert slurm.starts_mpi([SlurmNode("node1", 4, 4), SlurmNode("node2", 4, 4)]) is (status == 0)


@pytest.mark.parametrize("change", OTHER_TYPES)
def test_nodes_of_different_types_are_not_compared(change, refusal):
    slurm.refuse_types([member(1), member(2)])
    other = member(2, **change)
    assert "host1 and host2 are nodes of different types" in refusal(lambda: slurm.refuse_types([member(1), other]))
