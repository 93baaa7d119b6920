"""The contract's model as a torch module, and the one place where the contract's layout meets torch's.

torch.nn.Linear keeps its weight as (outputs, inputs), the contract as (inputs, outputs). torch.nn.Conv2d keeps its
weight as (outputs, inputs, height, width), and images with their channels first; the contract has both last.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import embedding, scaled_dot_product_attention
from torch.optim.lr_scheduler import LambdaLR

from common.contract.layers import (
    Activation,
    Attention,
    BatchNorm,
    Convolution,
    Dense,
    Embedding,
    Layer,
    LayerNorm,
    Pool,
    Reshape,
    Residual,
    Shape,
)
from common.contract.model import State, layer_of, learning_rate, named_layers, parameter_names
from common.contract.task import Task
from common.errors import UserError
from common.measurement import machine


def build_model(task: Task, precision: str = "float32") -> nn.Sequential:
    """A module for each of the contract's layers, in order; the output is the logits, as cross_entropy takes them.

    Its products are computed in that `precision`. Raises UserError for tf32 without a GPU.
    """
    if precision == "tf32":
        if not torch.cuda.is_available():
            raise UserError("--precision tf32 is a way in which GPUs multiply, and torch sees none: leave it out.")
        set_float32_products("tf32")
    modules = [build_layer(layer) for layer in named_layers(task).values()]
    if task.model == "gpt":
        modules.append(ClassesSecond())
    return (Bf16Sequential if precision == "bf16" else nn.Sequential)(*modules)


def as_executed(network: nn.Module, execution: str, features: torch.Tensor) -> nn.Module:
    """The network as `--execution` has it computed, for batches of the shape of `features`, (rows, inputs)."""
    if execution == "compiled":
        return torch.compile(network)
    # The graphs replay the forward and the backward pass as they were captured, in one call of the host each.
    return torch.cuda.make_graphed_callables(network, (features,)) if execution == "graphed" else network


def build_layer(layer: Layer) -> nn.Module:
    """The torch module of a layer. Raises UserError for a kind that is missing here."""
    match layer:
        case Dense(inputs, outputs, bias):
            return nn.Linear(inputs, outputs, bias=bias)
        case Convolution(inputs, outputs, size, padding, bias):
            return nn.Conv2d(inputs, outputs, size, padding=padding, bias=bias)
        case Pool(kind, size):
            return (nn.AvgPool2d if kind == "average" else nn.MaxPool2d)(size)
        case Reshape((_,)):
            return nn.Flatten()
        case Reshape((height, width, channels)):
            return nn.Unflatten(1, (channels, height, width))
        case Activation(kind):
            return {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": partial(nn.GELU, approximate="tanh")}[kind]()
        case Embedding(tokens, positions, width):
            return TokensAndPositions(tokens, positions, width)
        case BatchNorm(channels, synchronised):
            kind = SynchronisedBatchNorm if synchronised and dist.is_initialized() else nn.BatchNorm2d
            return kind(channels, eps=layer.epsilon, track_running_stats=False)
        case LayerNorm(width):
            return nn.LayerNorm(width, eps=layer.epsilon)
        case Attention(heads):
            return CausalAttention(heads)
        case Residual(layers):
            return ResidualBlock(*map(build_layer, layers))
    raise UserError(f"PyTorch has no {type(layer).__name__} layer here: add it to build_layer in {__file__}.")


class TokensAndPositions(nn.Module):
    """A learned vector for each token, and one for each position."""

    def __init__(self, tokens: int, positions: int, width: int) -> None:
        super().__init__()
        self.weight, self.position = (nn.Parameter(torch.empty(count, width)) for count in (tokens, positions))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Vectors (rows, positions, width) of tokens (rows, positions), whole numbers in floating point."""
        return embedding(features.long(), self.weight) + self.position


class CausalAttention(nn.Module):
    """torch's own attention, of queries, keys and values that come head after head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """(rows, positions, width) of (rows, positions, 3 * width)."""
        rows, positions, _ = values.shape
        query, key, value = values.view(rows, positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(query, key, value, is_causal=True)
        return attended.transpose(1, 2).reshape(rows, positions, -1)


class SynchronisedBatchNorm(nn.BatchNorm2d):
    """Batch normalisation by the statistics of all workers' rows. torch.nn.SyncBatchNorm does so on GPUs alone."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normal values (rows, channels, height, width)."""
        centred = images - self._mean_of_all(images)
        normal = centred * torch.rsqrt(self._mean_of_all(centred**2) + self.eps)
        return normal * self.weight[:, None, None] + self.bias[:, None, None]

    def _mean_of_all(self, values: torch.Tensor) -> torch.Tensor:
        # This all-reduce has a gradient: the sum of all workers'.
        return all_reduce(values.mean((0, 2, 3), keepdim=True)) / dist.get_world_size()


