"""Where one environment can't be made, the sessions do all that the others allow, and say what is missing and why."""

import os
import shutil
from itertools import groupby
from unittest.mock import Mock

import pytest

from common.declarations.catalogue import families, find, strategies
from common.environments import installation, inventory
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.files import read_records
from common.records.training import Record
from reports.document import compose
from reports.tables.material import Material
from reports.tables.results import read_results
from tests.commands import sessions
from tests.conftest import run_command
from tests.reports.pieces import answers

MADE = ("tools", "torch")

USUAL = {name for name, family in families().items() if not family.made_on_request}
"""The environments that sessions make without being asked."""

NEEDS_REQUEST, ON_REQUEST = next(
    (strategy.name, strategy.family.environment)
    for strategy in strategies().values()
    if strategy.family.made_on_request
)
"""A strategy whose environment is made on request, and that environment."""


def test_the_menu_begins_with_where_to_start_and_keeps_each_group_together():
    tags = {name: session.tags for name, session in sessions().items()}
    groups = [group for group, _ in groupby(tags.values())]
    assert groups == [["start here"], ["strategies"], ["laboratory"], ["development"]]
    assert list(tags)[:3] == ["compare", "check", "report"]
    assert {name for name, group in tags.items() if group == ["strategies"]} == {*strategies()}


@pytest.mark.parametrize(
    ("name", "chooses"), [("torch", True), ("horovod", True), ("horovod-nccl", False), ("tensorflow", False)]
)
def test_the_build_of_torch_is_chosen_for_the_machine_but_where_one_build_alone_will_do(name, chooses):
    environment_of = sessions()["tools"].func.__globals__["environment"]
    assert bool(environment_of(name).variables) == chooses


@pytest.mark.parametrize(
    ("session", "options", "there", "made"),
    [
        ("compare", [], [], {"torch", "tensorflow", "horovod"}),
        ("compare", [], ["jax"], USUAL),
        ("compare", ["--profile", "full"], [], USUAL),
        ("compare", ["--profile", "full"], [ON_REQUEST], {*USUAL, ON_REQUEST}),
        ("compare", ["--strategies", NEEDS_REQUEST], [], {ON_REQUEST}),
        ("compare", ["--plan"], ["jax"], set()),
        *((session, [], [], USUAL) for session in ("tests", "contract", "hosts", "slurm")),
        ("tests", [], [ON_REQUEST], {*USUAL, ON_REQUEST}),
        ("tests", ["--fast"], [ON_REQUEST], set()),
    ],
)
def test_a_session_makes_the_environments_of_what_it_launches_and_keeps_one_that_is_there_up_to_date(
    session, options, there, made, monkeypatch, tmp_path
):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    for name in there:
        (tmp_path / name).mkdir()
        (tmp_path / name / "made.json").touch()
    make = Mock(return_value={})
    monkeypatch.setattr(installation, "make", make)
    sessions()[session](Mock(posargs=options))
    assert {each.name for each in make.call_args.args[0]} == {"tools", *made}


@pytest.mark.grid
def test_a_comparison_without_one_framework_reaches_its_report_which_says_so_on_its_first_page(tmp_path):
    """In a copy of this checkout, at a path with a space and an é, whose Horovod no index has."""
    python_for(find("torch_single"))
    checkout = tmp_path / "an é and a space"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "__pycache__", "results", "out"))
    (checkout / ".nox").mkdir()
    for name in MADE:
        (checkout / ".nox" / name).symlink_to(ROOT / ".nox" / name)
    strategies = ["--strategies", "torch_single", "horovod_torch", "--workers", "1"]
    command = [str(ROOT / ".nox" / "tools" / "bin" / "nox"), "-s", "compare", "--", *strategies]
    without_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    status, output = run_command([*command, "--repetitions", "1", "--preset", "digits"], cwd=checkout, **without_index)
    assert status != 0
    reason = "The environment horovod can't be made: No solution found when resolving dependencies: "
    assert f"Done without horovod: {reason}" in output
    [folder] = (checkout / "results").iterdir()
    ended = {record.strategy: record.status for record in read_records(folder, Record).values()}
    assert ended == {"torch_single": "ok", "horovod_torch": "unsupported"}, output
    content, _ = compose(Material(read_results(folder)))
    items = answers(content["blocks"])["How sure"]
    assert any(item.startswith(f"Not compared: horovod_torch. {reason}") for item in items), items
    assert (checkout / "reports" / "out" / "comparison.pdf").read_bytes().startswith(b"%PDF")


FAILURE = "The environment horovod can't be made: No solution found"


@pytest.mark.parametrize(
    ("session", "commands", "error"),
    [("tests", [("-m", "pytest")], f"Done without horovod: {FAILURE}"), ("horovod_torch", [], FAILURE)],
)
def test_a_session_goes_on_without_an_environment_if_it_can_and_ends_with_the_reason(
    session, commands, error, monkeypatch
):
    monkeypatch.setattr(installation, "make", lambda *_: {"horovod": f"{FAILURE}."})
    played = Mock(posargs=[])
    played.error.side_effect = SystemExit
    with pytest.raises(SystemExit):
        sessions()[session](played)
    assert [call.args[1:3] for call in played.run.call_args_list] == commands
    played.error.assert_called_once_with(error)
