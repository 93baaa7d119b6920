"""The bare torch loop that torch_ddp and horovod_torch are measured against: a tutorial's, with no harness."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from common.contract.task import Task
from common.measurement.run import Run


def build(task: Task) -> nn.Sequential:
    """The same network, as anybody would write it."""
    if task.model == "fashion_cnn":
        first = (nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        second = (nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        return nn.Sequential(
            *(*first, *second, nn.Linear(2304, 600), nn.ReLU(), nn.Linear(600, 120), nn.ReLU(), nn.Linear(120, 10))
        )
    layers = []
    for inputs, outputs in zip(task.dimensions[:-1], task.dimensions[1:], strict=True):
        layers += [
            nn.Linear(inputs, outputs, bias=task.bias),
            nn.ReLU() if task.activation == "relu" else nn.Tanh(),
        ]
    return nn.Sequential(*layers[:-1])


def make_window(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer):
    """A function that trains one step on each of the given arrays of rows."""
    task, device = run.task, next(model.parameters()).device
    features, labels = run.dataset.train_features, run.dataset.train_labels
    schedule = None
    if task.final_learning_rate is not None:
        factor = task.final_learning_rate / task.learning_rate
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, factor, task.decay_steps)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for rows in rows_of_steps:
            optimizer.zero_grad()
            batch = torch.from_numpy(features[rows]).to(device), torch.from_numpy(labels[rows]).to(device)
            loss = cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            if schedule:
                schedule.step()
        run.world.synchronize()

    return window
