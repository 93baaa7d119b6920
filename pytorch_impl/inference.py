"""Forward passes alone: samples per second by batch size, of one replica and of data parallel over several replicas.

To start it: `python -m pytorch_impl.inference --preset pathway --workers 2`. On CPUs torch.nn.DataParallel runs the
bare module, so its scheme is written out here. The batch is scattered over replicas in threads of this process, and
their logits are gathered on the primary. Inference doesn't change the weights, so these replicas are made once. On GPUs
nn.DataParallel itself is measured, which makes replicas anew at every forward pass.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

from common.errors import UserError, exit_with_one_line, print_note, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import nn

from common.contract import dataset
from common.contract.model import initial_weights
from common.contract.task import PRESETS
from common.measurement import machine
from common.statistics.intervals import FEWEST_LAUNCHES, Interval, median_interval
from pytorch_impl import model

WINDOW_SECONDS = 0.02
"""A clocked window lasts about this long or longer."""

Forward = Callable[[torch.Tensor], torch.Tensor]
"""Logits (rows, classes) of features (rows, inputs), both on the primary replica's device."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure the forward pass of one replica and of data parallel, batch size by batch size."""

    preset: Literal["digits", "pathway", "wide", "mnist_lenet", "mnist_cnn", "text_gpt"] = "pathway"
    """Whose model and rows to use."""
    workers: int = 2
    """Replicas that data parallel has."""
    threads: int = 1
    """Threads that each replica computes with."""
    batches: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    """Rows of the whole batch, one size after the other."""
    repetitions: int = 15
    """Windows of either side at each batch size."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to compute; auto: on GPUs where each replica can have one of its own, else on the CPU."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        if min(self.batches, default=0) < 1:
            batches = " ".join(map(str, self.batches))
            raise UserError(f"--batches {batches}: give one size or more, all of them whole numbers above 0.")
        if self.repetitions < FEWEST_LAUNCHES:
            raise UserError(
                f"--repetitions {self.repetitions}: give at least {FEWEST_LAUNCHES}, an interval needs as many."
            )


def main() -> None:
    """Measure every batch size and print the table, and the batch size from which data parallel pays off."""
    arguments = tyro.cli(Arguments, description=__doc__)
    workers, threads = arguments.workers, arguments.threads
    options = {"workers": workers, "threads": threads, "device": arguments.device}
    task = dataclasses.replace(PRESETS[arguments.preset], **options)
    pinning = machine.pin(task, replicas=workers)
    device = model.choose_device(task, local_rank=0, local_world_size=workers)
    if device.type == "cpu" and len(pinning.pinned_cores) < workers * threads:
        print_note(f"{workers} replicas of --threads {threads} don't have a core for each thread.")
    train_features = dataset.load(task).train_features
    network = model.build_model(task).to(device)
    model.load_state(task, network, model.build_optimizer(task, network), initial_weights(task))

    title = f"{arguments.preset} on {model.device_name(device)}: {workers} replicas, threads of each: {threads}"
    rates, interval = ("one replica, samples/s", "data parallel, samples/s"), "95 % interval"
    table = Table("batch", "n", rates[0], interval, rates[1], interval, "ratio", interval, title=title)
    lower_ends: dict[int, float] = {}
    threads_of_replicas = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads,))
    with threads_of_replicas as pool, torch.inference_mode():
        parallel = data_parallel(network, device, workers, pool)
        for batch in sorted(set(arguments.batches)):
            features = torch.from_numpy(train_features.take(range(batch), axis=0, mode="wrap")).to(device)
            pairs = measure(network, parallel, features, arguments.repetitions)
            one_replica, all_replicas = (median_interval(side) for side in zip(*pairs, strict=True))
            ratio = median_interval([parallel_rate / rate for rate, parallel_rate in pairs])
            lower_ends[batch] = ratio.low
            cells = [*_cells(one_replica, ",.0f"), *_cells(all_replicas, ",.0f"), *_cells(ratio, ".3f")]
            table.add_row(str(batch), str(ratio.n), *cells)
    console = Console(width=140)
    console.print(table)
    console.print(verdict(workers, lower_ends))


def data_parallel(network: nn.Module, device: torch.device, workers: int, pool: ThreadPoolExecutor) -> Forward:
    """The forward pass of `workers` replicas of `model`, the first replica, on the CPU or on GPUs from 0 on.

    A batch is cut as torch.nn.DataParallel does, into parts of ceil(rows / workers) and a smaller last one. A batch
    with fewer rows than replicas leaves some replicas idle.
    """
    if device.type == "cuda":
        return nn.DataParallel(network, device_ids=list(range(workers)))
    replicas = [network, *(deepcopy(network) for _ in range(workers - 1))]

    def compute(replica: nn.Module, part: torch.Tensor) -> torch.Tensor:
        # A thread doesn't inherit its caller's inference mode.
        with torch.inference_mode():
            return replica(part)

    def forward(features: torch.Tensor) -> torch.Tensor:
        return torch.cat(list(pool.map(compute, replicas, features.chunk(workers))))

    return forward


def measure(one: Forward, parallel: Forward, features: torch.Tensor, repetitions: int) -> list[tuple[float, float]]:
    """Samples per second of one replica and of data parallel, in alternating windows, `repetitions` of each.

    Raises RuntimeError when the two compute logits that differ by more than float32's rounding.
    """
    try:
        # A product of fewer rows may sum in another order: the largest measured difference was 2.4e-6.
        torch.testing.assert_close(parallel(features), one(features), rtol=1e-5, atol=1e-5)
    except AssertionError as error:
        raise RuntimeError(f"Data parallel's logits of {len(features)} rows aren't one replica's: {error}") from error
    sides = [(forward, _passes_of_a_window(forward, features)) for forward in (one, parallel)]

    def samples_per_second(forward: Forward, passes: int) -> float:
        return passes * len(features) / _seconds(forward, features, passes)

    return [tuple(samples_per_second(*side) for side in sides) for _ in range(repetitions)]


def _seconds(forward: Forward, features: torch.Tensor, passes: int) -> float:
    model.synchronize(features.device)
    started = time.perf_counter()
    for _ in range(passes):
        forward(features)
    model.synchronize(features.device)
    return time.perf_counter() - started


def _passes_of_a_window(forward: Forward, features: torch.Tensor) -> int:
    """The number of forward passes that last WINDOW_SECONDS. Counting them is the warm-up."""
    passes = 1
    # The minimum of three times, so that one interruption doesn't shorten all windows.
    while (seconds := min(_seconds(forward, features, passes) for _ in range(3))) < WINDOW_SECONDS / 2:
        passes *= 2
    return math.ceil(passes * WINDOW_SECONDS / seconds)


def verdict(workers: int, lower_ends: Mapping[int, float]) -> str:
    """A sentence that names the batch size from which on data parallel pays off.

    It pays off where the lower end of the ratio's interval is above 1; `lower_ends` has these ends by batch size.
    """
    subject = f"Data parallel over {workers} replicas"
    paying = {batch for batch, low in lower_ends.items() if low > 1}
    last_not_paying = max(lower_ends.keys() - paying, default=0)
    if lasting := [batch for batch in paying if batch > last_not_paying]:
        return f"{subject} pays off from a batch of {min(lasting)}."
    if paying:
        return (
            f"{subject} pays off at a batch of {', '.join(map(str, sorted(paying)))}, but not at the largest measured."
        )
    return f"{subject} didn't pay off at any measured batch size."


def _cells(interval: Interval, number: str) -> list[str]:
    return [format(interval.median, number), f"{interval.low:{number}} to {interval.high:{number}}"]


if __name__ == "__main__":
    exit_with_one_line(main)
