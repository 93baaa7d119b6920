"""common/launching/virtual_hosts/cores.py: control groups of either version, on files that are like the kernel's."""

import os
import subprocess

import pytest

from common.errors import UserError
from common.launching.virtual_hosts import cores


@pytest.mark.parametrize(
    ("count", "available", "share", "each"),
    [
        pytest.param(2, (4, 5, 6, 7), None, [{4, 5}, {6, 7}], id="divided"),
        pytest.param(2, (0, 1, 2), None, [{0}, {1}], id="as many for each"),
        pytest.param(4, (0, 1), None, [{0}, {1}, {0}, {1}], id="shared in turn"),
        pytest.param(2, (0, 1, 2, 3), 0.5, [{0}, {1}], id="a part of one"),
        pytest.param(2, (0, 1, 2, 3), 1.5, [{0, 1}, {2, 3}], id="parts of two"),
        pytest.param(2, (0, 1), 8.0, [{0, 1}, {0, 1}], id="more than there are"),
    ],
)
def test_hosts_run_on_different_cores_as_long_as_there_are_any(count, available, share, each):
    assert [cores.cores_of(number, count, available, share) for number in range(1, count + 1)] == each


def test_the_first_version_gets_a_quota_of_each_period(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "_parents", lambda: [(tmp_path, True)])
    folder = cores.make("1-a-host1", 0.5, os.getpid())
    assert folder == tmp_path / "lockstep-1-a-host1"
    assert [int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period")] == [10_000, 20_000]
    assert (folder / "cgroup.procs").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("parents_controllers", ["memory", "cpu memory"])
def test_the_second_version_gets_it_in_one_line_of_the_next_place_that_hands_out_processors(
    parents_controllers, monkeypatch, tmp_path
):
    control = tmp_path / "cgroup.subtree_control"
    control.write_text(parents_controllers)
    monkeypatch.setattr(cores, "_parents", lambda: [(tmp_path / "missing", False), (tmp_path, False)])
    folder = cores.make("1-a-host1", 1.5, os.getpid())
    assert folder.parent == tmp_path
    assert (folder / "cpu.max").read_text() == "30000 20000\n"
    assert control.read_text() == ("+cpu" if parents_controllers == "memory" else parents_controllers)


def test_without_control_groups_a_share_of_cores_is_refused(monkeypatch):
    monkeypatch.setattr(cores, "_parents", list)
    with pytest.raises(UserError, match="leave the cores per host out"):
        cores.make("1-a-host1", 0.5, os.getpid())


def test_what_a_maker_left_that_is_gone_is_removed_and_nothing_else(monkeypatch, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"lockstep-{gone.pid}-a-host1", f"lockstep-{os.getpid()}-a-host1", "lockstep", "other-1-a"]
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cores, "_parents", lambda: [(tmp_path, True)])
    cores.remove_abandoned()
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
