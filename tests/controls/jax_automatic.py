"""What can go wrong in jax_automatic's exchange: the contract tests must catch each.

The compiler gives every worker the same state, so nothing makes one diverge but what it begins with.
"""

from unittest.mock import patch

from tests.controls.broken_jax import changed_gradients, one_step_old, rounded
from tests.controls.generic import all_of, start_apart

CONTROLS = {
    "sum": lambda script: changed_gradients(lambda name, gradient, rate, task: 2 * gradient),
    "float16": lambda script: rounded(),
    "one_step_old": lambda script: one_step_old(),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, broadcast_one_to_all=lambda state: state)
    ),
}
