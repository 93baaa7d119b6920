"""What can go wrong in horovod_tensorflow's exchange: the contract tests must catch each."""

from unittest.mock import patch

import horovod.tensorflow as hvd

from tests.controls.broken_horovod import OF_HOROVOD
from tests.controls.broken_tensorflow import diverging


def second_copy(variable):
    return variable if hvd.rank() == 1 else None


def leaving_one_out(script):
    """Every gradient is exchanged but that of the first layer's weight."""

    def wrap(tape, wrap=hvd.DistributedGradientTape, **options):
        wrapped = wrap(tape, scale_local_gradients=False, **options)
        gradient = wrapped.gradient

        def leave_out_the_first(loss, sources):
            wrapped.register_local_source(sources[0])
            return gradient(loss, sources)

        wrapped.gradient = leave_out_the_first
        return wrapped

    return patch.object(hvd, "DistributedGradientTape", wrap)


CONTROLS = OF_HOROVOD | {
    "one_left_out": leaving_one_out,
    "diverged": lambda script: diverging(second_copy),
}
