"""DeepSpeed's engine: the stages of ZeRO, by a wrapper that owns the gradients and the steps of the optimizer.

Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020, section 5.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/zero_engine.py --preset digits`.
"""

import logging
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("deepspeed")

import deepspeed
import torch
from deepspeed.runtime.zero import parameter_offload
from deepspeed.utils import (
    groups,
    safe_get_full_fp32_param,
    safe_get_full_optimizer_state,
    safe_set_full_optimizer_state,
)
from torch.nn.functional import cross_entropy

from common.contract.model import State, parameter_names
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import ZERO_ENGINE
from pytorch_impl.world import join, leave

MOMENTUM = "momentum_buffer"


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(ZERO_ENGINE, __doc__)
    # Users can do nothing about what DeepSpeed configures, nor about its use of functions that torch calls deprecated.
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    # On a CPU DeepSpeed compiles, for minutes, an all-reduce through shared memory, which inference alone calls
    # (TorchBackend.inference_all_reduce).
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    world, device = join(ZERO_ENGINE, task, options)
    _train(Run(ZERO_ENGINE, task, options, world), device)
    groups._release_process_group_references()
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    # ZeRO's optimizer copies its part of the weights, so they have to be there before.
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed: the engine broadcasts rank 0's weights, and takes over the optimizer.
    engine, *_ = deepspeed.initialize(
        model=network,
        optimizer=optimizer,
        lr_scheduler=schedule,
        config={
            "train_micro_batch_size_per_gpu": 1,  # Required, for figures that DeepSpeed would print.
            "zero_optimization": {"stage": options.stage},
            # Of torch's optimizers DeepSpeed knows Adam and Adagrad alone.
            "zero_allow_untested_optimizer": True,
            # By default gradients are clipped to norm 1.
            "gradient_clipping": 0.0,
        },
    )
    if options.stage and task.momentum:
        _load_momentum(task, engine, run.initial_state)
    load = inputs.loader(run, device)
    run.export_with(lambda: _export_state(task, engine), lambda: _held_bytes(engine))

    for batch in run.steps():
        features, labels = load(batch)
        loss = cross_entropy(engine(features), labels)
        engine.backward(loss)
        # Steps the optimizer and the schedule, and clears the gradients.
        engine.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()
    _release(engine)


def _partitions(engine: deepspeed.DeepSpeedEngine) -> list[torch.Tensor]:
    """This worker's parts of the weights, which ZeRO's optimizer updates: one flat tensor for each group."""
    if engine.zero_optimization_stage() == 3:
        return engine.optimizer.fp32_partitioned_groups_flat
    return engine.optimizer.single_partition_of_fp32_groups


def _load_momentum(task: Task, engine: deepspeed.DeepSpeedEngine, state: State) -> None:
    """Give this worker its part of the momentum, or zeros, from which SGD begins in the same way as from nothing."""
    for partition in _partitions(engine):
        engine.basic_optimizer.state[partition][MOMENTUM] = torch.zeros_like(partition)
    if engine.zero_optimization_stage() < 3:
        # Otherwise this comes after the first step, and until then nothing finds a parameter's momentum.
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    tensors = model.in_torch_layout(task, state)
    for name, parameter in zip(parameter_names(task), engine.module.parameters(), strict=True):
        if f"{name}.momentum" in tensors:
            safe_set_full_optimizer_state(parameter, tensors[f"{name}.momentum"].to(engine.device), MOMENTUM)


def _export_state(task: Task, engine: deepspeed.DeepSpeedEngine) -> State:
    """The weights and the momentum, gathered from the workers that keep parts of them. All ranks call it."""
    if not engine.zero_optimization_stage():
        return model.export_state(task, engine.module, engine.basic_optimizer)
    whole = model.build_model(task)
    optimizer = model.build_optimizer(task, whole)
    with torch.no_grad():
        for parameter, part in zip(whole.parameters(), engine.module.parameters(), strict=True):
            parameter.copy_(safe_get_full_fp32_param(part))
            if task.momentum:
                optimizer.state[parameter][MOMENTUM] = safe_get_full_optimizer_state(part, MOMENTUM)
    return model.export_state(task, whole, optimizer)


def _release(engine: deepspeed.DeepSpeedEngine) -> None:
    """Let go of the process groups, whose threads `leave` has to end (as pytorch issue 190489).

    In stage 3 DeepSpeed keeps the last model in a list, and torch keeps the autograd functions that DeepSpeed makes for
    every module, with all that these refer to.
    """
    holders = [engine, *engine.module.parameters()]
    if engine.zero_optimization_stage() == 3:
        holders += [engine.optimizer, engine.optimizer.parameter_offload]
    engine.destroy()
    parameter_offload.FWD_MODULE_STACK.clear()
    for each in holders:
        vars(each).clear()


def _held_bytes(engine: deepspeed.DeepSpeedEngine) -> dict[str, int]:
    """Bytes that this process holds between steps, when the gradients are gone."""
    held, stage = model.held_bytes(engine.module, engine.basic_optimizer), engine.zero_optimization_stage()
    if not stage:
        return held
    # ZeRO updates copies of this worker's parts, even of float32 weights.
    held["parameters"] += sum(partition.nbytes for partition in _partitions(engine))
    if stage == 3:
        held["parameters"] += sum(parameter.ds_tensor.nbytes for parameter in engine.module.parameters())
    else:
        # The last worker's part is filled up to the length of the others.
        filling = 4 * sum(engine.optimizer.groups_padding)
        held["parameters"] -= filling
        held["optimizer_state"] -= filling if held["optimizer_state"] else 0
    return held


if __name__ == "__main__":
    exit_with_one_line(main)
