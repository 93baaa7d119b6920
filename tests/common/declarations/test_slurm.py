"""A task of a step of Slurm, by the variables that srun gives it; and programs that only inherit them."""

import os

import pytest

from common.declarations.slurm import FIRST_PORT, SlurmTask, task_of_step

STEP = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "3",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "node[07-08,11]",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}


@pytest.fixture
def step(monkeypatch):
    """A function that makes this process a task of a step, but for some of its variables."""

    def start(**changes: str | None) -> None:
        for name, value in (STEP | {"SLURM_TASK_PID": str(os.getpid())} | changes).items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return start


def test_a_task_of_a_step_knows_its_rank_its_host_and_where_only_its_own_step_meets(step):
    step()
    assert task_of_step() == SlurmTask(3, 5, 1, 2, "node07", FIRST_PORT + 1203)
    step(SLURM_NODEID="2", SLURM_LOCALID="0", SLURM_PROCID="4")
    assert task_of_step() == SlurmTask(4, 5, 0, 1, "node07", FIRST_PORT + 1203)
    ports = set()
    for job, number in (("12", "3"), ("12", "4"), ("13", "3")):
        step(SLURM_JOB_ID=job, SLURM_STEP_ID=number)
        ports.add(task_of_step().port)
    assert len(ports) == 3
    assert all(1024 < port < 32_768 for port in ports)


@pytest.mark.parametrize(
    "variables",
    [{"SLURM_TASK_PID": str(os.getppid())}, {"SLURM_TASK_PID": None}, {"SLURM_STEP_NUM_TASKS": None}],
    ids=["a program that a task started", "no task", "a batch script"],
)
def test_what_srun_did_not_start_itself_is_no_task(step, variables):
    step(**variables)
    assert task_of_step() is None
