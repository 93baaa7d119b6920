"""In which order tests run, and which of them one after another: a plugin of pytest."""

import gc
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_EXPERIMENTS = tuple(
    f"tests/common/laboratory/test_{name}.py" for name in ("collectives", "exchanges", "faults", "gpu")
)
_FROM_ABOVE = tuple(f"tests/test_{name}.py" for name in ("additions", "noxfile", "readme"))

_STARTS_PROCESSES = (
    *("tests/*_impl/*", "tests/contract/*", "tests/slurm/*", "tests/test_scripts.py", *_FROM_ABOVE, *_EXPERIMENTS),
    *("tests/common/check/*", "tests/common/environments/test_installation.py", "tests/reports/render/test_browser.py"),
    *("tests/common/launching/places/*", "tests/common/launching/virtual_hosts/*"),
    *(f"tests/common/launching/hosts/test_{name}.py" for name in ("ranks", "supervisor", "survey")),
    *(f"tests/common/launching/test_{name}.py" for name in ("executor*", "injector", "launch", "processes")),
    "tests/common/sessions/test_compare.py",
)
"""Files of tests that start strategies, other processes that last, or a browser, or that install something."""

_NEEDS_NO_FRAMEWORK = (
    *("tests/*_impl/test_strategies.py", "tests/contract/test_cases.py"),
    *(f"tests/horovod_impl/{name}.py" for name in ("building/test_build", "test_timeline", "test_world")),
)
"""Of these files those whose tests start nothing."""

_COMPARING = (
    *("tests/common/sessions/test_compare.py", "tests/common/launching/hosts/test_comparison.py"),
    *(*_FROM_ABOVE, *_EXPERIMENTS),
)
"""Files of tests that compare: one comparison at a time runs on a machine."""

_OF_A_FILE = ("*/test_browser.py", "*/test_matrices.py", "*/test_inference.py", "*/test_request_signature.py")
"""Files whose tests look at one launch, server or browser."""

_SESSIONS = ("tests/common/sessions/*", "tests/common/laboratory/*")
"""Files of tests of sessions: each session is alone on a machine, also one whose launches are made up."""

_STRATEGY = re.compile(r"tests/contract/.*\[(\w+)[-\]]")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that leaves out what starts anything."""
    parser.addoption("--fast", action="store_true", help="only tests that need no framework and start no launch")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--fast` leave out files whose tests start something, which aren't even imported."""
    if config.getoption("--fast") and collection_path.suffix == ".py":
        return is_slow(collection_path.relative_to(config.rootpath).as_posix()) or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no framework first: it takes seconds."""
    items.sort(key=lambda item: is_slow(path_in(item.nodeid)))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported and collected, which lasts: a twentieth of the reports' tests."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Where tests run side by side, hand them out in their order, those with the same `shared_by` to one process."""
    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    # xdist's own marker of groups has no effect under pytest 9.2 (pytest-xdist issue 1386).
    scheduler._split_scope = shared_by
    return scheduler


def path_in(name: str) -> str:
    """The path in pytest's name of a test, which has the function and its parameters too."""
    return name.partition("::")[0]


def shared_by(name: str) -> str:
    """What a test has in common with others that only one process has: a strategy's launch, fixtures; else its name.

    `name` is pytest's.
    """
    path = path_in(name)
    for shared, files in (("comparison", _COMPARING), ("slurm", ["tests/slurm/*"]), (path, _OF_A_FILE)):
        if _is_one_of(path, files):
            return shared
    if not is_slow(path):
        return "sessions" if _is_one_of(path, _SESSIONS) else path
    strategy = _STRATEGY.match(name)
    return strategy[1] if strategy else name


def is_slow(path: str) -> bool:
    """Whether the tests of a file, by its path from the repository's root, start something."""
    return _is_one_of(path, _STARTS_PROCESSES) and not _is_one_of(path, _NEEDS_NO_FRAMEWORK)


def _is_one_of(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
