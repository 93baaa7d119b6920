"""tests/skips.py: what is skipped is said, and fails the run where it mustn't be skipped."""

import sys

import pytest

from tests.conftest import run_command
from tests.skips import MAY_SKIP

TESTS = """
import pytest


def test_that_passes():
    pass


def test_without_hosts():
    pytest.skip("No test hosts: there is no network.")


def test_on_a_holiday():
    pytest.skip("It is Sunday.")
"""


@pytest.fixture(autouse=True)
def everything_may_be_skipped(monkeypatch):
    """Whatever the run allows that these tests are a part of."""
    monkeypatch.delenv(MAY_SKIP, raising=False)


def run_tests(tmp_path, *options, **environment):
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:cacheprovider", *options]
    # No plugin is loaded that happens to be installed: starting takes half as long.
    return run_command([*command, str(tmp_path / "test_some.py")], PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **environment)


def test_a_run_in_which_nothing_is_skipped_says_so(tmp_path):
    status, output = run_tests(tmp_path, "-k", "passes")
    assert (status, "Skipped, 0." in output) == (0, True), output


@pytest.mark.parametrize(
    ("allowed", "status", "said"),
    [
        (None, 0, "Skipped, 1: No test hosts: there is no network."),
        ("# A remark.\n\nNo test hosts\nIt is .*day", 0, "Skipped, 1: It is Sunday."),
        ("No test hosts", 1, "Skipped, 1, which may not be skipped here: It is Sunday."),
        ("hosts", 1, "Skipped, 1, which may not be skipped here: No test hosts: there is no network."),
    ],
    ids=["no list", "both", "one", "within"],
)
def test_every_skip_is_said_last_with_its_count_and_one_that_is_not_listed_fails_the_run(
    tmp_path, allowed, status, said
):
    variables = {}
    if allowed is not None:
        (tmp_path / "allowed").write_text(allowed)
        variables[MAY_SKIP] = str(tmp_path / "allowed")
    found, output = run_tests(tmp_path, **variables)
    assert found == status, output
    assert said in output
