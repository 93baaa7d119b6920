"""A PyTorch worker's rows of a step: taken from memory, the GPU's or the host's, or prepared by a DataLoader."""

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from common.contract.rows import Batch
from common.measurement.run import Run

Load = Callable[[Batch], tuple[torch.Tensor, torch.Tensor]]
"""Called once per step, in order: the worker's features (rows, inputs) float32, labels (rows,) int64, on its device."""


def loader(run: Run, device: torch.device) -> Load:
    """The function that loads the worker's rows of a step, by the run's `--loader-workers`.

    The function adds the worker's waiting time to `run.clock.input_seconds`. Copies to a GPU go on meanwhile.
    """
    run.clock.input_seconds = 0.0
    if run.options.loader_workers:
        rows_of = _from_loader(run, device)
    else:
        rows_of = _from_gpu(run, device) if device.type == "cuda" else _from_memory

    def load(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        started = time.perf_counter()
        features, labels = rows_of(batch)
        features, labels = features.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        run.clock.input_seconds += time.perf_counter() - started
        return features, labels

    return load


def _from_memory(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch's rows as tensors, which share NumPy's memory."""
    return torch.from_numpy(batch.features), torch.from_numpy(batch.labels)


def _from_gpu(run: Run, device: torch.device) -> Load:
    """All rows, and the worker's order of them, are kept on the GPU: copying a step's rows would have the host wait."""
    features = torch.tensor(run.dataset.train_features, device=device)
    labels = torch.tensor(run.dataset.train_labels, device=device)
    order = torch.tensor(np.stack([*run.rows(run.first_step, run.task.steps)]), device=device)

    def rows_of(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        rows = order[batch.step - run.first_step]
        return features[rows], labels[rows]

    return rows_of


def _from_loader(run: Run, device: torch.device) -> Load:
    """A DataLoader whose processes gather the contract's rows, in its order, while the worker computes."""
    order = list(run.rows(run.first_step, run.task.steps))
    data_loader = DataLoader(
        TrainRows(run.dataset.train_features, run.dataset.train_labels),
        sampler=order,
        batch_size=None,
        num_workers=run.options.loader_workers,
        pin_memory=device.type == "cuda",
        # The loader's processes would inherit the core that this process is pinned to, and take turns with it. The
        # launcher's cores are those that the user chose.
        worker_init_fn=partial(_move_to, os.sched_getaffinity(os.getppid())),
    )
    batches = iter(data_loader)
    return lambda _batch: next(batches)


class TrainRows(Dataset):
    """The training rows as torch's DataLoader wants them: an item is a batch, its index an array of row numbers."""

    def __init__(self, features: np.ndarray, labels: np.ndarray) -> None:
        self._features, self._labels = features, labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self._features[rows]), torch.from_numpy(self._labels[rows])


def _move_to(cores: set[int], _number: int) -> None:
    os.sched_setaffinity(0, cores)
