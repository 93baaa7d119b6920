"""What the tests that start strategies share: starting one as a user does, and reading what it left."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from common.contract import oracle
from common.contract.model import State, Trajectory
from common.contract.rows import Piece
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.arguments import to_arguments
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import certificate
from common.records.certificate import Certificate
from common.records.files import read_record
from common.records.training import Record

pytest_plugins = ["tests.order", "tests.skips"]

DEADLINE_SECONDS = 240

MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""CI may be root of its container, which Open MPI's mpirun refuses unless told so; a user isn't."""


@dataclass(frozen=True)
class Launched:
    """How a command ended, what it printed, and the record that it left, if any."""

    status: int
    output: str
    record: Record | None
    folder: Path

    @property
    def task(self) -> Task:
        return self.record.task


def run_command(
    command: list[str], cwd: Path = ROOT, deadline_seconds: float = DEADLINE_SECONDS, **environment: str
) -> tuple[int, str]:
    """Exit status and output of a command run from the repository's root, or from another folder."""
    result = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_seconds + 60,
    )
    return result.returncode, result.stdout


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Launched]:
    """A function that starts a strategy with a task, in the test's folder, and returns how it went."""

    def start(strategy: str, task: Task, name: str = "run", **options: object) -> Launched:
        declared = catalogue.find(strategy)
        python_for(declared)
        command = [sys.executable, "-m", "common.launching.launch", strategy]
        record = tmp_path / f"{name}.json"
        arguments = to_arguments(task, declared.options(**options))
        status, output = run_command([*command, *arguments, "--record", str(record)])
        return Launched(status, output, read_record(record, Record) if record.exists() else None, tmp_path)

    return start


@cache
def oracle_of(maths: Task, global_batch: int, steps: int, earlier_pieces: tuple[Piece, ...] = ()) -> Trajectory:
    """The oracle of a task that `maths_of` gives: many launches are compared with the same one."""
    return oracle.run_oracle(maths, global_batch, steps, earlier_pieces=earlier_pieces)


@pytest.fixture
def comparison_of() -> Callable[..., Certificate]:
    """A function that holds a launch to what it should compute: by default what its own task says."""

    def compare(launched: Launched, task: Task | None = None, name: str = "run") -> Certificate:
        assert launched.record is not None, launched.output
        record = structs.replace(launched.record, task=task or launched.task)
        name = record.task.record.stem if record.task.record else name
        [comparison] = certificate.compare({name: record}, launched.folder)
        return comparison

    return compare


def weight_deviation(weights: State, expected: State) -> float:
    """The norm of the difference of all weights over the norm of the expected ones."""
    difference = sum(float(((weights[name] - expected[name]) ** 2).sum()) for name in expected)
    return float(np.sqrt(difference / sum(float((value**2).sum()) for value in expected.values())))
