"""A right file of each framework, and what to change in it to make each kind of mistake that a referee knows."""

from tests.common.check.user_files import GALLERY, filled

Edits = tuple[tuple[str, str], ...]

NOT_IN_A_FILE = {"exchanged", "micro-batches summed", "mean of means"}
"""Kinds that aren't told of a file: an assignment always asks for an exchange, and of micro-batches it knows nothing.

Summed micro-batches are "accumulated" there, and a mean of means is told by its rows.
"""


def edited(source: str, edits: Edits) -> str:
    """The source with the new text of each edit in place of the old one, which it must have."""
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return source


def mended(name: str, *edits: tuple[str, str]) -> str:
    """A file of the gallery without its mistake."""
    return edited(GALLERY[name], edits)


_DIVIDE = "        parameter.grad /= size\n"
_EXCHANGE = f"    for parameter in model.parameters():\n        dist.all_reduce(parameter.grad)\n{_DIVIDE}"
_EACH = "    for parameter in model.parameters():\n        "
_LOOP = "for features, labels in"
_ZERO = "    optimizer.zero_grad()\n"
_STEP = "    optimizer.step()\n"
_BACKWARD = "    loss.backward()\n"
_DECAY = ", weight_decay=sgd.weight_decay"
_WRAP = "optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())\n"
_FACTOR = " * 1.0"
_GRADIENTS = "    gradients, own = jax.grad(mean_loss, has_aux=True)(weights, features, labels)\n"

TORCH = filled("sync_sgd")

TEMPLATES = {
    "torch": TORCH,
    "horovod": edited(
        TORCH,
        (
            ("import torch.distributed as dist", "import horovod.torch as hvd"),
            ('dist.init_process_group("gloo")', "hvd.init()"),
            ("dist.get_world_size()", "hvd.size()"),
            (_LOOP, _WRAP + _LOOP),
            (_EXCHANGE, ""),
            ("dist.destroy_process_group()", "hvd.shutdown()"),
        ),
    ),
    "tensorflow": mended("tensorflow_35333", (" / strategy.num_replicas_in_sync", _FACTOR)),
    "jax": mended(
        "jax_3970",
        ('lax.pmean(own, "workers"), own', f"own{_FACTOR}, own"),
        (_GRADIENTS, f'{_GRADIENTS}    gradients = lax.pmean(gradients, "workers")\n'),
    ),
}
"""By framework a right file, in which the loss is multiplied by 1 where SGD is written out."""

OF_OPTIMIZER: dict[str, Edits] = {
    "frozen": (("SGD(model.parameters()", "SGD([*model.parameters()][1:]"),),
    "rate times workers": (("sgd.learning_rate", "sgd.learning_rate * size"),),
    "dampened": ((_DECAY, f"{_DECAY}, dampening=0.5"),),
    "averaged twice": ((_BACKWARD, "    (loss / size).backward()\n"),),
    "sum over rows": ((_BACKWARD, "    (loss * len(labels)).backward()\n"),),
    "not zeroed": ((_ZERO, ""),),
    "nesterov": ((_DECAY, f"{_DECAY}, nesterov=True"),),
    "momentum lost": ((_ZERO, f"{_ZERO}    optimizer.state.clear()\n"),),
    "other momentum": (("momentum=sgd.momentum", "momentum=0.9"),),
    "decay missing": ((_DECAY, ""),),
    "other decay": ((_DECAY, f"{_DECAY} * 10"),),
    "other rate": (("sgd.learning_rate", "sgd.learning_rate * 1.3"),),
    "factor": ((_BACKWARD, "    (loss * 0.3).backward()\n"),),
    "activation": (("ReLU", "Tanh"),),
}
"""In a file that has torch's optimizer."""

