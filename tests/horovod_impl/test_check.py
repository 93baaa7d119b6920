"""horovod_impl/check.py passes on the Horovod that is installed, and fails where one of its collectives is wrong."""

from itertools import product

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from horovod_impl import check
from tests.conftest import run_command

# Runs the check with one thing of Horovod replaced.
BROKEN = """
import os, sys, time
sys.path.insert(0, {root!r})
import horovod.torch as hvd
from horovod_impl import check

{change}
sys.exit(check.main())
"""

GATHERED_IN_ANOTHER_ORDER = (
    "allgather = hvd.allgather\nhvd.allgather = lambda tensor, name: allgather(tensor, name=name).flip(0)",
    "all_gather int64 is wrong: rank 0 got int64 (3, 3)",
)
CHANGES = {
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


def broken_check(folder, change):
    script = folder / "broken.py"
    script.write_text(BROKEN.format(root=str(ROOT), change=change), encoding="utf-8")
    python = python_for(find("horovod_torch"))
    launcher = [str(python.parent / "horovodrun"), "--gloo", "-np", "2", str(python)]
    return run_command([*launcher, str(script), "--framework", "torch"])


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
    change, complaint = GATHERED_IN_ANOTHER_ORDER
    status, output = broken_check(tmp_path, change)
    assert status != 0
    assert complaint in output
    rows = rows_of(output)
    assert [name for name, row in expected_rows("torch").items() if rows[name] != row] == ["all_gather"]
    assert {*rows["all_gather"]} == {"wrong"}


@pytest.mark.grid
@pytest.mark.parametrize(("change", "complaint"), CHANGES.values(), ids=CHANGES)
def test_a_collective_that_is_wrong_otherwise_fails_the_check(tmp_path, change, complaint):
    status, output = broken_check(tmp_path, change)
    assert status != 0
    assert complaint in output


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
