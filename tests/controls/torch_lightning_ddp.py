"""torch_lightning_ddp, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from pytorch_lightning.strategies import DDPStrategy

from pytorch_impl import lightning_ddp
from tests.controls.broken_torch import rounded, sum_hook
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


class Summing(DDPStrategy):
    """Lightning's own option for such hooks acts on GPUs only."""

    def configure_ddp(self):
        super().configure_ddp()
        self.model.register_comm_hook(None, sum_hook)


def round_gradients(model, _optimizer):
    """Lightning computes the gradients inside of the optimizer's step, so a hook before that finds none."""
    for parameter in model.parameters():
        parameter.grad = rounded(parameter.grad)


if CONTROL == "sum":
    lightning_ddp.DDPStrategy = Summing
elif CONTROL == "float16":
    lightning_ddp.MLP.on_before_optimizer_step = round_gradients
elif CONTROL == "skipped_broadcast":
    start_apart()
    lightning_ddp.DDPStrategy = partial(DDPStrategy, init_sync=False)
lightning_ddp.main()
