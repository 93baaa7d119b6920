"""torch_sync_sgd over MPI, as users start it by hand: with mpirun, or by mistake without."""

import dataclasses
import os

import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command
from tests.contract.worlds import contract_task
from tests.launching import assert_record_follows, output_of

STRATEGY = find("torch_sync_sgd")

HIDE_MPI4PY = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *place: None if name == "mpi4py" else find_spec(name, *place)
"""

HAS_TWO_CORES = len(os.sched_getaffinity(0)) >= 2


def test_mpirun_by_hand_implies_the_backend_and_follows_the_oracle(tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), workers=None, record=tmp_path / "run.json")
    script = [STRATEGY.script, *to_arguments(dataclasses.replace(task, device="cpu"), STRATEGY.options())]
    # Each rank is bound to a core where there are two. Open MPI refuses root, and more ranks than cores, unless asked.
    options = ["--bind-to", "core"] if HAS_TWO_CORES else ["--map-by", ":OVERSUBSCRIBE"]
    options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    output_of(STRATEGY.name, "mpirun", *options, "-np", "2", str(python_for(STRATEGY)), *script)
    record = assert_record_follows(tmp_path)
    assert (record.backend, record.options["backend"], record.world_size) == ("mpi, shared memory", "mpi", 2)
    # What mpirun bound each rank to isn't all that the ranks have together.
    assert record.oversubscribed != HAS_TWO_CORES
    assert len(record.pinned_cores) == int(HAS_TWO_CORES)


@pytest.mark.parametrize(
    ("rank", "backend", "has_mpi4py", "said"),
    [
        ("", "mpi", True, "--backend mpi needs mpirun to start it: mpirun -np N python pytorch_impl/sync_sgd.py"),
        ("0", "gloo", True, "--backend gloo, but mpirun started this: leave it out, or use torchrun."),
        ("0", "auto", False, "This was started over MPI, but mpi4py isn't installed"),
        ("1", "auto", False, None),
    ],
    ids=["no mpirun", "another backend", "no mpi4py", "no mpi4py on another rank"],
)
def test_what_mpi_needs_is_asked_for_in_one_line_of_the_first_rank(rank, backend, has_mpi4py, said, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("" if has_mpi4py else HIDE_MPI4PY, encoding="utf-8")
    started = {"PYTHONPATH": str(tmp_path)} | ({"OMPI_COMM_WORLD_RANK": rank} if rank else {})
    command = [str(python_for(STRATEGY)), STRATEGY.script, "--backend", backend]
    status, output = run_command([*command, "--record", str(tmp_path / "run.json")], **started)
    assert (status, (tmp_path / "run.json").exists()) == (2, False)
    lines = [line for line in output.splitlines() if line.startswith("lockstep: ")]
    assert len(lines) == (said is not None)
    assert all(line.startswith(f"lockstep: {said}") for line in lines)
