"""tests/order.py: side by side, what shares something expensive runs in one process, in the order of all tests."""

import sys

import pytest

from common.paths import ROOT
from tests.conftest import run_command
from tests.order import shared_by

LAUNCH = "tests/contract/test_contract.py::test_a_strategy_follows_the_oracle_in_every_case"

TESTS = """
import os
from pathlib import Path

import pytest


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("strategy", ["one", "other"])
def test_it(strategy, case):
    (Path(__file__).parent / f"{strategy}-{case}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        (f"{LAUNCH}[tf_mirrored-first]", "tf_mirrored"),
        ("tests/contract/test_controls.py::test_what_is_broken_is_caught[tf_mirrored-sum]", "tf_mirrored"),
        ("tests/contract/test_contract.py::test_the_momentum[torch_ddp]", "torch_ddp"),
        ("tests/test_readme.py::test_a_command[nox -l]", "comparison"),
        ("tests/common/sessions/test_compare.py::test_one", "comparison"),
        ("tests/common/laboratory/test_faults.py::test_one", "comparison"),
        ("tests/common/laboratory/test_predict.py::test_one", "sessions"),
        ("tests/common/records/test_plan.py::test_a_launch[_impl/]", "tests/common/records/test_plan.py"),
        ("tests/contract/test_cases.py::test_one[pathway-64-1]", "tests/contract/test_cases.py"),
        ("tests/slurm/test_launches.py::test_one", "slurm"),
        ("tests/tf_impl/test_clusters.py::test_one[0]", "tests/tf_impl/test_clusters.py::test_one[0]"),
    ],
)
def test_what_a_test_shares_with_others_is_told_by_its_name(name, shared):
    assert shared_by(name) == shared


def run_tests(folder, *options):
    (folder / "pytest.ini").write_text("[pytest]")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.order", *options, str(folder)]
    return run_command(
        command, cwd=folder, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1"
    )


def test_tests_of_one_strategy_run_in_one_process(tmp_path):
    folder = tmp_path / "tests" / "contract"
    folder.mkdir(parents=True)
    (folder / "test_some.py").write_text(TESTS)
    status, output = run_tests(tmp_path, "--numprocesses", "2")
    assert status == 0, output
    assert "12 passed" in output
    for strategy in ("one", "other"):
        assert len({path.read_text() for path in folder.glob(f"{strategy}-*")}) == 1


def test_with_fast_a_file_that_starts_something_is_not_even_imported(tmp_path):
    for folder, content in (("contract", "raise SystemExit(3)"), ("common", "def test_a_launch(): pass")):
        path = tmp_path / "tests" / folder / "test_some.py"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    status, output = run_tests(tmp_path, "--fast")
    assert status == 0, output
    assert "1 passed" in output
