"""torch_hook_ddp, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from types import SimpleNamespace

import torch.distributed as dist

from pytorch_impl import hook_ddp
from tests.controls.broken_torch import change_gradients, rounded
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def replace_in_hook_ddp(**functions):
    """Other functions of torch.distributed for this module alone."""
    hook_ddp.dist = SimpleNamespace(**vars(dist) | functions)


if CONTROL == "sum":
    # It is the divisor.
    replace_in_hook_ddp(get_world_size=lambda: 1)
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "skipped_broadcast":
    start_apart()
    replace_in_hook_ddp(broadcast=lambda *_, **__: None)
hook_ddp.main()
