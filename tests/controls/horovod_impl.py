"""What breaks the exchange of Horovod's strategies, most of it in the part of it that their scripts call `hvd`.

A script has one framework, and a world of the other one can't be joined beside it: so each control imports its own.
"""

from unittest.mock import patch

from common.contract.task import PRESETS
from tests.controls.generic import apart_with


def without_broadcast(script):
    horovod = script["hvd"]
    name = "broadcast_parameters" if hasattr(horovod, "broadcast_parameters") else "broadcast_variables"
    return apart_with(patch.object(horovod, name, lambda *_, **__: None))


def leaving_one_out_of_torch(script):
    """Every gradient is exchanged but that of the first layer's weight, told by its shape."""
    from horovod.torch import optimizer

    def begin_others(gradient, begin=optimizer.allreduce_async_, **options):
        inputs, outputs, *_ = PRESETS["digits"].dimensions
        # A function in place of a handle gives the result.
        return (lambda: gradient) if gradient.shape == (outputs, inputs) else begin(gradient, **options)

    return patch.object(optimizer, "allreduce_async_", begin_others)


def diverging_in_torch(script):
    from tests.controls.pytorch_impl import OF_REPLICAS

    return OF_REPLICAS["diverged"](script)


def leaving_one_out_of_a_tape(script):
    """Every gradient is exchanged but that of the first layer's weight."""
    horovod = script["hvd"]

    def wrap(tape, wrap=horovod.DistributedGradientTape, **options):
        wrapped = wrap(tape, scale_local_gradients=False, **options)
        gradient = wrapped.gradient

        def leave_out_the_first(loss, sources):
            wrapped.register_local_source(sources[0])
            return gradient(loss, sources)

        wrapped.gradient = leave_out_the_first
        return wrapped

    return patch.object(horovod, "DistributedGradientTape", wrap)


def leaving_one_out_of_keras(script):
    """Every gradient is exchanged but that of the first layer's weight, told by its shape."""
    horovod = script["hvd"]

    def reduce_others(gradient, reduce=horovod.allreduce, **options):
        return gradient if gradient.shape == PRESETS["digits"].dimensions[:2] else reduce(gradient, **options)

    return patch.object(horovod, "allreduce", reduce_others)


def diverging_in_tensorflow(script, by="diverging"):
    from tests.controls import tf_impl

    return getattr(tf_impl, by)(lambda variable: variable if script["hvd"].rank() == 1 else None)


OF_ALL = {
    "sum": lambda script: patch.object(script["hvd"], "Average", script["hvd"].Sum),
    "float16": lambda script: patch.object(script["hvd"].Compression, "none", script["hvd"].Compression.fp16),
    "skipped_broadcast": without_broadcast,
}

CONTROLS = {
    "horovod_torch": OF_ALL | {"one_left_out": leaving_one_out_of_torch, "diverged": diverging_in_torch},
    "horovod_tensorflow": OF_ALL | {"one_left_out": leaving_one_out_of_a_tape, "diverged": diverging_in_tensorflow},
    "horovod_keras": OF_ALL
    | {
        "one_left_out": leaving_one_out_of_keras,
        "diverged": lambda script: diverging_in_tensorflow(script, by="diverging_in_keras"),
    },
}
"""By strategy and name of the control: a context in which it is broken, of the names that the script has."""
