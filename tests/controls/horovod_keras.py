"""What can go wrong in horovod_keras's exchange: the contract tests must catch each."""

from unittest.mock import patch

import horovod.tensorflow as hvd

from tests.controls.generic import all_of, start_apart

CONTROLS = {
    "sum": lambda script: patch.object(hvd, "Average", hvd.Sum),
    "float16": lambda script: patch.object(hvd.Compression, "none", hvd.Compression.fp16),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.object(hvd, "broadcast_variables", lambda *_, **__: None)
    ),
}
