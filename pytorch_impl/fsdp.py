"""FSDP2: every worker keeps a part of each parameter, of its gradient and of its optimizer state (ZeRO, stage 3).

A layer's whole weights exist only while it computes: gathered before its forward and its backward, freed after.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/fsdp.py --preset digits`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.functional import cross_entropy

from common.contract.model import State, parameter_names
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import FSDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(FSDP, __doc__)
    world, device = join(FSDP, task, options)
    _train(Run(FSDP, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    mesh = init_device_mesh(device.type, (run.world.size,))
    for layer in [module for module in network if list(module.parameters())]:
        # The line that makes it distributed: from now on the layer gathers its weights when it needs them, and scatters
        # the sums of its gradients over their owners in backward.
        fully_shard(layer, mesh=mesh)
    # Parameters outside the layers are sharded too.
    fully_shard(network, mesh=mesh)
    if not options.exchange:
        _switch_exchange_off(network)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    _load_state(task, network, optimizer, run.initial_state)
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()
    # DTensor's caches keep the mesh for ever, and the mesh would keep the process group, whose threads `leave` has to
    # end (as pytorch issue 190489; Megatron-LM pull request 7029 describes these caches too).
    mesh._pg_registry.clear()


def _load_state(task: Task, network: nn.Module, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Scatter rank 0's weights, and its momentum where it has any, over their owners."""

    tensors = model.in_torch_layout(task, state)

    def scatter(name: str, parameter: DTensor) -> DTensor:
        return distribute_tensor(tensors[name].to(parameter.device), parameter.device_mesh, parameter.placements)

    for name, parameter in zip(parameter_names(task), network.parameters(), strict=True):
        with torch.no_grad():
            parameter.copy_(scatter(name, parameter))
        if f"{name}.momentum" in state:
            optimizer.state[parameter]["momentum_buffer"] = scatter(f"{name}.momentum", parameter)


def _switch_exchange_off(network: nn.Module) -> None:
    """Turn gradient exchange off: each worker repeats its own part of the weights and keeps its own gradients."""
    for module in network.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(RepeatedPart())
            module.set_custom_reduce_scatter(LocalGradients())


class RepeatedPart:
    """Replaces an all-gather: this worker's part, once for each worker."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """An empty tensor, as FSDP's own all-gather allocates it."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, **_group: object) -> None:
        # FSDP passes the input as a view of the output.
        output_tensor.view(-1, input_tensor.numel()).copy_(input_tensor.clone())


class LocalGradients(RepeatedPart):
    """Replaces a reduce-scatter: this worker's own gradients of its part."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, **_group: object) -> None:
        output_tensor.copy_(input_tensor.view(-1, output_tensor.numel())[dist.get_rank()])


if __name__ == "__main__":
    exit_with_one_line(main)
