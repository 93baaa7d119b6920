"""Ray Train's TorchTrainer over DistributedDataParallel: Ray starts the workers, which run a function of this file.

To start it: `python pytorch_impl/ray_train.py --workers 2 --preset digits`.
"""

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("ray")

import ray.train.torch
import torch
from torch.nn.functional import cross_entropy

from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model, ray_cluster
from pytorch_impl.strategies import RAY_TRAIN, RayOptions
from pytorch_impl.world import join


def main() -> None:
    """Have Ray start the workers and train the model in them, as the command line says. This process only waits."""
    job = ray_cluster.job_of(*parse_command_line(RAY_TRAIN, __doc__))
    with ray_cluster.connected(job) as folder:
        trainer = ray.train.torch.TorchTrainer(
            partial(ray_cluster.work, job, folder, _join_and_train),
            scaling_config=ray.train.ScalingConfig(num_workers=job.workers, use_gpu=ray_cluster.has_gpus(job)),
            torch_config=ray.train.torch.TorchConfig(timeout_s=int(job.task.deadline_seconds)),
            run_config=ray.train.RunConfig(
                storage_path=folder, failure_config=ray.train.FailureConfig(max_failures=job.options.max_restarts)
            ),
        )
        ray_cluster.fit(trainer, job)


def _join_and_train(task: Task, options: RayOptions) -> None:
    """Train in a worker, which Ray has started and whose process group Ray has made."""
    world, device = join(RAY_TRAIN, task, options)
    _train(Run(RAY_TRAIN, task, options, world), device)


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed: of several workers each model becomes a DistributedDataParallel.
    network = ray.train.torch.prepare_model(network, parallel_strategy_kwargs={"gradient_as_bucket_view": True})
    exchange = nullcontext if options.exchange or run.world.size == 1 else network.no_sync
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        with exchange():
            loss = cross_entropy(network(features), labels)
            loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
