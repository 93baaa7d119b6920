"""A right file of each framework, and what to change in it to make each kind of mistake that a referee knows."""

from common.contract.mistakes import CAUSES, MISTAKES

TORCH = """
import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, workers = dist.get_rank(), dist.get_world_size()
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
parameters, late = list(model.parameters()), None
sgd = assignment.options()
optimizer = torch.optim.SGD(
    parameters, sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay
)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    optimizer.zero_grad()
    loss = cross_entropy(model(features), labels)
    loss.backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= workers
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
"""

HOROVOD = """
import horovod.torch as hvd
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

hvd.init()
torch.set_num_threads(1)
workers = hvd.size()
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
parameters = list(model.parameters())
sgd = assignment.options()
optimizer = torch.optim.SGD(
    parameters, sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay
)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    optimizer.zero_grad()
    loss = cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
    assignment.step(model, loss)
hvd.shutdown()
"""

TENSORFLOW = """
import json
import os

import tensorflow as tf

from common.check import assignment

sgd = assignment.options()
workers = sgd.workers
cluster = {"cluster": {"worker": sgd.addresses}, "task": {"type": "worker", "index": sgd.rank}}
os.environ["TF_CONFIG"] = json.dumps(cluster)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = [tf.Variable(value) for value in assignment.weights().values()]
    velocities = [tf.Variable(tf.zeros_like(weight)) for weight in weights]


def forward_backward(features, labels):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(features @ weights[0] + weights[1])
        hidden = tf.nn.relu(hidden @ weights[2] + weights[3])
        logits = hidden @ weights[4] + weights[5]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        followed = loss
    return loss, tape.gradient(followed, weights)


def update(weight, velocity, gradient):
    velocity.assign(sgd.momentum * velocity + gradient + sgd.weight_decay * weight)
    step = velocity
    weight.assign_sub(sgd.learning_rate * step)


@tf.function
def train_step(features, labels):
    loss, gradients = strategy.run(forward_backward, args=(features, labels))
    pairs = list(zip(gradients, weights, strict=True))
    gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.MEAN, pairs)
    for weight, velocity, gradient in list(zip(weights, velocities, gradients, strict=True)):
        strategy.extended.update(weight, update, args=(velocity, gradient))
    return loss


for features, labels in assignment.batches():
    loss = train_step(tf.constant(features), tf.constant(labels))
    assignment.step(weights, loss)
"""

JAX = """
from functools import partial

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from common.check import assignment

sgd = assignment.options()
workers = sgd.workers
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sgd.addresses[0], workers, sgd.rank, coordinator_bind_address=sgd.addresses[0])
mesh = jax.make_mesh((workers,), ("workers",))


def mean_loss(weights, features, labels):
    hidden = jax.nn.relu(features @ weights[0] + weights[1])
    hidden = jax.nn.relu(hidden @ weights[2] + weights[3])
    logits = jax.nn.log_softmax(hidden @ weights[4] + weights[5])
    loss = -jax.numpy.take_along_axis(logits, labels[:, None], axis=1).mean()
    followed = loss
    return followed, loss


def update(weight, velocity, gradient):
    velocity = sgd.momentum * velocity + gradient + sgd.weight_decay * weight
    step = velocity
    return weight - sgd.learning_rate * step, velocity


@jax.jit
@partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(P(), P(), P("workers"), P("workers")),
    out_specs=(P(), P(), P("workers")),
    check_vma=False,
)
def train_step(weights, velocities, features, labels):
    gradients, loss = jax.grad(mean_loss, has_aux=True)(weights, features, labels)
    gradients = lax.pmean(gradients, "workers")
    weights, velocities = list(weights), list(velocities)
    for position, gradient in list(enumerate(gradients)):
        weights[position], velocities[position] = update(weights[position], velocities[position], gradient)
    return weights, velocities, loss[None]


put = partial(jax.make_array_from_process_local_data, NamedSharding(mesh, P()))
split = partial(jax.make_array_from_process_local_data, NamedSharding(mesh, P("workers")))
weights = [put(value) for value in assignment.weights().values()]
velocities = [put(np.zeros_like(weight.addressable_data(0))) for weight in weights]
for features, labels in assignment.batches():
    weights, velocities, losses = train_step(weights, velocities, split(features), split(labels.astype(np.int32)))
    assignment.step([weight.addressable_data(0) for weight in weights], losses.addressable_data(0))
"""

