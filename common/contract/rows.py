"""The rows of each worker in every step, for any number of workers.

Global batch `step` has the same rows for any number of workers. The rows of one seeded permutation per epoch are laid
end to end and cut into batches, which may straddle two epochs. No row is dropped, none is padded. Worker `r` of `R`
takes slice `r` of the batch. Where the workers of an elastic launch change, and the size of the global batch with them,
the cuts go on from where they were.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from common.contract.dataset import Dataset
from common.contract.task import Task
from common.contract.work import Work
from common.errors import UserError


@dataclass(frozen=True)
class Batch:
    """The rows of one process in one step: their numbers in the training set, their features and their labels.

    Reading `features` or `labels` gathers them, so a strategy that keeps the data on its device can use `rows` alone. A
    `buffer` holds the gathered arrays until the next batch's are read.
    """

    step: int
    rows: np.ndarray
    dataset: Dataset = field(repr=False)
    buffer: tuple[np.ndarray, np.ndarray] | tuple[None, None] = field(default=(None, None), repr=False)

    @property
    def features(self) -> np.ndarray:
        """(rows, inputs) float32."""
        # NumPy gathers straight into a given array only with a mode other than "raise"; the rows are in bounds.
        return self.dataset.train_features.take(self.rows, axis=0, out=self.buffer[0], mode="clip")

    @property
    def labels(self) -> np.ndarray:
        """(rows,) int64; of a text (rows, positions)."""
        return self.dataset.train_labels.take(self.rows, axis=0, out=self.buffer[1], mode="clip")


class RowOrder:
    """The endless sequence of training rows, one seeded permutation per epoch; batches are consecutive cuts of it."""

    def __init__(self, row_count: int, seed: int) -> None:
        self._row_count = row_count
        self._seed = seed
        self._epoch = -1
        self._permutation = np.empty(0, np.int64)

    def cut(self, start: int, stop: int) -> np.ndarray:
        """Row numbers at positions `start` to `stop` of the sequence, (stop - start,) int64."""
        first, last = start // self._row_count, (stop - 1) // self._row_count
        if first == last:
            offset = first * self._row_count
            return self._permutation_of(first)[start - offset : stop - offset]
        edges = [start, *(epoch * self._row_count for epoch in range(first + 1, last + 1)), stop]
        return np.concatenate([self.cut(*pair) for pair in pairwise(edges)])

    def _permutation_of(self, epoch: int) -> np.ndarray:
        if epoch != self._epoch:
            self._permutation = np.random.default_rng([self._seed, 1, epoch]).permutation(self._row_count)
            self._epoch = epoch
        return self._permutation


@dataclass(frozen=True)
class Piece:
    """Consecutive steps with global batches of one size. Raises ValueError where there are none."""

    steps: int
    global_batch: int

    def __post_init__(self) -> None:
        if self.steps < 1 or self.global_batch < 1:
            raise ValueError(f"A piece has steps and rows, not {self.steps} and {self.global_batch}.")


@dataclass(frozen=True)
class Share:
    """The part of every global batch that one process gets."""

    global_batch: int
    """Rows per step of all workers together."""
    start: int
    """The position of this process's first row in the global batch."""
    count: int
    """Rows of this process in each step."""
    earlier_pieces: Sequence[Piece] = ()
    """The steps before, from the first on, that had global batches of other sizes."""

    def rows(self, row_count: int, seed: int, first_step: int, stop: int | None = None) -> Iterator[np.ndarray]:
        """Yield the numbers of this process's rows, (rows,) int64, in every step from `first_step` to before `stop`.

        The training set has `row_count` rows. Without a `stop` the steps never end.
        """
        order = RowOrder(row_count, seed)
        earlier_steps = sum(piece.steps for piece in self.earlier_pieces)
        earlier_rows = sum(piece.steps * piece.global_batch for piece in self.earlier_pieces)
        for step in itertools.count(first_step) if stop is None else range(first_step, stop):
            begin = earlier_rows + (step - earlier_steps) * self.global_batch + self.start
            yield order.cut(begin, begin + self.count)


def share_of(task: Task, work: Work, synchronous: bool, rank: int, workers: int) -> Share:
    """The share of the process with this rank.

    In an asynchronous launch a step is one worker's update, with a batch of its own. Raises UserError for a global
    batch that doesn't divide among data-parallel workers.
    """
    if not synchronous:
        return Share(task.batch, 0, task.batch)
    whole = global_batch(task, work, workers)
    if work is Work.DATA_PARALLEL:
        local = local_batch(task, workers)
        return Share(whole, rank * local, local)
    return Share(whole, 0, whole)


def shards_of(work: Work, synchronous: bool, workers: int) -> int:
    """The number of equal parts into which the workers divide every global batch."""
    return 1 if work is Work.PARTS_OF_ONE_MODEL or not synchronous else workers


def local_batch(task: Task, workers: int) -> int:
    """Rows per step of each worker.

    Raises UserError for a global batch that doesn't divide by the workers; it names the nearest sizes that do.
    """
    if task.scaling == "weak":
        return task.batch
    if task.batch % workers:
        below = task.batch - task.batch % workers
        sizes = f"{below} or {below + workers}" if below else f"{workers}"
        raise UserError(
            f"A global batch of {task.batch} doesn't divide by {workers} workers: use --batch {sizes}, "
            "or another number of workers."
        )
    return task.batch // workers


def global_batch(task: Task, work: Work, workers: int) -> int:
    """Rows per step of all workers together. Raises UserError as `local_batch` does."""
    if work is Work.PARTS_OF_ONE_MODEL:
        return task.batch * (workers if task.scaling == "weak" else 1)
    return local_batch(task, workers) * workers
