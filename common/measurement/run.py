"""Run: the measured loop that every strategy iterates. It hands out the rows and keeps the clock and the record."""

import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from common import errors
from common.contract import dataset, model
from common.contract.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.contract.evidence import MOST_BYTES, EvidenceFile, evidence_path
from common.contract.model import State
from common.contract.rows import Batch, shards_of, share_of
from common.contract.task import Task
from common.contract.work import Work
from common.declarations.strategy import Options, Strategy
from common.errors import LaunchFailedError
from common.files import ensure_writable
from common.measurement import machine, record, startup
from common.measurement.boundaries import Boundaries
from common.measurement.clock import Clock
from common.measurement.windows import MOST_STATES, unforeseen, windows_of
from common.measurement.world import World
from common.paths import new_record
from common.records.files import write_record
from common.records.training import Accuracy, Memory

Tensor = Any
"""What a framework computes with, lazy or not, an array or a number: any type, since `common` names no framework."""


class Run:
    """One process's part in one launch of a strategy.

    It goes on from `checkpoint`, which every rank has, else from the task's file where there is one. Raises UserError
    for options that the strategy can't have in this world, a batch that doesn't divide, data that don't fit, a
    checkpoint or a results folder that can't be used.
    """

    def __init__(
        self, strategy: Strategy, task: Task, options: Options, world: World, checkpoint: Checkpoint | None = None
    ) -> None:
        joined = startup.moment()
        self._memory_at_start = machine.watch_memory()
        strategy.refuse(task, options, world.size, len(machine.gpu_names()))
        self.strategy, self.task, self.options, self.world = strategy, task, options, world
        synchronous = strategy.is_synchronous(options)
        self._share = share_of(task, strategy.work, synchronous, world.rank, world.size)
        self.global_batch = self._share.global_batch
        """Rows per step of all workers together; of an asynchronous strategy those of one worker's update."""
        self.dataset = dataset.load(task)
        about = f"{strategy.name}-{task.preset}-{task.scaling}-{world.size}w"
        self.record_path = task.record or new_record(about)
        if world.rank == 0:
            ensure_writable(self.record_path)
            ensure_writable(task.checkpoint or self.record_path)
        if task.checkpoint and checkpoint is None:
            is_read_here = world.rank == 0 and task.checkpoint.exists()
            read = read_checkpoint(task.checkpoint, task, self.global_batch) if is_read_here else None
            [checkpoint, *_] = world.all_gather(read)
        if checkpoint:
            self._share = dataclasses.replace(self._share, earlier_pieces=checkpoint.earlier_for(self.global_batch))
        self.first_step = checkpoint.step if checkpoint else 0
        """The step that every rank begins with."""
        self.initial_state = checkpoint.state if checkpoint else model.initial_weights(task)
        """What every rank begins with: weights, and momentum where a checkpoint has any."""
        pinned_cores = world.pinning.pinned_cores
        # Where no worker waits for the others, nobody has the weights before and after an update.
        recipe = strategy.recipe(options) if synchronous or world.size == 1 else None
        replicas = 1 if recipe and recipe.keeps_alike else world.size
        is_told = recipe and MOST_STATES * replicas * model.parameter_bytes(task) <= MOST_BYTES
        drawing = startup.moment()
        [draw, *_] = world.all_gather(unforeseen()) if is_told else [None]
        self._windows = windows_of(task, self.first_step, draw)
        self._evidence = EvidenceFile(evidence_path(self.record_path)) if self._windows.evidence else None
        self.clock = Clock(self._windows, world.rank, world.synchronize, joined, pinned_cores)
        self.clock.leave_out(drawing)
        self._step = self._window_start = self._window_end = self.first_step
        self._boundaries = Boundaries(task, world.rank, strategy.work is Work.COORDINATED)
        self._boundaries.reach(self.first_step)
        self._accuracies: list[Accuracy] = []
        self._unread: list[tuple[Tensor | None, Tensor, int]] = []
        self._losses: list[list[float]] = []
        self._examples = 0
        self._printed_at = 0.0
        self._peak_bytes = 0

    def export_with(
        self,
        state: Callable[[], State],
        held_bytes: Callable[[], Mapping[str, int]] = dict,
        replicas: Callable[[], list[State]] | None = None,
    ) -> None:
        """Say, before the first step, how to read the training's state; every rank reads it at the same steps.

        `state` gives weights and momentum as NumPy arrays in the contract's layout. `held_bytes` gives the bytes of
        this process's parameters, gradients and optimizer state, by these names. `replicas` gives the states of all
        replicas in this process; left out, it has one.
        """
        self._state, self._held_bytes = state, held_bytes
        self._replicas = replicas or (lambda: [state()])

    def steps(self) -> Iterator[Batch]:
        """This process's batch of every step."""
        for batches in self.windows():
            yield from batches

    def grouped_steps(self, steps: int) -> Iterator[list[Batch]]:
        """This process's batches for programs that compute so many `steps` in one call, fewer where a window ends.

        All batches share one buffer for features and labels, so such a program uses their `rows`.
        """
        for batches in self.windows():
            for start in range(0, len(batches), steps):
                yield batches[start : start + steps]

    def windows(self) -> Iterator[list[Batch]]:
        """Each window's batches. The clock starts on yield. Call `observe` for every batch before asking for more."""
        rows = self.rows(self.first_step)
        # One buffer for all steps: a new one each time would be memory that no cache holds.
        labels_shape = (self._share.count, *self.dataset.train_labels.shape[1:])
        buffer = (np.empty((self._share.count, self.task.dimensions[0]), np.float32), np.empty(labels_shape, int))
        reading = startup.moment()
        self._leave_evidence()
        self.clock.leave_out(reading)
        while self._step < self.task.steps:
            self._window_start, self._window_end = self._step, self._windows.end(self._step)
            steps = range(self._window_start, self._window_end)
            batches = [Batch(step, next(rows), self.dataset, buffer) for step in steps]
            self.clock.start(self._step)
            yield batches
            if self._step != self._window_end:
                raise RuntimeError(f"{self.strategy.name} must call observe() once after every step.")

    def rows(self, start: int, stop: int | None = None) -> Iterator[np.ndarray]:
        """Numbers of this process's rows in every step from `start` to before `stop`; without one, for ever."""
        return self._share.rows(len(self.dataset.train_labels), self.task.seed, start, stop)

    def observe(self, losses: Tensor | Callable[[], Tensor] | None, rows: Tensor = 0, steps: int = 1) -> None:
        """Note the loss of the last step, and close the window where that ends one.

        The loss is the mean over this process's rows; of several shards it is each one's, (shards,), and of several
        `steps` (steps,) or (steps, shards). A worker that never sees a loss, as a pipeline's first stage, gives None.
        `rows` counts those that it was taken of, in all these steps. Both may be lazy tensors, and the loss a function
        that gives it: both are read after the window's clock has stopped.
        """
        self._unread.append((losses, rows, steps))
        self._step += steps
        if getattr(self.options, "check_replicas", False):
            self._check_replicas()
        if self._step == self._window_end:
            self._close_window()

    def checkpoint(self, step: int) -> Checkpoint:
        """What training can go on from, after so many steps: the state as it is now, read on every rank."""
        return Checkpoint(self._state(), step, self.global_batch, self._share.earlier_pieces)

    def finish(self, examples: int | None = None, **facts: object) -> None:
        """Gather every rank's times, then let rank 0 save the final state, write the record and print the result.

        Every rank must call it, before the framework's own teardown. `examples` are this process's rows in all steps,
        where they are counted only now. `facts` are more fields of the record. Raises LaunchFailedError on every rank
        where a step or a shard has no loss, or ranks had different data: nothing would prove the maths.
        """
        self._peak_bytes = max(self._peak_bytes, machine.peak_memory())
        state, held_bytes = self._state(), self._held_bytes()
        part = record.Part(
            windows=self.clock.windows,
            losses=self._losses,
            examples=self._examples if examples is None else examples,
            startup_seconds=self.clock.startup_seconds,
            startup_processor_seconds=self.clock.startup_processor_seconds,
            peak_memory_bytes=self._peak_bytes,
            memory_bytes=Memory(**held_bytes, above_import=max(0, self._peak_bytes - self._memory_at_start)),
            process_start_seconds=startup.process_start_seconds(),
            sent_bytes=self.clock.sent_bytes,
            data_sha256=self.dataset.sha256,
        )
        parts = self.world.all_gather(part)
        if len({each.data_sha256 for each in parts}) > 1:
            raise LaunchFailedError(
                f"The ranks trained on different rows of {self.task.preset}: give every host the same files, or "
                "the same folder data in its cache."
            )
        self._check_losses([each.losses for each in parts])
        if self.world.rank:
            return
        path = self.task.checkpoint
        self._save(state)
        if path:
            is_beside = path.resolve().parent == self.record_path.resolve().parent
            facts = {"checkpoint": path.name if is_beside else str(path.resolve())} | facts
        steps = self.task.steps - self.first_step - self.task.warmup_steps
        facts = record.wire_bytes(parts, self.world.size, steps) | facts
        if self._evidence:
            facts = {"evidence_sha256": self._evidence.close()} | facts
        written = record.of_launch(
            self.strategy,
            self.task,
            self.options,
            self.world,
            parts,
            first_step=self.first_step,
            earlier_pieces=self._share.earlier_pieces,
            examples_per_step=self.global_batch,
            data_sha256=self.dataset.sha256,
            data=self.dataset.name,
            accuracies=self._accuracies,
            final_accuracy=self._accuracies[-1].accuracy,
            **facts,
        )
        write_record(self.record_path, written)
        record.print_result(written, self.record_path)

    def _check_losses(self, losses: list[list[list[float]]]) -> None:
        """Raises LaunchFailedError unless there is a loss of every step and shard: `losses` by rank, step and shard."""
        steps = self.task.steps - self.first_step
        shards = shards_of(self.strategy.work, self.strategy.is_synchronous(self.options), self.world.size)
        observed = [each for each in losses if each]
        widths = [{len(of_step) for of_step in each} for each in observed]
        count = sum(max(width) for width in widths)
        if any(len(each) != steps for each in observed) or any(len(width) > 1 for width in widths):
            cause = f"it gave observe() losses of {min(map(len, observed))} of {steps} steps"
        elif not observed or count != shards > 1:
            cause = f"it gave observe() the losses of {count} of {shards} shards"
        else:
            return
        raise LaunchFailedError(
            f"{self.strategy.name} leaves no record, since {cause}: call observe() with the loss after every step."
        )

    def _close_window(self) -> None:
        seconds = self.clock.stop(self._step)
        has_ranks = self.strategy.work in (Work.DATA_PARALLEL, Work.PARTS_OF_ONE_MODEL) and self.world.size > 1
        errors.speaker = f"rank {self.world.rank}: " if has_ranks else ""
        for observed, rows, steps in self._unread:
            losses: Any = observed() if callable(observed) else observed
            if losses is not None:
                # A lazy tensor of one number may know only how to become a float.
                values = np.ravel(losses) if np.ndim(losses) > 1 else losses if np.ndim(losses) else [losses]
                self._losses += np.reshape([float(value) for value in values], (steps, -1)).tolist()
            self._examples += int(np.sum(rows))
        self._unread.clear()
        now = time.perf_counter()
        if self.world.rank == 0 and (now - self._printed_at >= 1 or self._step == self.task.steps):
            self._printed_at = now
            rate = (self._step - self._window_start) * self.global_batch / seconds
            # We don't gather the loss: that would add a synchronisation.
            whose = "rank 0's loss" if self.strategy.work is Work.DATA_PARALLEL and self.world.size > 1 else "loss"
            loss = f"{whose} {np.mean(self._losses[-1]):.5f}   " if self._losses else ""
            print(f"step {self._step:>5}/{self.task.steps}   {loss}{rate:>9,.0f} samples/s", flush=True)
        every = self.task.checkpoint_steps
        if every and self._step % every == 0 and self._step < self.task.steps:
            state = self._state()
            if self.world.rank == 0:
                self._save(state)
            # The other ranks wait, so no window has that time.
            self.world.all_gather(None)
        self._leave_evidence()
        self._boundaries.reach(self._step)
        if self._window_start == self.first_step and self.world.rank == 0:
            startup.leave_word(startup.FIRST_STEP)

    def _save(self, state: State) -> None:
        """Measure the test accuracy of the state as it is now, and save the state where the task names a file."""
        with threadpool_limits(self.task.threads):
            accuracy = model.accuracy(self.task, state, self.dataset.test_features, self.dataset.test_labels)
        seconds = round(self.clock.training_seconds, 6)
        self._accuracies.append(Accuracy(step=self._step, accuracy=accuracy, training_seconds=seconds))
        if self.task.checkpoint:
            checkpoint = Checkpoint(state, self._step, self.global_batch, self._share.earlier_pieces)
            write_checkpoint(self.task.checkpoint, checkpoint, self.task)

    def _leave_evidence(self) -> None:
        """Where this step is evidence, have rank 0 keep the state of all replicas, of those that are alike once."""
        if self._evidence is None or self._step not in self._windows.evidence:
            return
        self._peak_bytes = max(self._peak_bytes, machine.peak_memory())
        # The weights tell the momentum, but for what a run begins with.
        momenta = self.initial_state if self._step == self.first_step else {}
        own = [
            {name: value for name, value in state.items() if not name.endswith(".momentum")}
            | {name: value for name, value in momenta.items() if name.endswith(".momentum")}
            for state in self._replicas()
        ]
        digests = [[*_digests(state).values()] for state in own]
        by_rank = self.world.all_gather(digests)
        everyones, start = [*chain(*by_rank)], sum(map(len, by_rank[: self.world.rank]))
        likes = [everyones.index(each) for each in everyones]
        new = {start + number: state for number, state in enumerate(own) if likes[start + number] == start + number}
        # What rank 0 lacks: nothing, where all replicas are alike.
        if max(likes) >= len(by_rank[0]):
            for sent in self.world.all_gather(new if self.world.rank else {}):
                new |= sent
        if self.world.rank == 0:
            self._evidence.add(self._step, [new.get(replica) for replica in range(len(likes))], likes)
        self.world.all_gather(None)
        del own, new
        machine.watch_memory()

    def _check_replicas(self) -> None:
        """Compare all replicas of all processes bit by bit (by their SHA-256), as the last of several steps left them.

        Raises LaunchFailedError on every rank, naming the first parameter and rank that differ.
        """
        digests = [_digests(state) for state in self._replicas()]
        replicas = [digest for part in self.world.all_gather(digests) for digest in part]
        for name, digest in replicas[0].items():
            for rank, other in enumerate(replicas):
                if other[name] != digest:
                    raise LaunchFailedError(
                        f"After step {self._step - 1} the parameter {name} of rank {rank} differs from rank 0's: "
                        "something changed one replica alone, or the strategy doesn't keep them equal."
                    )


def _digests(state: State) -> dict[str, bytes]:
    return {name: hashlib.sha256(np.ascontiguousarray(value).data).digest() for name, value in state.items()}
