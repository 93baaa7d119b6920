"""In which order tests run, and which of them one after another: hooks that conftest takes over."""

import gc
import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_EXPERIMENTS = ("laboratory/test_collectives.", "laboratory/test_exchanges", "laboratory/test_faults")

_STARTS_PROCESSES = (
    "_impl/",
    "contract/",
    "common/check/",
    "test_installation",
    "test_noxfile",
    "test_readme",
    "test_scripts",
    "_launch",
    "test_launch",
    "hosts/test_ranks",
    "test_compare",
    "test_comparison",
    "test_additions",
    "test_earlier_commit",
    "test_executor",
    "sessions/test_gpu",
    "measurement/test_collective_calls",
    *_EXPERIMENTS,
    *("launching/test_processes", "launching/test_injector", "launching/virtual_hosts/", "launching/places/"),
    *("hosts/test_supervisor", "hosts/test_survey", "render/test_browser"),
)
"""In the paths of tests that start strategies, other processes that last, or a browser, or that install something."""

_NEEDS_NO_FRAMEWORK = (
    "building/test_build",
    "horovod_impl/test_world",
    "test_strategies",
    "test_timeline",
    "common/contract/",
    "check/test_kinds",
    "contract/test_cases",
)

_COMPARING = (
    *("test_compare", "test_comparison", "test_noxfile", "test_additions", "test_readme", "sessions/test_gpu"),
    *_EXPERIMENTS,
)
"""In the paths of tests that compare: one comparison at a time runs on a machine."""

_OF_A_FILE = (
    *("test_watch", "test_browser", "_impl/test_collectives", "test_matrices", "test_inference"),
    *("test_request_signature", "measurement/test_collective_calls"),
)
"""In the paths of files whose tests look at one launch, server or browser."""

_STRATEGY = re.compile(r"tests/contract/.*\[(\w+)[-\]]")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that leaves out what starts anything."""
    parser.addoption("--fast", action="store_true", help="only tests that need no framework and start no launch")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what needs no framework first: it takes seconds; with `--fast` nothing else."""
    items.sort(key=lambda item: _is_slow(item.nodeid))
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if _is_slow(item.nodeid)])
        items[:] = [item for item in items if not _is_slow(item.nodeid)]


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


def shared_by(name: str) -> str:
    """What a test has in common with others that only one process has: a strategy's launch, fixtures; else its name.

    `name` is pytest's: path, function and parameters.
    """
    if any(part in name for part in _COMPARING):
        return "comparison"
    if "tests/slurm/" in name:
        return "slurm"
    if any(part in name for part in _OF_A_FILE):
        return name.partition("::")[0]
    if not _is_slow(name):
        # Each session is alone on a machine, also one whose launches are made up.
        is_of_sessions = re.search("common/(sessions|laboratory)/", name)
        return "sessions" if is_of_sessions else name.partition("::")[0]
    strategy = _STRATEGY.match(name)
    return strategy[1] if strategy else name


def _is_slow(name: str) -> bool:
    starts = any(part in name for part in _STARTS_PROCESSES)
    return starts and not any(part in name for part in _NEEDS_NO_FRAMEWORK)
