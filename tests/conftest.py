"""What the tests that start strategies share: starting one as a user does, and reading what it left."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from common import catalogue
from common.catalogue import ROOT
from common.contract import oracle
from common.contract.mlp import Trajectory
from common.contract.oracle import Deviation
from common.contract.task import Task, maths_of, task_of, to_arguments
from common.errors import NotInstalledError
from common.launch import python_for
from common.measurement.record import Record, read_record

DEADLINE_SECONDS = 240


STARTS_STRATEGIES = (
    "_impl/",
    "contract/",
    "test_installation",
    "test_noxfile",
    "test_readme",
    "test_scripts",
    "test_launch",
    "test_compare",
    "test_additions",
)
"""In the paths of tests that start strategies, or install something."""

NEEDS_NO_FRAMEWORK = ("building/test_build", "horovod_impl/test_world", "test_strategies", "test_timeline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no framework first: it takes seconds."""

    def is_slow(item: pytest.Item) -> bool:
        starts = any(name in item.nodeid for name in STARTS_STRATEGIES)
        return starts and not any(name in item.nodeid for name in NEEDS_NO_FRAMEWORK)

    items.sort(key=is_slow)


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
    lines = Path(os.environ[MAY_SKIP]).read_text().splitlines()
    expected = [line for line in lines if line and not line.startswith("#")]
    return [reason for reason in _skipped if not any(re.match(line, reason) for line in expected)]


@dataclass(frozen=True)
class Launched:
    """How a command ended, what it printed, and the record that it left, if any."""

    status: int
    output: str
    record: Record | None
    folder: Path

    @property
    def task(self) -> Task:
        return task_of(self.record.task)


def run_command(
    command: list[str], cwd: Path = ROOT, deadline_seconds: float = DEADLINE_SECONDS, **environment: str
) -> tuple[int, str]:
    """Exit status and output of a command run from the repository's root, or from another folder."""
    result = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_seconds + 60,
    )
    return result.returncode, result.stdout


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Launched]:
    """A function that starts a strategy with a task, in the test's folder, and returns how it went."""

    def start(strategy: str, task: Task, name: str = "run", **options: object) -> Launched:
        declared = catalogue.find(strategy)
        python_for(declared)
        command = [sys.executable, "-m", "common.launch", strategy]
        record = tmp_path / f"{name}.json"
        arguments = to_arguments(task, declared.options(**options))
        status, output = run_command([*command, *arguments, "--record", str(record)])
        return Launched(status, output, read_record(record) if record.exists() else None, tmp_path)

    return start


@cache
def oracle_of(maths: Task, global_batch: int, steps: int) -> Trajectory:
    """The oracle of a task that `maths_of` gives: many launches are compared with the same one."""
    return oracle.run_oracle(maths, global_batch, steps)


@pytest.fixture
def deviation_of() -> Callable[..., Deviation]:
    """A function that compares a launch with the oracle of its global batch: by default that of its own task."""

    def compare(launched: Launched, task: Task | None = None) -> Deviation:
        assert launched.record is not None, launched.output
        task = task or launched.task
        trajectory = oracle_of(maths_of(task), launched.record.examples_per_step, task.steps)
        return oracle.deviation(launched.record, task, launched.folder, trajectory)

    return compare
