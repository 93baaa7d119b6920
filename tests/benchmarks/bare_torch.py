"""The bare loops that torch's strategies and horovod_torch are measured against: a tutorial's, with no harness."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

from common.contract.task import Task
from common.measurement.run import Run
from tests.benchmarks import paired


def build(task: Task) -> nn.Sequential:
    """The same network, as anybody would write it."""
    if task.model == "fashion_cnn":
        first = (nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        second = (nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        return nn.Sequential(
            *(*first, *second, nn.Linear(2304, 600), nn.ReLU(), nn.Linear(600, 120), nn.ReLU(), nn.Linear(120, 10))
        )
    if task.model == "lenet":
        first = (nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2))
        second = (nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten())
        return nn.Sequential(
            *(*first, *second, nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))
        )
    if task.model == "gpt":
        return Gpt(*task.dimensions[:2], task.dimensions[-1], blocks=len(task.dimensions) - 2)
    layers = []
    for inputs, outputs in zip(task.dimensions[:-1], task.dimensions[1:], strict=True):
        layers += [
            nn.Linear(inputs, outputs, bias=task.bias),
            nn.ReLU() if task.activation == "relu" else nn.Tanh(),
        ]
    return nn.Sequential(*layers[:-1])


class Gpt(nn.Module):
    """A small decoder, as anybody would write it."""

    def __init__(self, positions: int, width: int, tokens: int, blocks: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Parameter(torch.zeros(positions, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, tokens))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(features.long()) + self.positions)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        parts = self.attention(self.first(values)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(*parts, is_causal=True)
        values = values + self.project(attended.transpose(1, 2).flatten(2))
        return values + self.dense(self.second(values))


def make_window(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> paired.BareWindow:
    """A function that trains one step on each of the given arrays of rows, by torch's SGD if no optimizer is given."""
    task, device = run.task, next(model.parameters()).device
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=task.learning_rate, momentum=task.momentum)
    features, labels = run.dataset.train_features, run.dataset.train_labels
    if device.type == "cuda":
        on_gpu = torch.tensor(features, device=device), torch.tensor(labels, device=device)
    schedule = None
    if task.final_learning_rate is not None:
        factor = task.final_learning_rate / task.learning_rate
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, factor, task.decay_steps)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for rows in rows_of_steps:
            optimizer.zero_grad()
            if device.type == "cuda":
                rows = torch.from_numpy(rows).to(device, non_blocking=True)
                batch = on_gpu[0][rows], on_gpu[1][rows]
            else:
                batch = torch.from_numpy(features[rows]), torch.from_numpy(labels[rows])
            loss = cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            if schedule:
                schedule.step()
        run.world.synchronize()

    return window


def alone(run: Run) -> paired.BareWindow:
    """No distribution, on the GPU where there is one."""
    return make_window(run, build(run.task).to("cpu" if run.world.device == "cpu" else "cuda"))


def ddp(run: Run) -> paired.BareWindow:
    """DistributedDataParallel as it comes."""
    return make_window(
        run, DistributedDataParallel(build(run.task).to("cuda" if run.world.backend == "nccl" else "cpu"))
    )


def horovod(run: Run) -> paired.BareWindow:
    """Horovod's own distributed optimizer, whose tensors have names of their own."""
    import horovod.torch as hvd

    model = build(run.task)
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate)
    names = [(f"bare.{name}", parameter) for name, parameter in model.named_parameters()]
    return make_window(run, model, hvd.DistributedOptimizer(optimizer, named_parameters=names))


if __name__ == "__main__":
    paired.main(torch_single=alone, torch_ddp=ddp, horovod_torch=horovod)
