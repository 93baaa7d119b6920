"""horovod_tensorflow, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.tensorflow as hvd

from horovod_impl import train_tensorflow
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]

if CONTROL == "sum":
    hvd.Average = hvd.Sum
elif CONTROL == "float16":
    hvd.Compression.none = hvd.Compression.fp16
elif CONTROL == "skipped_broadcast":
    start_apart()
    hvd.broadcast_variables = lambda *_, **__: None
train_tensorflow.main()
