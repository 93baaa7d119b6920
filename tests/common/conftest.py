"""What the tests of `common` share: a data cache, made-up strategies, and launches whose workers are threads."""

import ast
import contextlib
import dataclasses
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from common.contract import model
from common.contract.model import State
from common.contract.task import Task
from common.contract.work import Work
from common.declarations import arguments, catalogue
from common.declarations.strategy import ExchangeOptions, Family, MpiOptions, Options, ReplicaOptions, Strategy, option
from common.errors import UserError
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from common.records.files import read_record
from common.records.training import Record

settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("reproducible")


@pytest.fixture(scope="session", autouse=True)
def _data_cache(tmp_path_factory):
    """Keep every test out of the user's own cache, and generate each dataset once for all that run side by side."""
    own = tmp_path_factory.getbasetemp()
    cache = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.delenv(machine.PRIVATE_NETWORK, raising=False)
        yield


@pytest.fixture
def refusal():
    """A function that makes a call, expects a UserError of one line that ends as a sentence, and returns its text."""

    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(UserError) as caught:
            call()
        text = str(caught.value)
        assert "\n" not in text
        assert text.endswith(".")
        return text

    return refused


def git(folder: Path, *arguments: str) -> str:
    """What git prints in `folder`."""
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, files: Mapping[str, str]) -> str:
    """Write these files, texts by paths, commit all that changed, and return the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a change")
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True, kw_only=True)
class ThreadOptions(ReplicaOptions):
    """The options of a made-up strategy, one of each kind."""

    packed: bool = option(True)
    """Exchange all gradients in one piece."""
    prefetch: int = option(0, at_least=0)
    """Batches that are prepared ahead."""
    piece_megabytes: float | None = option(None, above=0)
    """Size of a piece; none: one for each layer."""
    codec: Literal["none", "fp16"] = option("none", other_maths=True)
    """How gradients are rounded."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ExchangeOptions):
    """The options of a made-up strategy that is asynchronous unless told otherwise."""

    updates: Literal["asynchronous", "synchronous"] = option("asynchronous")


OVERSUBSCRIBED = machine.Pinning([], oversubscribed=True)

NUMPY = Family(
    title="NumPy",
    environment="numpy-alone",
    imports="numpy",
    packages=("numpy", "scipy"),
    colors=("#111111", "#555555", "#999999"),
)


@pytest.fixture(scope="session")
def declare():
    """A function that declares a strategy that isn't in the catalogue, with the changes that it is given."""

    def declared(name: str = "numpy_threads", **changes: object) -> Strategy:
        values = {
            "script": "numpy_impl/threads.py",
            "summary": "workers that are threads",
            "family": NUMPY,
            "framework": "numpy",
            "options": ThreadOptions,
        }
        return Strategy(name=name, **values | changes)

    return declared


@pytest.fixture
def catalogue_of(monkeypatch):
    """A function that makes the given strategies all that the catalogue has."""

    def have(*declared: Strategy) -> None:
        known = {strategy.name: strategy for strategy in declared}
        for module in (catalogue, arguments):
            monkeypatch.setattr(module, "strategies", lambda: known)
        for others in ("libraries", "ways"):
            monkeypatch.setattr(catalogue, others, dict)

    return have


@pytest.fixture
def strategies_of_each_kind(declare, catalogue_of):
    """One strategy of each kind, in two families, by name, which are all that the catalogue has."""
    other = dataclasses.replace(declare().family, title="Other")
    declared = [
        declare("one_alone", work=Work.UNDISTRIBUTED, options=Options, quick=True),
        declare("one_threads", base="one_alone", quick=True, variants=({"prefetch": 1}, {"codec": "fp16"})),
        declare("one_hand", base="one_alone", recovers_with=({"prefetch": 1},)),
        declare("one_pieces", base="one_alone", work=Work.PARTS_OF_ONE_MODEL, options=Options),
        declare("one_met", base="one_alone", options=MpiOptions, variants=({"backend": "mpi"},)),
        declare("two_alone", family=other, work=Work.UNDISTRIBUTED, options=Options, quick=True),
        declare("two_replicas", family=other, base="two_alone", work=Work.REPLICAS_IN_ONE_PROCESS, quick=True),
        declare(
            "two_servers",
            family=other,
            base="two_alone",
            work=Work.COORDINATED,
            options=ServerOptions,
            synchronous_with={"updates": "synchronous"},
            recovers_with=({},),
            processes_beside=lambda options: 2,
            quick=True,
        ),
    ]
    catalogue_of(*declared)
    return {strategy.name: strategy for strategy in declared}


