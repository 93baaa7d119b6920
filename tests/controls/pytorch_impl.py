"""What breaks the exchange of PyTorch's strategies."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.nn.functional import linear
from torch.nn.parallel import DistributedDataParallel

from common.contract.task import PRESETS
from pytorch_impl.strategies import PipelineOptions
from tests.controls.generic import apart_with

MICRO_BATCHES = PipelineOptions().micro_batches


@contextmanager
def changed_gradients(change: Callable[[torch.nn.Parameter], torch.Tensor]) -> Iterator[None]:
    """A context in which every SGD steps with other gradients, of the parameters that it has, than they got.

    An optimizer that wraps another one, as Horovod's and ZeRO's do, exchanges before.
    """

    def step(optimizer, *arguments, step=torch.optim.SGD.step):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = change(parameter)
        return step(optimizer, *arguments)

    with patch.object(torch.optim.SGD, "step", step):
        yield


def rounded(parameter):
    return parameter.grad.half().float()


def scaled(factor):
    return changed_gradients(lambda parameter: parameter.grad * factor)


def twice_in_step_50():
    """A function that gives a parameter's gradient, and twice that when rank 1 calls it for step 50."""
    # torchrun's, or horovodrun's.
    rank, calls = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"]), Counter()

    def change(parameter):
        calls[parameter] += 1
        return parameter.grad * (2 if rank == 1 and calls[parameter] == 51 else 1)

    return change


def with_other(script, **functions) -> AbstractContextManager:
    """The script calls other functions of torch.distributed, and nobody else does."""
    return patch.dict(script, dist=SimpleNamespace(**vars(dist) | functions))


def without_broadcast(script):
    return apart_with(with_other(script, **dict.fromkeys(("broadcast", "send", "recv"), lambda *_, **__: None)))


# Of libraries around DistributedDataParallel


def with_ddp(before=lambda module: None, **changed) -> AbstractContextManager:
    """Every DistributedDataParallel is made with changed options, by whichever library, of a module changed before."""

    def begin(wrapped, module, *arguments, begin=DistributedDataParallel.__init__, **options):
        before(module)
        begin(wrapped, module, *arguments, **options | changed)

    return patch.object(DistributedDataParallel, "__init__", begin)


def leave_out_the_first(module):
    """Tell DistributedDataParallel not to exchange the first of the module's parameters."""
    name, _ = next(module.named_parameters())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, [name])


def changing_network(script, change):
    """Lightning computes the gradients inside of the optimizer's step, so what changes them before that finds none."""

    def change_all(model, _optimizer):
        for parameter in model.parameters():
            parameter.grad = change(parameter)

    return patch.object(script["Network"], "on_before_optimizer_step", change_all)


def with_accelerator(script, **changed):
    """Accelerate's defaults are an update of the schedule for each process, and one micro-batch."""
    accelerator = script["Accelerator"]
    return patch.dict(script, Accelerator=lambda **options: accelerator(**options | changed))


def leaving_the_model(script):
    """Ray's own way to leave the model as it is."""
    library = script["ray"].train.torch
    return patch.object(library, "prepare_model", partial(library.prepare_model, parallel_strategy=None))


# Of loops that exchange by themselves


def all_reduce_others(gradient, op):
    """All but the first layer's weight, which is told by its shape."""
    inputs, outputs, *_ = PRESETS["digits"].dimensions
    if gradient.shape != (outputs, inputs):
        dist.all_reduce(gradient, op)


