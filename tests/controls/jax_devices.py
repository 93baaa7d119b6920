"""What can go wrong in jax_devices' exchange: the contract tests must catch each."""

from tests.controls.broken_jax import OF_AVERAGES

CONTROLS = OF_AVERAGES