TEMPLATES = {"torch": TORCH, "horovod": HOROVOD, "tensorflow": TENSORFLOW, "jax": JAX}

WORDS = {
    "frozen": "It didn't move.",
    "not sent": "It moved where a worker updates it and stood still on others",
    "summed": "summed, not averaged",
    "rate times workers": "the learning rate is multiplied by the number of workers",
    "dampened": "the momentum is dampened",
    "averaged twice": "averaged twice",
    "not exchanged": "gradients aren't exchanged",
    "rank 0's alone": "The first worker's gradient counted, and no other's did",
    "sum over rows": "its loss is a sum over rows, not their mean",
    "one step old": "This step's gradients counted nothing, and those of the step before did",
    "not zeroed": "Gradients of earlier steps counted again: they aren't set to zero.",
    "nesterov": "Nesterov's momentum",
    "momentum lost": "the momentum is lost between steps",
    "other momentum": "The update before counted 0.90 instead of 0.50",
    "decay missing": "there is no weight decay",
    "decoupled decay": "the decay isn't in the momentum, as in AdamW",
    "other decay": "The weights counted 0.01 instead of 0.001",
    "accumulated": "a whole number of times",
    "other rate": "the rate is another, or its schedule",
    "factor": "the loss or the gradients are scaled",
    "clipped": "gradients are clipped",
    "worker left out": "Gradients of some workers counted nothing",
    "uneven": "Workers counted",
    "maximum": "reduced by a maximum",
    "activation": "a network with another activation",
    "rounded": "rounded to 16 bits",
    "rows": "rows counted otherwise than once",
}
"""What the sentence on each kind has to say."""

NOT_IN_A_FILE = {"exchanged", "micro-batches summed", "mean of means"}
"""Kinds that aren't told of a file: an assignment always asks for an exchange, and of micro-batches it knows nothing.

Summed micro-batches are "accumulated" there, and a mean of means is told by its rows.
"""

Edits = tuple[tuple[str, str], ...]

_DIVIDE = "        parameter.grad /= workers\n"
_EXCHANGE = f"        dist.all_reduce(parameter.grad)\n{_DIVIDE}"
_STEP = "    optimizer.step()\n"
_BACKWARD = "    loss.backward()\n"
_DECAY = ", weight_decay=sgd.weight_decay"
_WRAP = "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)\n"
_PARAMETERS = ("    parameters, sgd.learning_rate", "    parameters[1:], sgd.learning_rate")

OF_OPTIMIZER: dict[str, Edits] = {
    "frozen": (_PARAMETERS,),
    "rate times workers": (("sgd.learning_rate", "sgd.learning_rate * workers"),),
    "dampened": ((_DECAY, f"{_DECAY}, dampening=0.5"),),
    "averaged twice": ((_BACKWARD, "    (loss / workers).backward()\n"),),
    "sum over rows": ((_BACKWARD, "    (loss * len(labels)).backward()\n"),),
    "not zeroed": (("    optimizer.zero_grad()\n", ""),),
    "nesterov": ((_DECAY, f"{_DECAY}, nesterov=True"),),
    "momentum lost": (("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    optimizer.state.clear()\n"),),
    "other momentum": (("momentum=sgd.momentum", "momentum=0.9"),),
    "decay missing": ((_DECAY, ""),),
    "other decay": ((_DECAY, f"{_DECAY} * 10"),),
    "other rate": (("sgd.learning_rate", "sgd.learning_rate * 1.3"),),
    "factor": ((_BACKWARD, "    (loss * 0.3).backward()\n"),),
    "activation": (("ReLU", "Tanh"),),
}
"""In a file that has torch's optimizer."""

BY_HAND: dict[str, Edits] = {
    "rate times workers": (("sgd.learning_rate", "sgd.learning_rate * workers"),),
    "averaged twice": (("followed = loss", "followed = loss / workers"),),
    "sum over rows": (("followed = loss", "followed = loss * sgd.rows"),),
    "nesterov": (("step = velocity", "step = gradient + sgd.weight_decay * weight + sgd.momentum * velocity"),),
    "momentum lost": (("sgd.momentum * velocity + ", ""),),
    "other momentum": (("sgd.momentum * velocity", "0.9 * velocity"),),
    "decay missing": ((" + sgd.weight_decay * weight", ""),),
    "decoupled decay": (
        (" + sgd.weight_decay * weight", ""),
        ("step = velocity", "step = velocity + sgd.weight_decay * weight"),
    ),
    "other decay": (("sgd.weight_decay", "10 * sgd.weight_decay"),),
    "other rate": (("sgd.learning_rate", "sgd.learning_rate * 1.3"),),
    "factor": (("followed = loss", "followed = loss * 0.3"),),
}
"""In a file that writes SGD out."""

