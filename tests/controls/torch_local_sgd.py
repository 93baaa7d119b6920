"""What can go wrong in torch_local_sgd's averages: the contract tests must catch each."""

from tests.controls.broken_torch import changed_gradients, diverging, rounded
from tests.controls.generic import all_of, start_apart
from tests.controls.torch_sync_sgd import all_reduce_others, sum_times_workers, with_other

CONTROLS = {
    "sum": lambda script: with_other(script, all_reduce=sum_times_workers),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_others),
    "float16": lambda script: changed_gradients(rounded),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(start_apart(), with_other(script, broadcast=lambda *_, **__: None)),
}
