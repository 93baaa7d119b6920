"""What breaks the exchange of JAX's strategies, most of it where their update gets the exchanged gradients."""

from contextlib import AbstractContextManager
from unittest.mock import patch

import jax.numpy as jnp
from jax import lax

from jax_impl import model
from jax_impl.model import WORKERS
from tests.controls.generic import apart_with


def changed_gradients(change) -> AbstractContextManager:
    """A context in which every update gets other gradients: `change(gradient, rate, task)` of each."""

    def update(task, state, gradients, rate, update=model.update):
        changed = {name: change(gradient, rate, task) for name, gradient in gradients.items()}
        return update(task, state, changed, rate)

    return patch.object(model, "update", update)


def twice_in_step_50(gradient, rate, task):
    """Worker 1, and no other, takes twice the gradients in step 50, which the schedule tells by its rate."""
    is_wrong = (rate == model.learning_rate(task, 50)) & (lax.axis_index(WORKERS) == 1)
    return gradient * jnp.where(is_wrong, 2, 1)


def leaving_one_out(script):
    """The gradient of the first layer's weight stays as it is."""
    average = script["average"]

    def average_others(gradients):
        return average(gradients) | {"layer0.weight": gradients["layer0.weight"]}

    return patch.dict(script, average=average_others)


def without_broadcast(script):
    return apart_with(patch.dict(script, broadcast_one_to_all=lambda state: state))


OF_GRADIENTS = {
    # The controls have two workers, whose sum is twice their mean.
    "sum": lambda script: changed_gradients(lambda gradient, rate, task: 2 * gradient),
    "float16": lambda script: changed_gradients(
        lambda gradient, rate, task: gradient.astype(jnp.float16).astype(jnp.float32)
    ),
}
OF_REPLICAS = OF_GRADIENTS | {"diverged": lambda script: changed_gradients(twice_in_step_50)}
OF_AVERAGES = OF_REPLICAS | {"one_left_out": leaving_one_out}

CONTROLS = {
    "jax_data_parallel": OF_AVERAGES | {"skipped_broadcast": without_broadcast},
    # The compiler gives every worker the same state, so nothing makes one diverge but what it begins with.
    "jax_automatic": OF_GRADIENTS | {"skipped_broadcast": without_broadcast},
    "jax_devices": OF_AVERAGES,
    "jax_fsdp": OF_REPLICAS
    | {
        "parts_repeated": lambda script: patch.dict(script, all_gather=script["repeat_part"]),
        "gradients_kept": lambda script: patch.dict(script, mean_scatter=script["keep_part"]),
        "skipped_broadcast": without_broadcast,
    },
    "jax_tensor_parallel": OF_GRADIENTS
    | {
        "mean_of_products": lambda script: patch.dict(
            script, split_by_inputs=lambda features, weight, bias: lax.pmean(features @ weight, WORKERS) + bias
        ),
        "repeated_bias": lambda script: patch.dict(
            script, split_by_inputs=lambda features, weight, bias: lax.psum(features @ weight + bias, WORKERS)
        ),
    },
}
"""By strategy and name of the control: a context in which it is broken, of the names that the script has."""
