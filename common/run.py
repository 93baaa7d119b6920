"""Run: the measured loop that every strategy iterates. It owns the clock, the warm-up, the windows and the record.

Windows of steps are clocked, not single steps: waiting for a device after each step would destroy the overlap of
computation and communication that is being measured.
"""

import dataclasses
import hashlib
import itertools
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from common import dataset, machine, metrics, mlp
from common.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.config import Config, check_layout, check_options, global_batch, local_batch
from common.dataset import Batch, RowOrder, shard_bounds
from common.errors import LaunchFailedError
from common.files import ensure_writable
from common.mlp import State
from common.record import Record, write_record


class Run:
    """One worker's part in one launch.

    A process is one worker; one that holds several replicas gets, by `replicas`, the rows of all of them, theirs in
    order. With `one_model` the workers hold parts of one model, no replicas: they all see the whole batch, and rank 0
    counts its rows for all. `all_gather` hands every rank's object to every rank, by the framework's own means;
    `synchronize` waits until the device has done all it was given. Raises UserError for a batch that doesn't divide,
    data that don't fit, a checkpoint or a results folder that can't be used.
    """

    def __init__(
        self,
        config: Config,
        *,
        strategy: str,
        framework: str,
        placement: machine.Placement,
        rank: int = 0,
        world_size: int = 1,
        replicas: int = 1,
        one_model: bool = False,
        backend: str = "none",
        device: str = "cpu",
        synchronous: bool = True,
        all_gather: Callable[[object], list] = lambda value: [value],
        synchronize: Callable[[], object] = lambda: None,
    ) -> None:
        self._memory_at_start = machine.watch_memory()
        check_options(config, strategy)
        check_layout(config, strategy, world_size)
        self.config = config
        self._identity = {"strategy": strategy, "framework": framework, "world_size": world_size}
        self._identity |= {"backend": backend, "device": device, "synchronous": synchronous}
        self._rank, self.world_size, self._replicas = rank, world_size, replicas
        self._all_gather, self._synchronize, self._placement = all_gather, synchronize, placement
        # Without synchrony a step is one worker's update, and its batch is all that the update sees.
        self.global_batch = self._own_rows = config.batch
        if synchronous:
            self.global_batch = self._own_rows = global_batch(config, world_size, one_model)
            if not one_model:
                self._own_rows = local_batch(config, world_size) * replicas
        self.dataset = dataset.load(config)
        self.record_path = config.record or _new_record_path(config, strategy, world_size)
        if rank == 0:
            ensure_writable(self.record_path)
            ensure_writable(config.checkpoint or self.record_path)
        self.first_step, self.initial_state = self._start()
        self._step = self.first_step
        self._pending: list[object] = []
        self._losses: list[float] = []
        self._windows: list[dict[str, float]] = []
        self._accuracies: list[dict[str, float]] = []
        self._examples = 0
        self._counts_rows = rank == 0 or not one_model
        self._time_to_first_step = 0.0
        self._training_seconds = 0.0
        self._printed_at = 0.0
        self._window_step = self._window_end = self.first_step
        self._window_start: float | None = None
        self.checkpoint_due = False
        """Whether `checkpoint` is to be called after the step that was just observed; then no clock runs."""
        self.input_seconds: float | None = None
        """How long the worker has waited for its rows in this window: strategies that measure it add to it."""
        self._bytes_at_start = self._sent_bytes = 0

    def steps(self, whole_batch: bool = False) -> Iterator[Batch]:
        """This worker's batch of every step: its shard, or for model-parallel strategies the whole batch."""
        for batches in self._windows_of_batches(whole_batch):
            yield from batches

    def calls(self) -> Iterator[list[Batch]]:
        """This worker's batches for programs that compute several steps in one call, `config.steps_per_call` at a time.

        There are fewer where a window ends. All batches gather their features and labels into one buffer, so such a
        program uses their `rows`.
        """
        size = self.config.steps_per_call
        for batches in self._windows_of_batches():
            for start in range(0, len(batches), size):
                yield batches[start : start + size]

    def rows(self, start: int, stop: int | None = None, whole_batch: bool = False) -> Iterator[np.ndarray]:
        """Numbers of this worker's rows, or of the whole batch's, in every step from `start` to before `stop`.

        One array (rows,) int64 for each step; without `stop` there is no last one.
        """
        order = RowOrder(len(self.dataset.train_labels), self.config.seed)
        rank, count = (0, self.global_batch) if whole_batch else (self._rank, self._own_rows)
        for step in itertools.count(start) if stop is None else range(start, stop):
            yield order.cut(*shard_bounds(step, self.global_batch, rank, count))

    def _windows_of_batches(self, whole_batch: bool = False) -> Iterator[list[Batch]]:
        """Each window's batches. Its clock starts when they are handed out, and every one must have been observed."""
        rows = self.rows(self.first_step, whole_batch=whole_batch)
        count = self.global_batch if whole_batch else self._own_rows
        # One buffer for all steps: a new one each time would be memory that no cache holds.
        buffer = (np.empty((count, self.config.dimensions[0]), np.float32), np.empty(count, np.int64))
        while self._step < self.config.steps:
            start, self._window_end = self._step, self._end_of_window(self._step)
            batches = [Batch(step, next(rows), self.dataset, buffer) for step in range(start, self._window_end)]
            self._examples += count * len(batches) * self._counts_rows
            self._open_window()
            yield batches
            if self._step != self._window_end:
                raise RuntimeError(f"{self._identity['strategy']} must call observe() once after every step.")

    def observe(self, losses: object, steps: int = 1) -> None:
        """Note the losses of the last `steps` steps, and close the window where the last of them ends one.

        A step's loss is the mean over this process's rows. `losses` may be a lazy scalar of the framework, or a lazy
        vector with one for each step: it is read after the window's clock has stopped. A worker that never sees one, as
        a pipeline's first stage, says None.
        """
        if losses is not None:
            self._pending.append(losses)
        self._step += steps
        if self._step == self._window_end:
            self._close_window()

    def checkpoint(self, state: State) -> None:
        """After a step that left `checkpoint_due` true: save the state and measure its test accuracy, on rank 0.

        The other ranks wait, so no window has that time.
        """
        if self._rank == 0:
            self._save(state)
        self._all_gather(None)

    def _save(self, state: State) -> None:
        accuracy = self._accuracy(state)
        self._accuracies.append(
            {"step": self._step, "accuracy": accuracy, "training_seconds": round(self._training_seconds, 6)}
        )
        if self.config.checkpoint:
            write_checkpoint(self.config.checkpoint, Checkpoint(state, self._step, self.global_batch), self.config)

    def check_replicas(self, *states: State, steps: int = 1) -> None:
        """Compare the states of this process's replicas, and of all others', bit by bit (by their SHA-256).

        Every rank calls it, after a step, or after so many `steps` of one call, and before `observe`. Raises
        LaunchFailedError on every rank, naming the first parameter that differs, the step and the first rank that has
        other bits than rank 0.
        """
        digests = [{name: hashlib.sha256(value).digest() for name, value in state.items()} for state in states]
        replicas = [digest for part in self._all_gather(digests) for digest in part]
        for name, digest in replicas[0].items():
            for rank, other in enumerate(replicas):
                if other[name] != digest:
                    raise LaunchFailedError(
                        f"After step {self._step + steps - 1} the parameter {name} of rank {rank} differs from rank "
                        "0's: something changed one replica alone, or the strategy doesn't keep them equal."
                    )

    def finish(self, state: State, held_bytes: Mapping[str, int] | None = None, **facts: object) -> None:
        """Gather every rank's times, then let rank 0 save the final state, write the record and print the result.

        Every rank must call it, before the framework's own teardown; only rank 0's `state` is read. `held_bytes` are
        those of this process's parameters, gradients and optimizer state, by these names; `facts` are more fields of
        the record.
        """
        gathered = self._all_gather(
            {
                "windows": self._windows,
                "losses": self._losses,
                "examples": self._examples,
                "time_to_first_step": self._time_to_first_step,
                # Linux counts ru_maxrss in KiB (getrusage(2)).
                "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "memory": dict(held_bytes or {}) | {"above_import": machine.memory_above(self._memory_at_start)},
            }
        )
        if self._rank == 0:
            self._save(state)
            record = dataclasses.replace(self._record(gathered), **facts)
            write_record(self.record_path, record)
            _print_result(record, self.record_path)

    def _start(self) -> tuple[int, State]:
        """The step and state that every rank begins with: rank 0's checkpoint where there is one."""
        path = self.config.checkpoint
        resumed = None
        if self._rank == 0 and path and path.exists():
            resumed = read_checkpoint(path, self.config, self.global_batch)
        if path:
            resumed = self._all_gather(resumed)[0]
        if resumed is None:
            return 0, mlp.initial_weights(self.config)
        return resumed.step, resumed.state

    def _open_window(self) -> None:
        if machine.has_private_network():
            self._bytes_at_start = machine.loopback_bytes_sent()
        self._window_step = self._step
        self.checkpoint_due = False
        self.input_seconds = None if self.input_seconds is None else 0.0
        self._window_start = time.perf_counter()

    def _end_of_window(self, step: int) -> int:
        """The first step after the window that `step` begins.

        Windows end after the first step, after the warm-up, when they are full, at a checkpoint and with the run.
        """
        first, config = self.first_step, self.config
        warm = first + config.warmup_steps
        full = step + config.window_steps - max(step - warm, 0) % config.window_steps
        ends = [first + 1, warm, full if step >= warm else warm, config.steps]
        if config.checkpoint_steps:
            ends.append((step // config.checkpoint_steps + 1) * config.checkpoint_steps)
        return min(end for end in ends if end > step)

    def _close_window(self) -> None:
        self._synchronize()
        seconds = time.perf_counter() - self._window_start
        self._window_start = None
        self._training_seconds += seconds
        if self._step == self.first_step + 1:
            self._time_to_first_step = time.time() - psutil.Process().create_time()
        if self._window_step >= self.first_step + self.config.warmup_steps:
            window = {"rank": self._rank, "step": self._window_step, "steps": self._step - self._window_step}
            window["seconds"] = seconds
            if self.input_seconds is not None:
                window["input_seconds"] = self.input_seconds
            self._windows.append(window)
            if machine.has_private_network():
                self._sent_bytes += machine.loopback_bytes_sent() - self._bytes_at_start
        for losses in self._pending:
            self._losses += map(float, losses if np.ndim(losses) else [losses])
        self._pending.clear()
        every = self.config.checkpoint_steps
        self.checkpoint_due = bool(every) and self._step % every == 0 and self._step < self.config.steps
        if self._rank == 0:
            self._print_progress(seconds)

    def _print_progress(self, seconds: float) -> None:
        now = time.perf_counter()
        if now - self._printed_at < 1 and self._step < self.config.steps:
            return
        self._printed_at = now
        rate = (self._step - self._window_step) * self.global_batch / seconds
        steps = f"step {self._step:>5}/{self.config.steps}"
        loss = f"loss {self._losses[-1]:.5f}   " if self._losses else ""
        print(f"{steps}   {loss}{rate:>9,.0f} samples/s", flush=True)

    def _accuracy(self, state: State) -> float:
        with threadpool_limits(self.config.threads):
            return mlp.accuracy(self.config, state, self.dataset.test_features, self.dataset.test_labels)

    def _checkpoint_name(self) -> str | None:
        path = self.config.checkpoint
        if path and path.resolve().parent == self.record_path.resolve().parent:
            return path.name
        return str(path.resolve()) if path else None

    def _record(self, gathered: list[dict]) -> Record:
        config = self.config
        measured_steps = config.steps - self.first_step - config.warmup_steps
        losses = np.mean([part["losses"] for part in gathered if part["losses"]], axis=0).tolist()
        return Record(
            **self._identity,
            scaling=config.scaling,
            status="ok",
            config=dataclasses.asdict(config),
            threads_per_worker=config.threads,
            oversubscribed=self._placement.oversubscribed,
            pinned_cores=self._placement.pinned_cores,
            private_network=machine.has_private_network(),
            versions=machine.versions(),
            host=machine.host_facts(),
            git_commit=machine.git_commit(),
            started_at=datetime.fromtimestamp(psutil.Process().create_time(), UTC).isoformat(timespec="milliseconds"),
            data_sha256=self.dataset.sha256,
            first_step=self.first_step,
            time_to_first_step_s=max(part["time_to_first_step"] for part in gathered),
            windows=[window for part in gathered for window in part["windows"]],
            examples_per_step=self.global_batch,
            examples_by_rank=[part["examples"] for part in gathered],
            losses=losses,
            wire_bytes_per_step=self._sent_bytes / measured_steps if machine.has_private_network() else None,
            peak_memory_bytes=[part["peak_memory_bytes"] for part in gathered],
            memory_bytes=[part["memory"] for part in gathered],
            accuracies=self._accuracies,
            final_accuracy=self._accuracies[-1]["accuracy"],
            checkpoint=self._checkpoint_name(),
        )


def _new_record_path(config: Config, strategy: str, world_size: int) -> Path:
    """`results/<strategy>-<preset>-<scaling>-<workers>w-<time>.json` under the repository's root."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    name = f"{strategy}-{config.preset}-{config.scaling}-{world_size}w-{now}.json"
    return Path(__file__).parent.parent / "results" / name


def _print_result(record: Record, path: Path) -> None:
    launch = metrics.throughput(record)
    rows = {
        "workers": f"{record.world_size}" + (" (more threads than cores)" if record.oversubscribed else ""),
        "global batch": f"{record.examples_per_step} ({record.scaling} scaling)",
        "throughput": f"{launch.samples_per_second:,.0f} samples/s",
        "time per step": f"{1000 * launch.seconds_per_step:.3f} ms over {launch.windows} windows",
        "time to first step": f"{record.time_to_first_step_s:.1f} s",
        "last loss": f"{record.losses[-1]:.5f}",
        "test accuracy": f"{100 * record.final_accuracy:.1f} %",
        "record": str(path),
    }
    table = Table(title=f"{record.strategy} on {record.config['preset']}", show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    Console(width=None if sys.stdout.isatty() else 100).print(table)
