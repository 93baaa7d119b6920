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


def mpirun(*arguments, **environment):
    """Exit status and output of two ranks that run the script."""
    python = python_for(STRATEGY)
    # Open MPI refuses root, and more ranks than cores, unless asked.
    options = ["--map-by", ":OVERSUBSCRIBE", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    command = [str(python.parent / "mpirun"), *options, "-np", "2", str(python), STRATEGY.script, *arguments]
    return run_command(command, **environment)


def own_lines(output):
    return [line for line in output.splitlines() if line.startswith("lockstep: ")]


def test_mpirun_by_hand_implies_the_backend_and_follows_the_oracle(comparison_of, tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), workers=None, record=tmp_path / "run.json")
    status, output = mpirun(*to_arguments(task, STRATEGY.options()))
    assert status == 0, output
    launched = Launched(status, output, read_record(tmp_path / "run.json", Record), tmp_path)
    assert_follows(launched, comparison_of(launched))
    record = launched.record
    assert (record.backend, record.options["backend"], record.world_size) == ("mpi, shared memory", "mpi", 2)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="Two ranks need two cores for one each.")
def test_ranks_that_mpirun_bound_to_a_core_each_are_not_said_to_be_oversubscribed(tmp_path):
    record_path = tmp_path / "run.json"
    python = python_for(STRATEGY)
    options = ["--bind-to", "core", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    script = [STRATEGY.script, "--steps", "60", "--record", str(record_path), "--device", "cpu"]
    status, output = run_command([str(python.parent / "mpirun"), *options, "-np", "2", str(python), *script])
    assert status == 0, output
    record = read_record(record_path, Record)
    assert not record.oversubscribed
    assert len(record.pinned_cores) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--workers", "4"],
            "--workers 4, but mpirun started 2: give both the same number, or leave --workers out.",
        ),
        (["--backend", "gloo"], "--backend gloo, but mpirun started this: leave it out, or use torchrun."),
    ],
)
def test_a_world_that_disagrees_with_the_options_is_refused(options, said, tmp_path):
    status, output = mpirun(*options, "--record", str(tmp_path / "run.json"))
    assert status == 2
    assert set(own_lines(output)) == {f"lockstep: {said}"}
    assert not (tmp_path / "run.json").exists()


def test_ranks_whose_python_lacks_mpi4py_say_so_in_one_line_together(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDE_MPI4PY, encoding="utf-8")
    record = tmp_path / "run.json"
    status, output = mpirun("--record", str(record), PYTHONPATH=str(tmp_path))
    assert status == 2
    [line] = own_lines(output)
    assert line.startswith("lockstep: This was started over MPI, but mpi4py isn't installed")
    assert "`nox -s torch`" in line
    assert not record.exists()


@pytest.mark.parametrize(
    "launcher", [[], ["torchrun", "--standalone", "--nproc-per-node", "1"]], ids=["none", "torchrun"]
)
def test_mpi_without_mpirun_is_refused_in_one_line(launcher, tmp_path):
    python = python_for(STRATEGY)
    program = [str(python.parent / launcher[0]), *launcher[1:]] if launcher else [str(python)]
    status, output = run_command(
        [*program, STRATEGY.script, "--backend", "mpi", "--record", str(tmp_path / "run.json")]
    )
    # torchrun's own status is 1 whatever its workers' was.
    assert status == (1 if launcher else 2)
    assert own_lines(output) == [
        "lockstep: --backend mpi needs mpirun to start it: mpirun -np N python pytorch_impl/sync_sgd.py"
    ]
