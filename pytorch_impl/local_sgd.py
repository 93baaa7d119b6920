"""Local SGD: each worker steps by its own gradients, and every few steps all average their weights.

With an average after every step (the default) this is synchronous SGD. With fewer averages it sends fewer bytes and
computes other maths (Stich, "Local SGD Converges Fast and Communicates Little", 2019, algorithm 1). With
`--outer-momentum` what the workers moved on average is the gradient of an outer Nesterov step (Douillard et al.,
"DiLoCo", 2023, algorithm 1).

To start it: `torchrun --nproc-per-node 4 pytorch_impl/local_sgd.py --preset digits --local-steps 8`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from common.contract.model import State
from common.declarations.arguments import parse_command_line
from common.errors import UserError
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import LOCAL_SGD
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(LOCAL_SGD, __doc__)
    world, device = join(LOCAL_SGD, task, options)
    run = Run(LOCAL_SGD, task, options, world)
    if run.first_step and options.outer_momentum:
        raise UserError("--outer-momentum can't go on from a checkpoint, which has no outer velocity: leave one out.")
    _train(run, device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    weights = [parameter.data for parameter in network.parameters()]
    for weight in weights:
        dist.broadcast(weight, src=0)
    outer = outer_sgd(weights, options.outer_momentum) if options.outer_momentum else None
    load = inputs.loader(run, device)
    run.export_with(
        lambda: with_mean_momentum(model.export_state(task, network, optimizer), device),
        lambda: model.held_bytes(network, optimizer),
    )

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        is_due = (batch.step + 1) % options.local_steps == 0 or batch.step + 1 == task.steps
        if is_due and options.exchange:
            # The line that makes it distributed: until now each worker went its own way.
            average(weights)
            if outer:
                step_outer(outer, weights)
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


def average(tensors: list[torch.Tensor]) -> None:
    """Replace each tensor by its mean over all workers, one after the other."""
    for tensor in tensors:
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
        tensor /= dist.get_world_size()


def outer_sgd(weights: list[torch.Tensor], momentum: float) -> torch.optim.SGD:
    """DiLoCo's outer optimizer, of copies of these weights."""
    return torch.optim.SGD([weight.clone() for weight in weights], lr=1.0, momentum=momentum, nesterov=True)


def step_outer(outer: torch.optim.Optimizer, weights: list[torch.Tensor]) -> None:
    """Take what the averaged weights have moved since the last outer step for a gradient, and step on by it."""
    for before, weight in zip(outer.param_groups[0]["params"], weights, strict=True):
        before.grad = before - weight
    outer.step()
    for before, weight in zip(outer.param_groups[0]["params"], weights, strict=True):
        weight.copy_(before)


def with_mean_momentum(state: State, device: torch.device) -> State:
    """The state with the mean of all workers' momentum: their mean weights move on as if all had that one."""
    for name in [name for name in state if name.endswith(".momentum")]:
        momentum = torch.from_numpy(state[name]).to(device)
        average([momentum])
        state[name] = momentum.cpu().numpy()
    return state


if __name__ == "__main__":
    exit_with_one_line(main)
