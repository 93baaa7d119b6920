"""torch_data_parallel, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from pytorch_impl import data_parallel
from tests.controls.broken_torch import change_gradients, rounded

CONTROLS = ("sum", "float16")
CONTROL = os.environ["LOCKSTEP_CONTROL"]

if CONTROL == "sum":
    workers = int(sys.argv[sys.argv.index("--workers") + 1])
    change_gradients(lambda gradient: gradient * workers)
elif CONTROL == "float16":
    change_gradients(rounded)
data_parallel.main()
