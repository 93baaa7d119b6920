"""What the tests skip is said last, and fails the run where it may not be skipped: a plugin of pytest."""

import os
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from common.errors import NotInstalledError

MAY_SKIP = "LOCKSTEP_MAY_SKIP"
"""Environment variable that names a file with what may be skipped: each line a regular expression of the reason."""

_skipped: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo) -> None:
    """Have a test skipped that needs an environment that couldn't be made, or whose fixtures do."""
    # A test that expects another refusal has failed while it handled this one.
    cause = call.excinfo and call.excinfo.value
    while cause and not isinstance(cause, NotInstalledError):
        cause = cause.__context__
    if cause:
        call.excinfo = pytest.CallInfo.from_call(partial(pytest.skip, str(cause)), call.when).excinfo


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
