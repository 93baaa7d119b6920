"""A pipeline: each worker holds some consecutive layers; activations go forward and gradients back, in micro-batches.

While a later worker computes on one micro-batch, an earlier one computes on the next (Huang et al., "GPipe", 2019).
With S stages and M micro-batches a worker idles (S - 1) / (M + S - 1) of the time, were all stages equally long.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/model_parallel.py --preset digits`.
"""

import itertools
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
from torch.nn.functional import cross_entropy

from common.config import Config, parse_command_line
from common.mlp import State
from common.run import Run
from pytorch_impl import model as contract
from pytorch_impl import world


def main() -> None:
    """Join the world that torchrun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    run, device = world.join(config, "torch_model_parallel", one_model=True)
    _train(config, run, device)
    world.leave()


def _train(config: Config, run: Run, device: torch.device) -> None:
    stage, last = dist.get_rank(), run.world_size - 1
    # The line that makes it distributed: this worker builds, and keeps, only the layers of its own stage.
    layers = cut_into_stages(config.dimensions, run.world_size)[stage]
    names = [f"layer{layer}.{kind}" for layer in layers for kind in ("weight", "bias")[: 1 + config.bias]]
    with torch.device("meta"):
        whole = contract.build_model(config)
    model = whole[2 * layers.start : 2 * layers.stop].to_empty(device=device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state, names)
    rows, micro_batches = run.global_batch // config.micro_batches, range(config.micro_batches)
    activations = [torch.empty(rows, config.dimensions[layers.start], device=device) for _ in micro_batches]
    gradients = [torch.empty(rows, config.dimensions[layers.stop], device=device) for _ in micro_batches]

    for batch in run.steps(whole_batch=True):
        optimizer.zero_grad()
        if stage == 0:
            features = torch.from_numpy(batch.features).to(device).split(rows)
        else:
            arriving = [dist.irecv(activations[number], stage - 1, tag=number) for number in micro_batches]
            features = [activation.detach().requires_grad_() for activation in activations]
        outputs, sending, loss = [], [], None
        # Forward: this stage computes on one micro-batch while the next stage does on the one before.
        for number in micro_batches:
            if stage > 0:
                arriving[number].wait()
            outputs.append(model(features[number]))
            if stage < last:
                sending.append(dist.isend(outputs[number].detach(), stage + 1, tag=number))

        if stage == last:
            labels = torch.from_numpy(batch.labels).to(device)
            loss = cross_entropy(torch.cat(outputs), labels)
            gradients = torch.autograd.grad(loss, outputs)
        else:
            arriving = [dist.irecv(gradients[number], stage + 1, tag=number) for number in micro_batches]
        # Backward, in the same order; the gradients of the weights add up over the micro-batches.
        for number in micro_batches:
            if stage < last:
                arriving[number].wait()
            outputs[number].backward(gradients[number])
            if stage > 0:
                sending.append(dist.isend(features[number].grad, stage - 1, tag=number))
        for work in sending:
            work.wait()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach() if loss is not None else None)
        if run.checkpoint_due:
            run.checkpoint(_export_state(config, model, optimizer, names))
    run.finish(_export_state(config, model, optimizer, names), contract.held_bytes(model, optimizer))


def cut_into_stages(dimensions: Sequence[int], stages: int) -> list[range]:
    """The consecutive layers of each stage, so that the stage with the most weights has as few as can be."""
    weights = [inputs * outputs for inputs, outputs in itertools.pairwise(dimensions)]
    layouts = []
    for cuts in itertools.combinations(range(1, len(weights)), stages - 1):
        layouts.append([range(*ends) for ends in itertools.pairwise((0, *cuts, len(weights)))])
    return min(layouts, key=lambda layout: max(sum(weights[layer] for layer in layers) for layers in layout))


def _export_state(config: Config, model: nn.Module, optimizer: torch.optim.Optimizer, names: list[str]) -> State:
    """The whole state, of all stages."""
    parts = world.all_gather(contract.export_state(config, model, optimizer, names))
    return {name: value for part in parts for name, value in part.items()}


if __name__ == "__main__":
    exit_with_one_line(main)
