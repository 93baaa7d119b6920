"""What can go wrong in jax_fsdp's exchange: the contract tests must catch each."""

from unittest.mock import patch

from tests.controls.broken_jax import diverging, one_step_old, rounded
from tests.controls.generic import all_of, start_apart


def sum_scatter(script):
    scatter = script["mean_scatter"]
    return patch.dict(script, mean_scatter=lambda gradient, workers: workers * scatter(gradient, workers))


CONTROLS = {
    "sum": sum_scatter,
    "float16": lambda script: rounded(),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "parts_repeated": lambda script: patch.dict(script, all_gather=script["repeat_part"]),
    "gradients_kept": lambda script: patch.dict(script, mean_scatter=script["keep_part"]),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, broadcast_one_to_all=lambda state: state)
    ),
}
