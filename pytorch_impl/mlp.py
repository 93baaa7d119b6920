"""The MLP as a torch module, and the one place where the contract's layout meets torch's.

torch.nn.Linear keeps its weight as (outputs, inputs), the contract as (inputs, outputs).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from common.contract.mlp import State, learning_rate, parameter_names
from common.contract.task import Task
from common.errors import UserError
from common.measurement import machine


def build_model(task: Task, bf16_autocast: bool = False) -> nn.Sequential:
    """Linear layers of the contract's widths with its activation between them; the output is the logits.

    With `bf16_autocast` the layers' products are computed in bfloat16.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in zip(task.dimensions[:-1], task.dimensions[1:], strict=True):
        if layers:
            layers.append(nn.ReLU() if task.activation == "relu" else nn.Tanh())
        layers.append(nn.Linear(inputs, outputs, bias=task.bias))
    return (Bf16Sequential if bf16_autocast else nn.Sequential)(*layers)


class Bf16Sequential(nn.Sequential):
    """Layers whose products are computed in bfloat16 by torch.autocast; weights, logits and loss stay float32."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The logits, (rows, outputs) float32."""
        with torch.autocast(features.device.type, torch.bfloat16):
            return super().forward(features).float()


def build_optimizer(task: Task, model: nn.Module) -> torch.optim.SGD:
    """torch's own SGD with the contract's hyper-parameters."""
    return torch.optim.SGD(
        model.parameters(), lr=task.learning_rate, momentum=task.momentum, weight_decay=task.weight_decay
    )


def build_schedule(task: Task, optimizer: torch.optim.Optimizer, first_step: int) -> LambdaLR:
    """torch's own scheduler, following the contract's learning rates from `first_step` on."""

    def factor(step: int) -> float:
        return learning_rate(task, first_step + step) / (task.learning_rate or 1)

    return LambdaLR(optimizer, factor)


def load_state(
    task: Task,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    names: Sequence[str] | None = None,
) -> None:
    """Copy the contract's weights into the model, and its momentum, if any, into the optimizer.

    `names` are the names of the model's parameters, in order, for a model with only some of the contract's. An
    optimizer that updates only some parameters gets the momentum of those.
    """
    updated = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in zip(names or parameter_names(task), model.parameters(), strict=True):
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(state[name].T))
        if f"{name}.momentum" in state and parameter in updated:
            momentum = torch.from_numpy(np.ascontiguousarray(state[f"{name}.momentum"].T))
            optimizer.state[parameter]["momentum_buffer"] = momentum.to(parameter.device)


def export_state(
    task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str] | None = None
) -> State:
    """The weights and the momentum as NumPy arrays in the contract's layout; `names` as for `load_state`.

    Of sharded tensors every worker gathers the whole.
    """

    def as_array(tensor: torch.Tensor) -> np.ndarray:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        return whole.detach().cpu().numpy().T.copy()

    state: State = {}
    for name, parameter in zip(names or parameter_names(task), model.parameters(), strict=True):
        state[name] = as_array(parameter)
        momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
        if momentum is not None:
            state[f"{name}.momentum"] = as_array(momentum)
    return state


def choose_device(task: Task, local_rank: int, local_world_size: int) -> torch.device:
    """The device of a local worker: a GPU of its own where `--device` and the machine allow it, else the CPU.

    Sets the number of threads too. Raises UserError where `--device` asks for more GPUs than there are.
    """
    torch.set_num_threads(task.threads)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if task.device == "gpu" and gpus < local_world_size:
        raise UserError(
            f"--device gpu, but torch sees {gpus} GPUs for {local_world_size} workers: start fewer workers, "
            "install a CUDA build of torch, or leave --device out."
        )
    if task.device == "cpu" or gpus < local_world_size:
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def device_name(device: torch.device) -> str:
    """The device's name in the record: cpu, or the GPU's name."""
    return "cpu" if device.type == "cpu" else machine.gpu_names()[device.index]


def held_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes that this process holds of the parameters, their gradients and the optimizer's state."""
    parameters = list(model.parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    state = [value for values in optimizer.state.values() for value in values.values() if torch.is_tensor(value)]
    held = {"parameters": _bytes(parameters), "gradients": _bytes(gradients), "optimizer_state": _bytes(state)}
    if parameters and parameters[0].is_cuda:
        held["device_peak"] = torch.cuda.max_memory_allocated()
    return held


def _bytes(tensors: list[torch.Tensor]) -> int:
    # A sharded tensor counts with its local part.
    local = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


def synchronize(device: torch.device) -> None:
    """Wait until the device has ended all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
