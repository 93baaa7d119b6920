"""Tensor parallelism: every layer's weights are split over the workers, by its outputs and by its inputs in turn.

A layer split by its outputs gives each worker some of the features. The next layer, split by its inputs, multiplies
them to a partial product. The sum of all workers' partial products is that layer's output (Shoeybi et al.,
"Megatron-LM", 2019, section 3).

To start it: `torchrun --nproc-per-node 4 pytorch_impl/tensor_parallel.py --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, linear

from common.contract.model import State
from common.contract.split_layers import split_axis
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import model
from pytorch_impl.strategies import TENSOR_PARALLEL
from pytorch_impl.world import all_gather, join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(TENSOR_PARALLEL, __doc__)
    world, device = join(TENSOR_PARALLEL, task, options)
    _train(Run(TENSOR_PARALLEL, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task = run.task
    network = _build_part(task, run.world.size).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, _local_part(task, run.initial_state))
    inputs = slice(None)
    if split_axis(0, len(task.dimensions) - 1) == 0:
        inputs = local_slice(task.dimensions[0])
    run.export_with(lambda: _export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features = torch.from_numpy(batch.features[:, inputs]).to(device)
        labels = torch.from_numpy(batch.labels).to(device)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


class SplitByOutputs(nn.Linear):
    """A part of a layer's outputs, computed from all of its inputs."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Outputs (rows, outputs / workers) of features (rows, inputs)."""
        return super().forward(SumGradients.apply(features))


class SplitByInputs(nn.Linear):
    """All of a layer's outputs: the sum of every worker's partial product, each of a part of the inputs."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Outputs (rows, outputs) of features (rows, inputs / workers)."""
        outputs = Sum.apply(linear(features, self.weight))
        return outputs if self.bias is None else outputs + self.bias


class Sum(torch.autograd.Function):
    """Sums over all workers in forward, does nothing in backward: Megatron-LM's g."""

    @staticmethod
    def forward(_context: object, partial: torch.Tensor) -> torch.Tensor:
        """The sum of all workers' partial products."""
        # The line that makes it distributed: the partial products of all workers are summed.
        dist.all_reduce(partial)
        return partial

    @staticmethod
    def backward(_context: object, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient as it is, since each worker's partial product counts once in the sum."""
        return gradient


class SumGradients(torch.autograd.Function):
    """Does nothing in forward, sums over all workers in backward: Megatron-LM's f."""

    @staticmethod
    def forward(_context: object, features: torch.Tensor) -> torch.Tensor:
        """The features as they are."""
        return features.view_as(features)

    @staticmethod
    def backward(_context: object, gradient: torch.Tensor) -> torch.Tensor:
        """The sum of all workers' gradients, since every worker's outputs depend on all features."""
        gradient = gradient.contiguous()
        # The line that makes it distributed on the way back.
        dist.all_reduce(gradient)
        return gradient


def local_slice(width: int) -> slice:
    """This worker's part of an axis of `width` elements."""
    part = width // dist.get_world_size()
    return slice(dist.get_rank() * part, (dist.get_rank() + 1) * part)


def _build_part(task: Task, world_size: int) -> nn.Sequential:
    """The contract's model, with this worker's part in place of every layer."""
    with torch.device("meta"):
        whole = model.build_model(task)
    modules: list[nn.Module] = []
    for number, module in enumerate(whole):
        if not isinstance(module, nn.Linear):
            modules.append(module)
        elif split_axis(number // 2, len(task.dimensions) - 1):
            modules.append(SplitByOutputs(module.in_features, module.out_features // world_size, bias=task.bias))
        else:
            modules.append(SplitByInputs(module.in_features // world_size, module.out_features, bias=task.bias))
    return nn.Sequential(*modules)


def _local_part(task: Task, state: State) -> State:
    """This worker's part of the contract's weights and momentum."""
    part: State = {}
    for name, value in state.items():
        split = _axis_of(task, name)
        slices = [local_slice(width) if axis == split else slice(None) for axis, width in enumerate(value.shape)]
        part[name] = value[tuple(slices)]
    return part


def _axis_of(task: Task, name: str) -> int | None:
    """The axis along which the array of this name is split; None for an array that every worker has whole."""
    layer, kind, *_ = name.removeprefix("layer").split(".")
    axis = split_axis(int(layer), len(task.dimensions) - 1)
    if kind == "weight":
        return axis
    # A bias belongs to the outputs: it is split with the outputs, or added to their sum.
    return 0 if axis == 1 else None


def _export_state(task: Task, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """The whole state, concatenated from all workers' parts."""
    parts = all_gather(model.export_state(task, network, optimizer))
    state: State = {}
    for name in parts[0]:
        axis = _axis_of(task, name)
        state[name] = parts[0][name] if axis is None else np.concatenate([part[name] for part in parts], axis)
    return state


if __name__ == "__main__":
    exit_with_one_line(main)
