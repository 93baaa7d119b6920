"""What the tests of `common` share: a data cache of their own, and launches whose workers are threads and NumPy."""

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from common import machine, mlp
from common.config import Config
from common.errors import UserError
from common.mlp import State
from common.record import Record, read_record
from common.run import Run

settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("reproducible")


@pytest.fixture(scope="package", autouse=True)
def _data_cache(tmp_path_factory):
    """Keep every test out of the user's own cache, and generate each dataset once."""
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
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


@pytest.fixture
def make_record():
    """A function that makes a record of two workers, with the changes that it is given."""

    def make(**changes: object) -> Record:
        values = {
            "strategy": "numpy_threads",
            "framework": "numpy",
            "world_size": 2,
            "synchronous": True,
            "scaling": "strong",
            "status": "ok",
            "config": {"preset": "digits"},
            "threads_per_worker": 1,
            "started_at": "2026-01-01T00:00:00.000+00:00",
            "examples_per_step": 64,
        }
        return Record(**values | changes)

    return make


class World:
    """The processes of one launch, played by threads; they meet at a barrier."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[object] = [None] * size
        self._barrier = threading.Barrier(size, timeout=60)
        self._errors: list[Exception] = []

    def gather(self, rank: int, value: object) -> list:
        """Every rank's value, for every rank."""
        self._slots[rank] = value
        self._barrier.wait()
        gathered = list(self._slots)
        self._barrier.wait()
        return gathered

    def play(self, work: Callable[[int], None]) -> None:
        """Call `work` with each rank in a thread of its own; raise the first error."""
        threads = [threading.Thread(target=self._guarded, args=(work, rank)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _guarded(self, work: Callable[[int], None], rank: int) -> None:
        try:
            work(rank)
        except threading.BrokenBarrierError as error:
            self._errors.append(error)
        except Exception as error:
            self._errors.insert(0, error)
            self._barrier.abort()


@dataclass(frozen=True)
class Launch:
    """What a launch left: its record, and each rank's run, final state and rows."""

    config: Config
    record: Record
    runs: list[Run]
    states: list[State]
    rows: list[list[np.ndarray]]


@pytest.fixture
def numpy_launch(tmp_path):
    """A function that trains `config` with `world_size` workers, in NumPy's float32, and returns a Launch.

    `mend(gradients, rank)` may spoil a worker's gradients, `combine` what becomes of all workers' gradients,
    `loss_of(value)` what the run observes, and `on_step(run, rank)` is called before each update.
    """
    count = 0

    def start(
        config: Config,
        world_size: int = 1,
        *,
        whole_batch: bool = False,
        mend: Callable[[State, int], State] = lambda gradients, rank: gradients,
        combine: Callable[[list], np.ndarray] = lambda parts: np.mean(parts, axis=0),
        loss_of: Callable[[float], object] = lambda value: value,
        on_step: Callable[[Run, int], None] = lambda run, rank: None,
        **options: object,
    ) -> Launch:
        nonlocal count
        count += 1
        config = dataclasses.replace(config, record=config.record or tmp_path / "records" / f"{count}.json")
        world = World(world_size)
        runs, states, rows = [None] * world_size, [None] * world_size, [[] for _ in range(world_size)]

        def work(rank: int) -> None:
            run = runs[rank] = Run(
                config,
                strategy="numpy_threads",
                framework="numpy",
                placement=machine.Placement([], oversubscribed=True),
                rank=rank,
                world_size=world_size,
                all_gather=lambda value: world.gather(rank, value),
                **options,
            )
            state = states[rank] = dict(run.initial_state)
            for batch in run.steps(whole_batch):
                loss, gradients, _ = mlp.loss_and_gradients(config, state, batch.features, batch.labels)
                gradients = mend(gradients, rank)
                if config.exchange:
                    parts = world.gather(rank, gradients)
                    gradients = {name: combine([part[name] for part in parts]) for name in gradients}
                on_step(run, rank)
                mlp.update(config, state, gradients, batch.step)
                rows[rank].append(batch.rows)
                run.observe(loss_of(loss))
                if run.checkpoint_due:
                    run.checkpoint(state)
            run.finish(state)

        world.play(work)
        return Launch(config, read_record(Path(config.record)), runs, states, rows)

    return start
