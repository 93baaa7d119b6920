"""A pipeline: each worker holds some consecutive layers; activations go forward and gradients back, in micro-batches.

While a later worker computes on one micro-batch, an earlier one computes on the next (Huang et al., "GPipe", 2019).
With S equally long stages and M micro-batches a worker idles (S - 1) / (M + S - 1) of the time.

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

from common.contract.model import State, pieces
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import model
from pytorch_impl.strategies import MODEL_PARALLEL
from pytorch_impl.world import all_gather, join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(MODEL_PARALLEL, __doc__)
    world, device = join(MODEL_PARALLEL, task, options)
    _train(Run(MODEL_PARALLEL, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    stage, last = dist.get_rank(), run.world.size - 1
    # The line that makes it distributed: this worker builds, and keeps, only the layers of its own stage.
    whole = pieces(task)
    part = cut_into_stages([piece.operations for piece in whole], run.world.size)[stage]
    names = [name for piece in whole[part.start : part.stop] for name in piece.shapes]
    with torch.device("meta"):
        modules = model.build_model(task)
    last_module = None if stage == last else whole[part.stop].modules.start
    network = modules[whole[part.start].modules.start : last_module].to_empty(device=device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state, names)
    rows, micro_batches = run.global_batch // options.micro_batches, range(options.micro_batches)
    arriving_shape, leaving_shape = whole[part.start].input_shape, whole[part.stop - 1].output_shape
    activations = [torch.empty(rows, *model.torch_shape(arriving_shape), device=device) for _ in micro_batches]
    gradients = [torch.empty(rows, *model.torch_shape(leaving_shape), device=device) for _ in micro_batches]
    run.export_with(
        lambda: _export_state(task, network, optimizer, names), lambda: model.held_bytes(network, optimizer)
    )

    for batch in run.steps():
        optimizer.zero_grad()
        if stage == 0:
            features = torch.from_numpy(batch.features).to(device).split(rows)
        else:
            arriving = [dist.irecv(activations[number], stage - 1, tag=number) for number in micro_batches]
            features = [activation.detach().requires_grad_() for activation in activations]
        outputs, sending = [], []
        # Forward: this stage computes on one micro-batch while the next stage does on the one before.
        for number in micro_batches:
            if stage > 0:
                arriving[number].wait()
            outputs.append(network(features[number]))
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
        run.observe(loss.detach(), rows=len(labels)) if stage == last else run.observe(None)
    run.finish()


def cut_into_stages(costs: Sequence[int], stages: int) -> list[range]:
    """The consecutive pieces of each stage, cut so that the most expensive stage costs as little as possible."""
    layouts = []
    for cuts in itertools.combinations(range(1, len(costs)), stages - 1):
        layouts.append([range(*ends) for ends in itertools.pairwise((0, *cuts, len(costs)))])
    return min(layouts, key=lambda layout: max(sum(costs[piece] for piece in stage) for stage in layout))


def _export_state(task: Task, network: nn.Module, optimizer: torch.optim.Optimizer, names: list[str]) -> State:
    """The whole state, gathered from all stages."""
    parts = all_gather(model.export_state(task, network, optimizer, names))
    return {name: value for part in parts for name, value in part.items()}


if __name__ == "__main__":
    exit_with_one_line(main)
