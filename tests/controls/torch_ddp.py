"""torch_ddp with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from torch.nn.parallel import DistributedDataParallel

from pytorch_impl import ddp
from tests.controls.broken_torch import break_maths, start_apart, summing

CONTROL = os.environ["LOCKSTEP_CONTROL"]

if CONTROL == "sum":
    ddp.DistributedDataParallel = summing
elif CONTROL == "skipped_broadcast":
    start_apart()
    ddp.DistributedDataParallel = partial(DistributedDataParallel, init_sync=False)
else:
    break_maths(CONTROL)
ddp.main()
