"""horovod_impl/check.py passes on the Horovod that is installed, and fails where one of its collectives is wrong."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from common.launching.launch import python_for
from common.paths import ROOT
from horovod_impl import check
from tests.conftest import run_command
from tests.horovod_impl.conftest import STRATEGY, horovodrun

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
    rows = {name: ["ok"] * len(check.NUMBERS) for name in check.COLLECTIVES}
    return rows | {"barrier": ["unsupported" if framework == "tensorflow" else "ok"]}


@pytest.mark.grid
@pytest.mark.parametrize(("framework", "controller"), [*product(["torch", "tensorflow"], ["gloo", "mpi"])])
def test_every_collective_is_right(framework, controller):
    python = str(python_for(STRATEGY))
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
    status, output = run_command(horovodrun(2, str(script), "--framework", "torch"))
    assert status != 0
    assert "all_gather int64 is wrong: rank 0 got int64 (3, 3)" in output
    rows = rows_of(output)
    assert [name for name, row in expected_rows("torch").items() if rows[name] != row] == ["all_gather"]
    assert {*rows["all_gather"]} == {"wrong"}


@pytest.mark.parametrize(
    ("collective", "outcome"),
    [
        (lambda world: [(np.ones(2), np.ones(2)), (3, 3)], "ok"),
        (lambda world: [(3, 3), (np.ones(2), np.zeros(2))], "wrong: rank 1 got float64 (2,) [1., 1.] instead of"),
        (lambda world: [(np.ones(2), np.ones(2, "float32"))], "wrong: rank 1 got float64 (2,)"),
        (lambda world: [world.hvd.join()], "wrong: rank 1 had AttributeError: 'types.SimpleNamespace' object has no"),
    ],
)
def test_another_result_or_type_than_numpys_and_an_error_is_wrong(collective, outcome):
    assert check.outcome(collective, SimpleNamespace(rank=1)).startswith(outcome)


@pytest.mark.parametrize("failing", [None, 2])
def test_one_failing_launch_fails_the_whole(monkeypatch, failing):
    launched = []
    monkeypatch.setattr(check, "check_build", lambda: ("gloo", "mpi"))
    # The signals are those of the tests.
    monkeypatch.setattr(check, "exit_on_signals", lambda: None)
    monkeypatch.setattr(check, "launch", lambda *names: launched.append(names) or 9 * (len(launched) - 1 == failing))
    monkeypatch.setattr("sys.argv", ["check.py"])
    assert check.main() == (0 if failing is None else 9)
    assert launched == [*product(check.FRAMEWORKS, ("gloo", "mpi"))]
