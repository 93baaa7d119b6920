"""jax-ml/jax, issue 3970: the gradient of a loss that is summed over all devices isn't the sum of their gradients.

The loss is that of all rows. The gradient that `jax.grad` gives inside the mapped function is of this device's rows.
"""

from functools import partial

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from common.check import assignment

sgd = assignment.options()
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sgd.addresses[0], sgd.workers, sgd.rank, coordinator_bind_address=sgd.addresses[0])
mesh = jax.make_mesh((sgd.workers,), ("workers",))


def mean_loss(weights, features, labels):
    hidden = jax.nn.relu(features @ weights[0] + weights[1])
    hidden = jax.nn.relu(hidden @ weights[2] + weights[3])
    logits = jax.nn.log_softmax(hidden @ weights[4] + weights[5])
    own = -jax.numpy.take_along_axis(logits, labels[:, None], axis=1).mean()
    return lax.pmean(own, "workers"), own


@jax.jit
@partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(P(), P(), P("workers"), P("workers")),
    out_specs=(P(), P(), P("workers")),
    check_vma=False,
)
def train_step(weights, velocities, features, labels):
    gradients, own = jax.grad(mean_loss, has_aux=True)(weights, features, labels)
    directions = [gradient + sgd.weight_decay * weight for gradient, weight in zip(gradients, weights, strict=True)]
    velocities = [sgd.momentum * last + new for last, new in zip(velocities, directions, strict=True)]
    weights = [weight - sgd.learning_rate * velocity for weight, velocity in zip(weights, velocities, strict=True)]
    return weights, velocities, own[None]


put = partial(jax.make_array_from_process_local_data, NamedSharding(mesh, P()))
split = partial(jax.make_array_from_process_local_data, NamedSharding(mesh, P("workers")))
weights = [put(value) for value in assignment.weights().values()]
velocities = [put(np.zeros_like(weight.addressable_data(0))) for weight in weights]
for features, labels in assignment.batches():
    weights, velocities, losses = train_step(weights, velocities, split(features), split(labels.astype(np.int32)))
    assignment.step([weight.addressable_data(0) for weight in weights], losses.addressable_data(0))
