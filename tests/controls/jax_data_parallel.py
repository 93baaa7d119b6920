"""What can go wrong in jax_data_parallel's exchange: the contract tests must catch each."""

from unittest.mock import patch

from tests.controls.broken_jax import diverging, leaving_one_out, one_step_old, rounded, summing
from tests.controls.generic import all_of, start_apart

CONTROLS = {
    "sum": lambda script: patch.dict(script, average=summing(script["average"])),
    "one_left_out": lambda script: patch.dict(script, average=leaving_one_out(script["average"])),
    "float16": lambda script: rounded(),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, broadcast_one_to_all=lambda state: state)
    ),
}
