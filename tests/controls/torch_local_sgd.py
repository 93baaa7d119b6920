"""What can go wrong in torch_local_sgd's averages: the contract tests must catch each."""

from tests.controls.broken_torch import changed_gradients, rounded, twice_in_step_50, with_other
from tests.controls.generic import apart_with
from tests.controls.torch_sync_sgd import all_reduce_others, sum_times_workers

CONTROLS = {
    "sum": lambda script: with_other(script, all_reduce=sum_times_workers),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_others),
    "float16": lambda script: changed_gradients(rounded),
    "diverged": lambda script: changed_gradients(twice_in_step_50()),
    "skipped_broadcast": lambda script: apart_with(with_other(script, broadcast=lambda *_, **__: None)),
}