BY_HAND: dict[str, Edits] = {
    "rate times workers": (("sgd.learning_rate", "sgd.learning_rate * sgd.workers"),),
    "averaged twice": ((_FACTOR, " / sgd.workers"),),
    "sum over rows": ((_FACTOR, " * sgd.rows"),),
    "momentum lost": (("sgd.momentum * ", "0 * "),),
    "other momentum": (("sgd.momentum * ", "0.9 * "),),
    "decay missing": ((" + sgd.weight_decay * weight", ""),),
    "decoupled decay": (
        (" + sgd.weight_decay * weight", ""),
        ("sgd.learning_rate * velocity", "sgd.learning_rate * (velocity + sgd.weight_decay * weight)"),
    ),
    "other decay": (("sgd.weight_decay", "10 * sgd.weight_decay"),),
    "other rate": (("sgd.learning_rate", "sgd.learning_rate * 1.3"),),
    "factor": ((_FACTOR, " * 0.3"),),
    "activation": (("nn.relu", "nn.tanh"),),
}
"""In a file that writes SGD out."""

EDITS: dict[str, dict[str, Edits]] = {
    "torch": {
        **OF_OPTIMIZER,
        "summed": ((_DIVIDE, ""),),
        "one step old": (
            (_LOOP, f"late = None\n{_LOOP}"),
            (
                _STEP,
                "    fresh = [parameter.grad.clone() for parameter in model.parameters()]\n"
                "    for parameter, gradient in zip(model.parameters(), late or fresh, strict=True):\n"
                f"        parameter.grad.copy_(gradient)\n    late = fresh\n{_STEP}",
            ),
        ),
        "decoupled decay": (
            (_DECAY, ""),
            (_STEP, f"{_EACH}parameter.data *= 1 - sgd.learning_rate * sgd.weight_decay\n{_STEP}"),
        ),
        "clipped": ((_STEP, f"    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n{_STEP}"),),
        "worker left out": ((_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad *= dist.get_rank() < size - 1\n"),),
        "uneven": ((_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad *= 2 * (size - dist.get_rank()) / (size + 1)\n"),),
        "maximum": (("(parameter.grad)\n", "(parameter.grad, dist.ReduceOp.MAX)\n"), (_DIVIDE, "")),
        "rounded": ((_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad.copy_(parameter.grad.bfloat16())\n"),),
        "rows": ((_ZERO, f"{_ZERO}    features[0], labels[0] = features[1], labels[1]\n"),),
    },
    "horovod": {
        **OF_OPTIMIZER,
        "summed": (("model.named_parameters())", "model.named_parameters(), op=hvd.Sum)"),),
        "not exchanged": ((_WRAP, ""),),
    },
    "tensorflow": {
        **BY_HAND,
        "nesterov": (("rate * velocity", "rate * (gradient + sgd.weight_decay * weight + sgd.momentum * velocity)"),),
        "frozen": (("zip(weights, velocities, means,", "zip(weights[1:], velocities[1:], means[1:],"),),
        "summed": (("ReduceOp.MEAN", "ReduceOp.SUM"),),
        "not exchanged": (("zip(weights, velocities, means,", "zip(weights, velocities, gradients,"),),
    },
    "jax": {
        **BY_HAND,
        "nesterov": (
            ("rate * velocity for weight, velocity", "rate * (new + sgd.momentum * last) for weight, new, last"),
            ("zip(weights, velocities,", "zip(weights, directions, velocities,"),
        ),
        "frozen": (
            ("weights = [weight -", "weights = weights[:1] + [weight -"),
            ("zip(weights, velocities, strict=True)]", "zip(weights[1:], velocities[1:], strict=True)]"),
        ),
        "summed": (("lax.pmean", "lax.psum"),),
        "not exchanged": (("    gradients = lax.pmean(gradients", "    lax.pmean(gradients"),),
    },
}
"""By framework and kind. Of torch's the gallery and the exercises make the others."""


def program(framework: str, kind: str | None = None) -> str:
    """A file of this framework that is right, or makes this kind of mistake."""
    return edited(TEMPLATES[framework], EDITS[framework][kind] if kind else ())
