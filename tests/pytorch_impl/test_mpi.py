"""torch_sync_sgd over MPI, as users start it by hand: with mpirun, or by mistake without."""

import dataclasses
import os

import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.records.files import read_record
from common.records.training import Record
from tests.conftest import Launched, run_command
from tests.contract.worlds import contract_task
from tests.launching import assert_follows

STRATEGY = find("torch_sync_sgd")

HIDE_MPI4PY = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *place: None if name == "mpi4py" else find_spec(name, *place)
"""


HAS_TWO_CORES = len(os.sched_getaffinity(0)) >= 2


def mpirun(*arguments, **environment):
    """Exit status and output of two ranks that run the script, each bound to a core where there are two."""
    python = python_for(STRATEGY)
    # Open MPI refuses root, and more ranks than cores, unless asked.
    options = ["--bind-to", "core"] if HAS_TWO_CORES else ["--map-by", ":OVERSUBSCRIBE"]
    options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [str(python.parent / "mpirun"), *options, "-np", "2", str(python), STRATEGY.script, *arguments]
    return run_command(command, **environment)


def own_lines(output):
    return [line for line in output.splitlines() if line.startswith("lockstep: ")]


def test_mpirun_by_hand_implies_the_backend_and_follows_the_oracle(comparison_of, tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), workers=None, record=tmp_path / "run.json")
    status, output = mpirun(*to_arguments(dataclasses.replace(task, device="cpu"), STRATEGY.options()))
    assert status == 0, output
    launched = Launched(status, output, read_record(tmp_path / "run.json", Record), tmp_path)
    assert_follows(launched, comparison_of(launched))
    record = launched.record
    assert (record.backend, record.options["backend"], record.world_size) == ("mpi, shared memory", "mpi", 2)
    # What mpirun bound each rank to isn't all that the ranks have together.
    assert record.oversubscribed != HAS_TWO_CORES
    assert len(record.pinned_cores) == int(HAS_TWO_CORES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--workers", "4"],
            "--workers 4, but mpirun started 2: give both the same number, or leave --workers out.",
        ),
        pytest.param(
            ["--backend", "gloo"],
            "--backend gloo, but mpirun started this: leave it out, or use torchrun.",
            marks=pytest.mark.grid,
        ),
    ],
)
def test_a_world_that_disagrees_with_the_options_is_refused(options, said, tmp_path):
    status, output = mpirun(*options, "--record", str(tmp_path / "run.json"))
    assert status == 2
    assert set(own_lines(output)) == {f"lockstep: {said}"}
    assert not (tmp_path / "run.json").exists()


@pytest.mark.grid
def test_ranks_whose_python_lacks_mpi4py_say_so_in_one_line_together(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDE_MPI4PY, encoding="utf-8")
    record = tmp_path / "run.json"
    status, output = mpirun("--record", str(record), PYTHONPATH=str(tmp_path))
    assert status == 2
    [line] = own_lines(output)
    assert line.startswith("lockstep: This was started over MPI, but mpi4py isn't installed")
    assert "`nox -s torch`" in line
    assert not record.exists()


def test_mpi_without_mpirun_is_refused_in_one_line():
    status, output = run_command([str(python_for(STRATEGY)), STRATEGY.script, "--backend", "mpi"])
    assert status == 2
    assert own_lines(output) == [
        "lockstep: --backend mpi needs mpirun to start it: mpirun -np N python pytorch_impl/sync_sgd.py"
    ]
