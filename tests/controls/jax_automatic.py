"""What can go wrong in jax_automatic's exchange: the contract tests must catch each.

The compiler gives every worker the same state, so nothing makes one diverge but what it begins with.
"""

from tests.controls.broken_jax import OF_GRADIENTS, without_broadcast

CONTROLS = OF_GRADIENTS | {"skipped_broadcast": without_broadcast}
