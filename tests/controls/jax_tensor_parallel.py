"""What can go wrong between jax_tensor_parallel's parts: the contract tests must catch each."""

from unittest.mock import patch

from jax import lax

from jax_impl.model import WORKERS
from tests.controls.broken_jax import OF_GRADIENTS

CONTROLS = OF_GRADIENTS | {
    "mean_of_products": lambda script: patch.dict(
        script, split_by_inputs=lambda features, weight, bias: lax.pmean(features @ weight, WORKERS) + bias
    ),
    "repeated_bias": lambda script: patch.dict(
        script, split_by_inputs=lambda features, weight, bias: lax.psum(features @ weight + bias, WORKERS)
    ),
}
