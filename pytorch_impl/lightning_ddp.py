"""Lightning's Trainer over DistributedDataParallel: Lightning's loop in place of a hand-written one.

Between steps the Trainer calls its hooks, moves the batch, and steps the optimizer and the schedule.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/lightning_ddp.py --preset digits`.
"""

import logging
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

from collections.abc import Iterator

import pytorch_lightning
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch.nn.functional import cross_entropy

from common.contract.model import State
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import LIGHTNING_DDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(LIGHTNING_DDP, __doc__)
    # Users can do nothing about Lightning's tips, nor about its use of functions that torch calls deprecated.
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    world, device = join(LIGHTNING_DDP, task, options)
    _train(Run(LIGHTNING_DDP, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    network = Network(run)
    run.export_with(network.export_state, lambda: network.held_bytes)
    local_workers = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = pytorch_lightning.Trainer(
        # The line that makes it distributed: `fit` wraps the model in a DistributedDataParallel.
        strategy=DDPStrategy(),
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=local_workers,
        num_nodes=run.world.size // local_workers,
        max_epochs=1,
        # Training alone, as in the other strategies.
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches = Batches(run, device)
    trainer.fit(network, batches)
    # Otherwise the loader would be garbage of the Trainer's, and wait 5 s for each of its processes (pytorch PR 39869).
    del batches.load
    run.finish()


class Network(pytorch_lightning.LightningModule):
    """The contract's model, loss, optimizer and schedule, in Lightning's form."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run, task, options = run, run.task, run.options
        self.model = model.build_model(task, options.precision)
        self._optimizer = model.build_optimizer(task, self.model)
        self._schedule = model.build_schedule(task, self._optimizer, run.first_step)
        model.load_state(task, self.model, self._optimizer, run.initial_state)

    def configure_optimizers(self) -> dict:
        """The contract's SGD, and its schedule after every step."""
        return {"optimizer": self._optimizer, "lr_scheduler": {"scheduler": self._schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Set gradient exchange on or off, in the DistributedDataParallel that Lightning made by now."""
        self.trainer.model.require_backward_grad_sync = self._run.options.exchange

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The mean loss over this worker's rows, which Lightning differentiates."""
        features, labels = batch
        return cross_entropy(self.model(features), labels)

    def on_train_batch_end(self, outputs: dict[str, torch.Tensor], batch: tuple, batch_idx: int) -> None:
        """Observe the loss, after the optimizer and the schedule have stepped."""
        self._run.observe(outputs["loss"].detach(), rows=len(batch[1]))

    def on_train_end(self) -> None:
        """Count the bytes held, while the gradients still exist."""
        self.held_bytes = model.held_bytes(self.model, self._optimizer)

    def export_state(self) -> State:
        """The weights and the momentum in the contract's layout."""
        return model.export_state(self._run.task, self.model, self._optimizer)


class Batches:
    """This worker's batches.

    They have a length. Without it Lightning would fetch one batch ahead, across a window's end.
    """

    def __init__(self, run: Run, device: torch.device) -> None:
        self._run, self.load = run, inputs.loader(run, device)

    def __len__(self) -> int:
        return self._run.task.steps - self._run.first_step

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return map(self.load, self._run.steps())


if __name__ == "__main__":
    exit_with_one_line(main)