def all_reduce_half(bucket, **options):
    """The first layer's weight is in the bucket's second half."""
    return dist.all_reduce(bucket[: len(bucket) // 2], **options)


# Of strategies that divide the state or the model


def keeping_own_shards(script):
    """Every worker keeps its part of its own weights, and takes none of rank 0's."""
    distribute = partial(script["distribute_tensor"], src_data_rank=None)
    return apart_with(patch.dict(script, distribute_tensor=distribute))


def with_config(script, **changed):
    """DeepSpeed's engine gets these values in place of the script's, or its own defaults where they are None."""
    deepspeed = script["deepspeed"]

    def initialize(*, config, initialize=deepspeed.initialize, **options):
        config = {name: value for name, value in (config | changed).items() if value is not None}
        return initialize(config=config, **options)

    return patch.object(deepspeed, "initialize", initialize)


def without_broadcast_of_engines(script):
    engine_type = script["deepspeed"].DeepSpeedEngine
    return apart_with(patch.object(engine_type, "_broadcast_model", lambda engine: None))


def losing_a_micro_batch(script):
    counts = itertools.cycle([1] * (MICRO_BATCHES - 1) + [0])
    backward = torch.Tensor.backward
    return patch.object(torch.Tensor, "backward", lambda outputs, gradient: backward(outputs, gradient * next(counts)))


def sum_again(_context, gradient):
    gradient = gradient.contiguous()
    dist.all_reduce(gradient)
    return gradient


def repeating_the_bias(script):
    def forward(layer, features):
        return script["Sum"].apply(linear(features, layer.weight, layer.bias))

    return patch.object(script["SplitByInputs"], "forward", forward)


OF_GRADIENTS = {
    # The controls have two workers, whose sum is twice their mean.
    "sum": lambda script: scaled(2),
    "float16": lambda script: changed_gradients(rounded),
}
OF_REPLICAS = OF_GRADIENTS | {"diverged": lambda script: changed_gradients(twice_in_step_50())}
OF_DDP = OF_REPLICAS | {
    "one_left_out": lambda script: with_ddp(before=leave_out_the_first),
    "skipped_broadcast": lambda script: apart_with(with_ddp(init_sync=False)),
}
OF_ALL_REDUCES = OF_REPLICAS | {
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_others),
    "skipped_broadcast": without_broadcast,
}

CONTROLS = {
    "torch_data_parallel": OF_GRADIENTS,
    "torch_sync_sgd": OF_ALL_REDUCES,
    "torch_hook_ddp": OF_REPLICAS
    | {
        "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_half),
        "skipped_broadcast": without_broadcast,
    },
    "torch_ddp": OF_DDP,
    "torch_local_sgd": OF_ALL_REDUCES,
    "torch_zero": OF_DDP,
    "torch_fsdp": OF_REPLICAS | {"skipped_broadcast": keeping_own_shards},
    "torch_model_parallel": OF_GRADIENTS
    | {
        # Each micro-batch's mean gradient counts as the whole batch's.
        "sum": lambda script: scaled(MICRO_BATCHES),
        "lost_micro_batch": losing_a_micro_batch,
    },
    "torch_tensor_parallel": OF_GRADIENTS
    | {
        # What a differentiable all-reduce does that takes its backward for its forward's mirror image.
        "sum": lambda script: patch.object(script["Sum"], "backward", staticmethod(sum_again)),
        "missing_gradient_sum": lambda script: patch.object(
            script["SumGradients"], "backward", staticmethod(lambda _context, gradient: gradient)
        ),
        "repeated_bias": repeating_the_bias,
    },
    "torch_lightning_ddp": OF_DDP
    | {
        "sum": lambda script: changing_network(script, lambda parameter: 2 * parameter.grad),
        "float16": lambda script: changing_network(script, rounded),
        "diverged": lambda script: changing_network(script, twice_in_step_50()),
    },
    "torch_accelerate": OF_DDP
    | {
        "accumulated": lambda script: with_accelerator(script, gradient_accumulation_steps=2),
        "schedule_of_processes": lambda script: with_accelerator(script, step_scheduler_with_optimizer=True),
    },
    "torch_deepspeed": OF_REPLICAS
    | {
        "clipped": lambda script: with_config(script, gradient_clipping=None),
        "accumulated": lambda script: with_config(script, gradient_accumulation_steps=2),
        "exchanged_in_float16": lambda script: with_config(script, communication_data_type="fp16"),
        "skipped_broadcast": without_broadcast_of_engines,
    },
    "torch_ray": OF_DDP | {"not_prepared": leaving_the_model},
}
"""By strategy and name of the control: a context in which it is broken, of the names that the script has."""
