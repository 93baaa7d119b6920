"""What can go wrong in jax_data_parallel's exchange: the contract tests must catch each."""

from tests.controls.broken_jax import OF_AVERAGES, without_broadcast

CONTROLS = OF_AVERAGES | {"skipped_broadcast": without_broadcast}