@pytest.fixture
def run_here(monkeypatch, tmp_path):
    """A function that runs a session's program with these options as a user would, and returns its exit status.

    Its report is `out.pdf`, in the test's folder.
    """
    # Signals would go on ending the tests themselves in this way, and nothing here is a measurement.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)

    def run(program: Callable[[], None], results: Path, *options: str) -> int:
        outputs = ["--results", str(results), "--out", str(tmp_path / "out.pdf")]
        monkeypatch.setattr(sys, "argv", ["session", *outputs, *options])
        try:
            program()
        except SystemExit as ended:
            return ended.code
        return 0

    return run


class Processes:
    """The processes of one launch, played by threads; they meet at a barrier."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[object] = [None] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def gather(self, rank: int, value: object) -> list:
        """Every rank's value, for every rank."""
        self._slots[rank] = value
        self._barrier.wait()
        gathered = list(self._slots)
        self._barrier.wait()
        return gathered

    def play(self, work: Callable[[int], None]) -> None:
        """Call `work` with each rank in a thread of its own; raise the first error."""
        lock, literal_eval = threading.Lock(), ast.literal_eval

        def one_at_a_time(text: str) -> object:
            with lock:
                return literal_eval(text)

        def guarded(rank: int) -> None:
            try:
                work(rank)
            except Exception:
                self._barrier.abort()
                raise

        # NumPy parses the head of each file of an array, and Python 3.11 counts how deep it parses in one place for all
        # threads: where one is interrupted by another that parses, both fail (cpython issue 106905).
        with patch.object(ast, "literal_eval", one_at_a_time), ThreadPoolExecutor(self.size) as threads:
            played = [threads.submit(guarded, rank) for rank in range(self.size)]
        errors = [error for each in played if (error := each.exception())]
        # Those that wait for a rank that failed only say that they waited.
        for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
            raise error


@dataclass(frozen=True)
class Launch:
    """What a launch left: its record, and each rank's run, final state and rows."""

    record: Record
    runs: list[Run]
    states: list[State]
    rows: list[list[np.ndarray]]


@pytest.fixture
def numpy_launch(tmp_path, declare):
    """A function that trains `task` with `world_size` workers in NumPy's float32, and returns a Launch.

    `world` has more fields of the World. `on_step` is called before each update, and `spoil` may change a worker's
    state after it. `loss_of` says what a worker observes: None where it sees no loss.
    """
    count = itertools.count()

    def start(
        task: Task,
        world_size: int = 1,
        *,
        strategy: Strategy | None = None,
        options: Options | None = None,
        world: Mapping[str, object] | None = None,
        on_step: Callable[[Run, int], object] = lambda run, rank: None,
        spoil: Callable[[State, int, int], object] = lambda state, rank, step: None,
        loss_of: Callable[[float, int, int], object] = lambda loss, rank, step: loss,
    ) -> Launch:
        strategy = strategy or declare()
        task = dataclasses.replace(task, record=task.record or tmp_path / "records" / f"{next(count)}.json")
        processes, (runs, states, rows) = Processes(world_size), ([None] * world_size for _ in range(3))

        def work(rank: int) -> None:
            facts = {"rank": rank, "size": world_size, "all_gather": partial(processes.gather, rank), **(world or {})}
            options_here = options or strategy.options()
            run = runs[rank] = Run(strategy, task, options_here, World(pinning=OVERSUBSCRIBED, **facts))
            state = states[rank] = dict(run.initial_state)
            rows[rank] = []
            run.export_with(lambda: state)
            for batch in run.steps():
                rows[rank].append(batch.rows)
                computed = model.loss_and_gradients(task, state, batch.features, batch.labels)
                parts = processes.gather(rank, computed.gradients)
                on_step(run, rank)
                mean = {name: np.mean([part[name] for part in parts], axis=0) for name in computed.gradients}
                model.update(task, state, mean, batch.step)
                spoil(state, rank, batch.step)
                loss = loss_of(computed.loss, rank, batch.step)
                run.observe(loss, 0 if loss is None else len(batch.labels))
            run.finish()

        processes.play(work)
        return Launch(read_record(Path(task.record), Record), runs, states, rows)

    return start
