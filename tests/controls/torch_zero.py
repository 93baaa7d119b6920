"""torch_zero, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from torch.nn.parallel import DistributedDataParallel

from pytorch_impl import zero
from tests.controls.broken_torch import change_gradients, rounded, summing
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]

if CONTROL == "sum":
    zero.DistributedDataParallel = summing
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "skipped_broadcast":
    start_apart()
    zero.DistributedDataParallel = partial(DistributedDataParallel, init_sync=False)
zero.main()