class ResidualBlock(nn.Sequential):
    """Layers whose outputs are added to their inputs."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """The inputs plus what the layers make of them."""
        return values + super().forward(values)


class ClassesSecond(nn.Module):
    """Logits (rows, tokens, positions) of (rows, positions, tokens), as torch's cross_entropy takes them."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        """The same logits with the last two axes exchanged."""
        return logits.transpose(1, 2)


class Bf16Sequential(nn.Sequential):
    """Layers whose products are computed in bfloat16 by torch.autocast; weights, logits and loss stay float32."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The logits, float32."""
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


def torch_shape(shape: Shape) -> Shape:
    """The shape that torch has for a row's values: an image's channels are first."""
    return (shape[-1], *shape[:-1]) if len(shape) == 3 else shape


def in_torch_layout(task: Task, state: State) -> dict[str, torch.Tensor]:
    """The contract's weights and momentum as torch keeps them."""
    return {name: torch.from_numpy(_transposed(task, name, value)) for name, value in state.items()}


def _transposed(task: Task, name: str, value: np.ndarray, to_contract: bool = False) -> np.ndarray:
    """A parameter, or its momentum, of the contract in torch's layout, or the other way round."""
    layer = layer_of(task, name)
    if isinstance(layer, Convolution) and value.ndim == 4:
        value = value.transpose((2, 3, 1, 0) if to_contract else (3, 2, 0, 1))
    elif isinstance(layer, Dense) and value.ndim == 2:
        value = value.T
        # torch flattens an image channel by channel, the contract pixel by pixel.
        if layer.image and to_contract:
            height, width, channels = layer.image
            value = value.reshape(channels, height, width, -1).transpose(1, 2, 0, 3).reshape(value.shape)
        elif layer.image:
            value = value.reshape(-1, *layer.image).transpose(0, 3, 1, 2).reshape(value.shape)
    return np.ascontiguousarray(value)


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
    tensors = in_torch_layout(task, state)
    for name, parameter in zip(names or parameter_names(task), model.parameters(), strict=True):
        with torch.no_grad():
            parameter.copy_(tensors[name])
        if f"{name}.momentum" in tensors and parameter in updated:
            optimizer.state[parameter]["momentum_buffer"] = tensors[f"{name}.momentum"].to(parameter.device)


def export_state(
    task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, names: Sequence[str] | None = None
) -> State:
    """The weights and the momentum as NumPy arrays in the contract's layout; `names` as for `load_state`.

    Of sharded tensors every worker gathers the whole.
    """

    def as_array(name: str, tensor: torch.Tensor) -> np.ndarray:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        return _transposed(task, name, whole.detach().cpu().numpy(), to_contract=True).copy()

    state: State = {}
    for name, parameter in zip(names or parameter_names(task), model.parameters(), strict=True):
        state[name] = as_array(name, parameter)
        momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
        if momentum is not None:
            state[f"{name}.momentum"] = as_array(name, momentum)
    return state


def choose_device(task: Task, local_rank: int, local_world_size: int, shared: bool = False) -> torch.device:
    """The device of a local worker: a GPU of its own where `--device` and the machine allow it, else the CPU.

    With `shared`, `--device gpu` has several workers share a GPU where there are fewer. Sets the number of threads too,
    and that a GPU multiplies in whole float32. Raises UserError where `--device` asks for more GPUs than there are.
    """
    torch.set_num_threads(task.threads)
    # By default cuDNN rounds the factors of a convolution to TF32.
    set_float32_products("ieee")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if task.device == "gpu" and shared and gpus:
        torch.cuda.set_device(local_rank % gpus)
        return torch.device("cuda", local_rank % gpus)
    if task.device == "gpu" and gpus < local_world_size:
        raise UserError(
            f"--device gpu, but torch sees {gpus} GPUs for {local_world_size} workers: start fewer workers, "
            "install a CUDA build of torch, or leave --device out."
        )
    if task.device == "cpu" or gpus < local_world_size:
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def set_float32_products(precision: str) -> None:
    """Have GPUs round the factors of float32 products and convolutions to TF32 ("tf32"), or not at all ("ieee")."""
    torch.backends.cuda.matmul.fp32_precision = torch.backends.cudnn.conv.fp32_precision = precision


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
