"""horovod_impl/check.py passes on the Horovod that is installed, and fails where one of its collectives is wrong."""

from itertools import product

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from horovod_impl import check
from tests.conftest import run_command
from tests.grid import in_grid

COMBINATIONS = in_grid(product(["torch", "tensorflow"], ["gloo", "mpi"]), [("torch", "gloo")])

# Runs the check with one thing of Horovod replaced.
BROKEN = """
import os, sys, time
sys.path.insert(0, {root!r})
import horovod.torch as hvd
from horovod_impl import check

{change}
sys.exit(check.main())
"""

CHANGES = {
    "a sum that is off by one": (
        "allreduce = hvd.allreduce\nhvd.allreduce = lambda *given, **named: allreduce(*given, **named) + 1",
        "all_reduce_sum float32 is wrong: rank 1 got float32 (12, 3)",
    ),
    "a gathering in another order": (
        "allgather = hvd.allgather\nhvd.allgather = lambda tensor, name: allgather(tensor, name=name).flip(0)",
        "all_gather int64 is wrong: rank 0 got int64 (3, 3)",
    ),
    "another type of values": (
        "broadcast = hvd.broadcast\nhvd.broadcast = lambda *given, **named: broadcast(*given, **named).double()",
        "broadcast float16 is wrong: rank 0 got float64",
    ),
    "a barrier that lets everybody through": (
        "hvd.barrier = lambda: None",
        "barrier no values is wrong: rank 0 got bool () [False] instead of bool () [ True]",
    ),
    "something that Horovod refuses": (
        "hvd.alltoall = lambda *given, **named: hvd.broadcast(*given, root_rank=7)",
        "all_to_all float64 is wrong: rank 0 had ",
    ),
    "a refusal that is no more": (
        'check.UNSUPPORTED["torch", "join"] = "not implemented"',
        "join float32 is wrong: works now, but is listed as unsupported: not implemented",
    ),
    "a rank that never comes": (
        'check.LIMIT_SECONDS = 8\nif os.environ["HOROVOD_RANK"] == "1":\n    hvd.join = lambda: time.sleep(600)',
        "Timeout (0:00:08)!",
    ),
}


@pytest.mark.parametrize(("framework", "controller"), COMBINATIONS)
def test_every_collective_is_right(framework, controller):
    command = [
        str(python_for(find("horovod_torch"))),
        "horovod_impl/check.py",
        "--framework",
        framework,
        "--controller",
        controller,
    ]
    # horovodrun remembers things in the home, and has to do without where there is none.
    status, output = run_command(command, HOME="/nonexistent")
    assert status == 0, output
    assert "Available Controllers:" in output
    assert f"horovod.{framework}, {controller}, 2 processes" in output
    rows = {line[:24].strip(): line[24:].split() for line in output.splitlines()}
    for name in check.COLLECTIVES:
        refused = (framework, name) in check.UNSUPPORTED
        types = 1 if name == "barrier" else 5
        assert rows[name.replace("_", " ")] == ["unsupported" if refused else "ok"] * types


CONTROLS = [
    pytest.param(*each, id=name, marks=pytest.mark.grid if place else [])
    for place, (name, each) in enumerate(CHANGES.items())
]


@pytest.mark.parametrize(("change", "complaint"), CONTROLS)
def test_a_wrong_collective_fails_the_check(tmp_path, change, complaint):
    (tmp_path / "broken.py").write_text(BROKEN.format(root=str(ROOT), change=change), encoding="utf-8")
    python = python_for(find("horovod_torch"))
    launcher = [str(python.parent / "horovodrun"), "--gloo", "-np", "2", str(python)]
    status, output = run_command([*launcher, str(tmp_path / "broken.py"), "--framework", "torch"])
    assert status != 0
    assert complaint in output


@pytest.mark.parametrize(("statuses", "expected"), [([0, 0, 0, 0], 0), ([0, 0, 9, 0], 9), ([1, 0, 0, 0], 1)])
def test_one_failing_launch_fails_the_whole(monkeypatch, statuses, expected):
    launched = []
    monkeypatch.setattr(check, "check_build", lambda: ("gloo", "mpi"))
    # The signals are those of the tests.
    monkeypatch.setattr(check, "exit_on_signals", lambda: None)
    monkeypatch.setattr(
        check, "launch", lambda *combination: launched.append(combination) or statuses[len(launched) - 1]
    )
    monkeypatch.setattr("sys.argv", ["check.py"])
    assert check.main() == expected
    assert launched == [(framework, controller) for framework in check.FRAMEWORKS for controller in ("gloo", "mpi")]
