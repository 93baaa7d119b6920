"""What the tests skip is said last, and fails the run where it may not be skipped: a plugin of pytest."""

import os
import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from common.errors import NotInstalledError

MAY_SKIP = "LOCKSTEP_MAY_SKIP"
"""Environment variable that names a file with what may be skipped: each line a regular expression of the reason."""

_skipped: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Skip a test whose fixtures need an environment that couldn't be made."""
    return (yield from _skipping_what_is_not_installed())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test that needs an environment that couldn't be made."""
    return (yield from _skipping_what_is_not_installed())


def _skipping_what_is_not_installed() -> Generator[None, object, object]:
    try:
        return (yield)
    except Exception as error:
        # A test that expects another refusal has failed while it handled this one.
        cause = error
        while cause and not isinstance(cause, NotInstalledError):
            cause = cause.__context__
        if cause is None:
            raise
        pytest.skip(str(cause))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what is skipped, by its reason."""
    if report.skipped:
        _skipped[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where something was skipped that mustn't be on this machine."""
    if _unexpected():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last what wasn't tested, and why."""
    unexpected = _unexpected()
    for reason, count in _skipped.items():
        note = ", which may not be skipped here" if reason in unexpected else ""
        terminalreporter.write_line(f"Skipped, {count}{note}: {reason}", yellow=True)
    if not _skipped:
        terminalreporter.write_line("Skipped, 0.")


def _unexpected() -> list[str]:
    """Reasons that the file which `MAY_SKIP` names doesn't have; none where no file is named."""
    if MAY_SKIP not in os.environ:
        return []
    lines = Path(os.environ[MAY_SKIP]).read_text(encoding="utf-8").splitlines()
    expected = [line for line in lines if line and not line.startswith("#")]
    return [reason for reason in _skipped if not any(re.match(line, reason) for line in expected)]
