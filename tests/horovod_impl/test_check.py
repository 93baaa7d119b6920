"""horovod_impl/check.py passes on the Horovod that is installed, and fails where one of its collectives is wrong."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from horovod_impl import check
from tests.conftest import run_command

# Runs the check where what is gathered comes in another order.
BROKEN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import horovod.torch as hvd
from horovod_impl import check

allgather = hvd.allgather
hvd.allgather = lambda tensor, name: allgather(tensor, name=name).flip(0)
sys.exit(check.main())
"""


def rows_of(output):
    """The outcomes of each collective, with each type of values, of the table in the output."""
    lines = [line.rpartition(">:")[2] for line in output.splitlines()]
    return {line[:24].strip().replace(" ", "_"): line[24:].split() for line in lines}


def expected_rows(framework):
    refused = {name for of, name in check.UNSUPPORTED if of == framework}
    return {
        name: ["unsupported" if name in refused else "ok"] * (1 if name == "barrier" else len(check.NUMBERS))
        for name in check.COLLECTIVES
    }


@pytest.mark.grid
@pytest.mark.parametrize(("framework", "controller"), [*product(["torch", "tensorflow"], ["gloo", "mpi"])])
def test_every_collective_is_right(framework, controller):
    python = str(python_for(find("horovod_torch")))
    command = [python, "horovod_impl/check.py", "--framework", framework, "--controller", controller]
    # horovodrun remembers things in the home, and has to do without where there is none.
    status, output = run_command(command, HOME="/nonexistent")
    assert status == 0, output
    assert "Available Controllers:" in output
    assert f"horovod.{framework}, {controller}, 2 processes" in output
    assert rows_of(output).items() >= expected_rows(framework).items()


def test_one_wrong_collective_alone_fails_the_check(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN, encoding="utf-8")
    python = python_for(find("horovod_torch"))
    launcher = [str(python.parent / "horovodrun"), "--gloo", "-np", "2", str(python)]
    status, output = run_command([*launcher, str(script), "--framework", "torch"])
    assert status != 0
    assert "all_gather int64 is wrong: rank 0 got int64 (3, 3)" in output
    rows = rows_of(output)
    assert [name for name, row in expected_rows("torch").items() if rows[name] != row] == ["all_gather"]
    assert {*rows["all_gather"]} == {"wrong"}


def lacking(world):
    raise AttributeError("module has no attribute 'join'")
    yield


@pytest.mark.parametrize(
    ("collective", "words", "outcome"),
    [
        (lambda world: [(np.ones(2), np.ones(2)), (3, 3)], None, "ok"),
        (lambda world: [(3, 3), (np.ones(2), np.zeros(2))], None, "wrong: rank 1 got float64 (2,) [1., 1.] instead of"),
        (lambda world: [(np.ones(2), np.ones(2, "float32"))], None, "wrong: rank 1 got float64 (2,)"),
        (lambda world: [(np.ones(2), np.ones(3))], None, "wrong: rank 1 got float64 (2,)"),
        (lacking, None, "wrong: rank 1 had AttributeError: module has no attribute 'join'"),
        (lacking, "no attribute 'join'", "unsupported: no attribute 'join'"),
        (lacking, "not implemented", "wrong: rank 1 had AttributeError"),
        (lambda world: [(3, 3)], "no attribute", "wrong: works now, but is listed as unsupported: no attribute"),
    ],
)
def test_another_result_type_or_refusal_than_numpys_and_the_lists_is_wrong(collective, words, outcome):
    world = SimpleNamespace(rank=1)
    assert check.outcome(collective, world, words).startswith(outcome)


@pytest.mark.parametrize("seconds_later", [0, 600])
def test_a_barrier_that_a_rank_leaves_before_the_straggler_came_is_wrong(seconds_later):
    gathered = lambda own, name: [own.max(), own.max() + seconds_later]  # noqa: E731
    hvd = SimpleNamespace(barrier=lambda: None, allgather=gathered)
    world = SimpleNamespace(rank=0, name="barrier", tensor=np.asarray, hvd=hvd)
    assert check.outcome(check.barrier, world, None).startswith("wrong: rank 0 got bool" if seconds_later else "ok")


@pytest.mark.parametrize("failing", [None, 0, 2])
def test_one_failing_launch_fails_the_whole(monkeypatch, failing):
    launched = []
    monkeypatch.setattr(check, "check_build", lambda: ("gloo", "mpi"))
    # The signals are those of the tests.
    monkeypatch.setattr(check, "exit_on_signals", lambda: None)
    monkeypatch.setattr(check, "launch", lambda *names: launched.append(names) or 9 * (len(launched) - 1 == failing))
    monkeypatch.setattr("sys.argv", ["check.py"])
    assert check.main() == (0 if failing is None else 9)
    assert launched == [*product(check.FRAMEWORKS, ("gloo", "mpi"))]
