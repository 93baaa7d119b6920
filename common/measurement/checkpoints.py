"""The checkpoints of a launch: going on from one, saving them on the way and at the end, and the accuracy at each."""

from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from common.contract import mlp
from common.contract.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.contract.dataset import Dataset
from common.contract.mlp import State
from common.contract.rows import Piece
from common.contract.task import Task
from common.records.training import Accuracy


class Checkpoints:
    """What one process saves and measures where training stands still; only rank 0's does anything."""

    def __init__(self, task: Task, dataset: Dataset, global_batch: int) -> None:
        self._task, self._dataset, self._global_batch = task, dataset, global_batch
        self.earlier_pieces: Sequence[Piece] = ()
        """The steps before that had global batches of other sizes."""
        self.accuracies: list[Accuracy] = []

    def start(self, is_first_rank: bool) -> Checkpoint | None:
        """What to go on from: on the first rank the task's checkpoint, where there is one.

        Raises UserError for a checkpoint that can't be gone on from.
        """
        path = self._task.checkpoint
        if is_first_rank and path and path.exists():
            return read_checkpoint(path, self._task, self._global_batch)
        return None

    def checkpoint(self, state: State, step: int) -> Checkpoint:
        """The checkpoint after `step` steps."""
        return Checkpoint(state, step, self._global_batch, self.earlier_pieces)

    def is_due(self, step: int) -> bool:
        """Whether training stops at `step`, on its way, to save a checkpoint."""
        every = self._task.checkpoint_steps
        return bool(every) and step % every == 0 and step < self._task.steps

    def save(self, state: State, step: int, training_seconds: float) -> None:
        """Measure the test accuracy after `step` steps, and save the state where the task names a file."""
        with threadpool_limits(self._task.threads):
            accuracy = mlp.accuracy(self._task, state, self._dataset.test_features, self._dataset.test_labels)
        self.accuracies.append(Accuracy(step=step, accuracy=accuracy, training_seconds=round(training_seconds, 6)))
        if self._task.checkpoint:
            write_checkpoint(self._task.checkpoint, self.checkpoint(state, step), self._task)
