"""What can go wrong in jax_fsdp's exchange: the contract tests must catch each."""

from unittest.mock import patch

from tests.controls.broken_jax import OF_REPLICAS, without_broadcast


def sum_scatter(script):
    scatter = script["mean_scatter"]
    return patch.dict(script, mean_scatter=lambda gradient, workers: workers * scatter(gradient, workers))


CONTROLS = OF_REPLICAS | {
    "sum": sum_scatter,
    "parts_repeated": lambda script: patch.dict(script, all_gather=script["repeat_part"]),
    "gradients_kept": lambda script: patch.dict(script, mean_scatter=script["keep_part"]),
    "skipped_broadcast": without_broadcast,
}