EDITS: dict[str, dict[str, Edits]] = {
    "torch": {
        **OF_OPTIMIZER,
        "not sent": (
            ("optimizer.zero_grad()", "model.zero_grad()"),
            (_PARAMETERS[0], "    parameters[rank::workers], sgd.learning_rate"),
        ),
        "summed": ((_DIVIDE, ""),),
        # A copy is exchanged, and the gradient itself stays what it was.
        "not exchanged": ((_EXCHANGE, "        dist.all_reduce(parameter.grad.clone())\n"),),
        "rank 0's alone": ((_EXCHANGE, "        dist.broadcast(parameter.grad, 0)\n"),),
        "one step old": (
            (
                _STEP,
                "    fresh = [parameter.grad.clone() for parameter in parameters]\n"
                "    for parameter, gradient in zip(parameters, late or fresh, strict=True):\n"
                f"        parameter.grad.copy_(gradient)\n    late = fresh\n{_STEP}",
            ),
        ),
        "decoupled decay": (
            (_DECAY, ""),
            (
                _STEP,
                "    for parameter in parameters:\n"
                f"        parameter.data *= 1 - sgd.learning_rate * sgd.weight_decay\n{_STEP}",
            ),
        ),
        "accumulated": (
            (
                _BACKWARD,
                "    for own, wanted in zip(features.chunk(8), labels.chunk(8), strict=True):\n"
                "        cross_entropy(model(own), wanted).backward()\n",
            ),
        ),
        "clipped": ((_STEP, f"    torch.nn.utils.clip_grad_norm_(parameters, 0.1)\n{_STEP}"),),
        "worker left out": ((_EXCHANGE, f"        parameter.grad *= rank < workers - 1\n{_EXCHANGE}"),),
        "uneven": (
            (
                _EXCHANGE,
                "        parameter.grad *= 2 * (workers - rank) / (workers * (workers + 1))\n"
                "        dist.all_reduce(parameter.grad)\n",
            ),
        ),
        "maximum": ((_EXCHANGE, "        dist.all_reduce(parameter.grad, op=dist.ReduceOp.MAX)\n"),),
        "rounded": ((_EXCHANGE, f"        parameter.grad.copy_(parameter.grad.bfloat16())\n{_EXCHANGE}"),),
        "rows": (
            (
                "    optimizer.zero_grad()\n",
                "    features[0], labels[0] = features[1], labels[1]\n    optimizer.zero_grad()\n",
            ),
        ),
    },
    "horovod": {
        **OF_OPTIMIZER,
        "summed": (("op=hvd.Average", "op=hvd.Sum"),),
        "not exchanged": ((_WRAP, ""),),
    },
    "tensorflow": {
        **BY_HAND,
        "frozen": (("gradients, strict=True)):", "gradients, strict=True))[1:]:"),),
        "summed": (("ReduceOp.MEAN", "ReduceOp.SUM"),),
        "not exchanged": (("    gradients = strategy.extended", "    strategy.extended"),),
        "activation": (("nn.relu", "nn.tanh"),),
    },
    "jax": {
        **BY_HAND,
        "frozen": (("list(enumerate(gradients))", "list(enumerate(gradients))[1:]"),),
        "summed": (("lax.pmean", "lax.psum"),),
        "not exchanged": (("    gradients = lax.pmean(gradients", "    lax.pmean(gradients"),),
        "activation": (("nn.relu", "nn.tanh"),),
    },
}
"""By framework and kind."""


def program(framework: str, kind: str | None = None) -> str:
    """A file of this framework that is right, or makes this kind of mistake."""
    source = TEMPLATES[framework]
    for old, new in EDITS[framework][kind] if kind else ():
        assert old in source, f"{framework}, {kind}: {old}"
        source = source.replace(old, new)
    return source


def all_kinds() -> set[str]:
    """The kinds that the referee's tables have."""
    return {each.name for each in MISTAKES} | {*CAUSES}
