"""What breaks the exchange of several of JAX's strategies, where their update gets the exchanged gradients."""

from contextlib import AbstractContextManager
from unittest.mock import patch

import jax
import jax.numpy as jnp
from jax import lax

from jax_impl import model
from jax_impl.model import WORKERS
from tests.controls.generic import apart_with


def changed_gradients(change) -> AbstractContextManager:
    """A context in which every update gets other gradients: `change(name, gradient, rate, task)` of each."""

    def update(task, state, gradients, rate, update=model.update):
        changed = {name: change(name, gradient, rate, task) for name, gradient in gradients.items()}
        return update(task, state, changed, rate)

    return patch.object(model, "update", update)


def diverging() -> AbstractContextManager:
    """Worker 1, and no other, takes twice the gradients in step 50, which the schedule tells by its rate."""

    def twice(name, gradient, rate, task):
        is_wrong = (rate == model.learning_rate(task, 50)) & (lax.axis_index(WORKERS) == 1)
        return gradient * jnp.where(is_wrong, 2, 1)

    return changed_gradients(twice)


def summing(script):
    """A sum over both workers in place of the mean."""
    average = script["average"]
    return patch.dict(script, average=lambda gradients: jax.tree.map(lambda mean: 2 * mean, average(gradients)))


def leaving_one_out(script):
    """The gradient of the first layer's weight stays as it is."""
    average = script["average"]

    def average_others(gradients):
        return average(gradients) | {"layer0.weight": gradients["layer0.weight"]}

    return patch.dict(script, average=average_others)


def without_broadcast(script):
    return apart_with(patch.dict(script, broadcast_one_to_all=lambda state: state))


OF_GRADIENTS = {
    # The controls have two workers.
    "sum": lambda script: changed_gradients(lambda name, gradient, rate, task: 2 * gradient),
    "float16": lambda script: changed_gradients(
        lambda name, gradient, rate, task: gradient.astype(jnp.float16).astype(jnp.float32)
    ),
}
OF_REPLICAS = OF_GRADIENTS | {"diverged": lambda script: diverging()}
OF_AVERAGES = OF_REPLICAS | {"sum": summing, "one_left_out": leaving_one_out}
