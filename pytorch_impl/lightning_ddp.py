"""Lightning's Trainer over DistributedDataParallel: what most of its users write, without a loop of their own.

Between steps the Trainer calls its hooks, moves the batch, and asks the optimizer and the schedule for theirs.

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

from common.config import Config, parse_command_line
from common.mlp import State
from common.run import Run
from pytorch_impl import inputs, world
from pytorch_impl import model as contract


def main() -> None:
    """Join the world that torchrun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    # Lightning's own tips, and its use of what torch calls deprecated, are nothing that a user can mend here.
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    run, device = world.join(config, "torch_lightning_ddp")
    _train(config, run, device)
    world.leave()


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = MLP(config, run)
    local_workers = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = pytorch_lightning.Trainer(
        # The line that makes it distributed.
        strategy=DDPStrategy(),
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=local_workers,
        num_nodes=run.world_size // local_workers,
        max_epochs=1,
        # Nothing beside the training: these would be other programs than the other strategies'.
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, Batches(run, device))
    run.finish(model.export_state(), model.held_bytes)


class MLP(pytorch_lightning.LightningModule):
    """The contract's model, loss, optimizer and schedule, as Lightning wants to be told of them."""

    def __init__(self, config: Config, run: Run) -> None:
        super().__init__()
        self._config, self._run = config, run
        self.model = contract.build_model(config)
        self._optimizer = contract.build_optimizer(config, self.model)
        self._schedule = contract.build_schedule(config, self._optimizer, run.first_step)
        contract.load_state(config, self.model, self._optimizer, run.initial_state)

    def configure_optimizers(self) -> dict:
        """The contract's SGD, and its schedule after every step."""
        return {"optimizer": self._optimizer, "lr_scheduler": {"scheduler": self._schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Lightning has wrapped the model in a DistributedDataParallel by now."""
        self.trainer.model.require_backward_grad_sync = self._config.exchange

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The mean loss over this worker's rows, for Lightning to differentiate and step with."""
        features, labels = batch
        return cross_entropy(self.model(features), labels)

    def on_train_batch_end(self, outputs: dict[str, torch.Tensor], *_batch: object) -> None:
        """After the optimizer and the schedule have stepped."""
        if self._config.check_replicas:
            self._run.check_replicas(self.export_state())
        self._run.observe(outputs["loss"].detach())
        if self._run.checkpoint_due:
            self._run.checkpoint(self.export_state())

    def on_train_end(self) -> None:
        """While the gradients are still here."""
        self.held_bytes = contract.held_bytes(self.model, self._optimizer)

    def export_state(self) -> State:
        """The weights and the momentum in the contract's layout."""
        return contract.export_state(self._config, self.model, self._optimizer)


class Batches:
    """This worker's batches. They have a length, or Lightning would fetch one ahead, across a window's end."""

    def __init__(self, run: Run, device: torch.device) -> None:
        self._run, self._take = run, inputs.prepare(run, device)

    def __len__(self) -> int:
        return self._run.config.steps - self._run.first_step

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return map(self._take, self._run.steps())


if __name__ == "__main__":
    exit_with_one_line(main)
