"""What breaks the exchange of all of Horovod's strategies, in the part of it that the script calls `hvd`."""

from unittest.mock import patch

from tests.controls.generic import apart_with


def without_broadcast(script):
    horovod = script["hvd"]
    name = "broadcast_parameters" if hasattr(horovod, "broadcast_parameters") else "broadcast_variables"
    return apart_with(patch.object(horovod, name, lambda *_, **__: None))


OF_HOROVOD = {
    "sum": lambda script: patch.object(script["hvd"], "Average", script["hvd"].Sum),
    "float16": lambda script: patch.object(script["hvd"].Compression, "none", script["hvd"].Compression.fp16),
    "skipped_broadcast": without_broadcast,
}
