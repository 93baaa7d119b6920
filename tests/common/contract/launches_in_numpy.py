"""Launches of several workers in NumPy, right ones and such with one of the mistakes that a referee knows."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from common.contract import dataset, model, reading
from common.contract.model import State
from common.contract.reading import Reading, TensorUpdate, Trained
from common.contract.rows import RowOrder, Share
from common.contract.task import PRESETS
from common.contract.work import Recipe

OPTIMIZER = {"momentum": 0.5, "weight_decay": 0.001, "learning_rate": 0.1}
TASK = dataclasses.replace(PRESETS["digits"], activation="tanh", **OPTIMIZER)
PLAIN = dataclasses.replace(TASK, momentum=0.0, weight_decay=0.0)
NAMES = model.parameter_names(TASK)
STEPS = 34
EVIDENCE = (0, 1, 2, 3, 18, 19, 20, 32, 33, 34)
"""As a launch leaves it: the first three steps, two on the way and the last two."""


@cache
def shards(task, step, workers):
    """Each worker's features and labels in a step."""
    data = dataset.load(task)
    rows = RowOrder(len(data.train_labels), task.seed).cut(step * task.batch, (step + 1) * task.batch)
    return [(data.train_features[own], data.train_labels[own]) for own in np.split(rows, workers)]


def sum_of(gradients, replica=0):
    return {name: sum(each[name] for each in gradients) for name in gradients[0]}


def mean_of(gradients, replica=0):
    return {name: value / np.float32(len(gradients)) for name, value in sum_of(gradients).items()}


def steps_of(
    steps: int,
    workers: int = 2,
    combine: Callable = mean_of,
    task=TASK,
    taught: Mapping = {},
    sgd: Callable = model.update,
    rows: Callable = shards,
    begin: Callable = lambda task, replica: model.initial_weights(task),
    apart: bool = False,
) -> Iterator[tuple[list[State], list[float]]]:
    """Train in float32. Yield each replica's weights before a step, and each worker's loss in it.

    There is one replica, or `apart` as many as workers, which `combine` the workers' gradients each by itself. `taught`
    is what is different in the task that they train from the one that they should.
    """
    replicas, taught = workers if apart else 1, dataclasses.replace(task, **taught)
    states = [dict(begin(task, replica)) for replica in range(replicas)]
    for step in range(steps):
        before = [{name: state[name].copy() for name in model.parameter_names(task)} for state in states]
        parts = [
            model.loss_and_gradients(taught, states[worker % replicas], *part)
            for worker, part in enumerate(rows(task, step, workers))
        ]
        yield before, [part.loss for part in parts]
        for replica, state in enumerate(states):
            sgd(taught, state, combine([part.gradients for part in parts], replica), step)


def launched(
    workers: int = 2,
    task=TASK,
    recipe: Recipe = Recipe.AVERAGE,
    declare: Callable = lambda update: update,
    report: Callable = lambda losses: losses,
    **changed: object,
) -> tuple[Trained, Reading, Sequence[TensorUpdate]]:
    """What a launch was to train, and what its evidence says; `changed` are parameters of `steps_of`.

    `declare` changes what an update is held to, and `report` the losses of each worker that are recorded.
    """
    states, losses = zip(*steps_of(STEPS + 1, workers, task=task, **changed), strict=True)
    evidence = {step: states[step] for step in EVIDENCE}
    of_workers = report([[*of_worker] for of_worker in zip(*losses, strict=True)])
    trained = Trained(task, recipe, workers, Share(task.batch, 0, task.batch), 0, of_workers)
    found, updates = reading.read(trained, evidence, dataset.load(task))
    return trained, found, [declare(update) for update in updates]


def combined(change: Callable) -> Callable:
    """The gradients' mean, changed."""
    return lambda gradients, replica: {name: change(value) for name, value in mean_of(gradients).items()}


def scaled(factor):
    return combined(lambda value: np.float32(factor) * value)


def weighted(*shares):
    """Count each worker's gradient so often."""
    return lambda gradients, replica: {
        name: sum(np.float32(share) * each[name] for share, each in zip(shares, gradients, strict=True))
        for name in NAMES
    }


def but_for(names):
    """Average all tensors but these, which are left to each worker."""
    return lambda gradients, replica: {
        name: (gradients[replica] if name in names else mean_of(gradients))[name] for name in NAMES
    }


own = but_for(NAMES)


def up_to(step, first, then):
    """Combine the gradients in one way in the first steps, and in another one from `step` on."""
    calls = Counter()

    def combine(gradients, replica):
        # The next launch begins anew.
        is_before = calls[replica] % (STEPS + 1) < step
        calls[replica] += 1
        return (first if is_before else then)(gradients, replica)

    return combine


def clipped(gradients, replica):
    mean = mean_of(gradients)
    norm = np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in mean.values()))
    return {name: (value * min(1, 0.1 / norm)).astype(np.float32) for name, value in mean.items()}


def upper_half(value):
    """As bfloat16 has it: the upper half of a float32, rounded."""
    return ((value.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


def sgd_with(ahead: float = 0.0, kept: float = 1.0, decoupled: bool = False) -> Callable:
    """SGD whose step looks `ahead` by so many velocities, and whose velocity takes only a part of later gradients."""

    def update(task, state, gradients, step):
        for name in NAMES:
            decay = np.float32(task.weight_decay) * state[name]
            direction = gradients[name] + (0 if decoupled else decay)
            velocity = state.get(f"{name}.momentum")
            velocity = (
                direction if velocity is None else np.float32(task.momentum) * velocity + np.float32(kept) * direction
            )
            state[f"{name}.momentum"] = velocity
            moved = velocity + (decay if decoupled else 0)
            moved = direction + np.float32(task.momentum) * velocity if ahead else moved
            state[name] = state[name] - np.float32(task.learning_rate) * moved

    return update


def one_step_old(task, state, gradients, step):
    """SGD by the gradients of the step before."""
    model.update(task, state, state.get("late", gradients), step)
    state["late"] = gradients


def not_zeroed(task, state, gradients, step):
    """SGD by all gradients up to this step's."""
    state["total"] = {name: state["total"][name] + gradients[name] for name in NAMES} if step else gradients
    model.update(task, state, state["total"], step)


def sgd_but(names: Sequence[str], **taught: float) -> Callable:
    """SGD of all tensors but these, which stay as they are or are `taught` by a task that differs so."""

    def update(task, state, gradients, step):
        other = dict(state)
        if taught:
            model.update(dataclasses.replace(task, **taught), other, gradients, step)
        model.update(task, state, gradients, step)
        state.update({key: value for key, value in other.items() if key.removesuffix(".momentum") in names})

    return update


def of_own(gradients, replica):
    """The mean gradients of the tensors that a replica owns, which are dealt to all in turn."""
    mean = mean_of(gradients)
    return {name: mean[name] for name in NAMES[replica :: len(gradients)]}


def sgd_of_given(task, state, gradients, step):
    """SGD of the tensors that have a gradient, while the others stay as they are."""
    others = [name for name in NAMES if name not in gradients]
    sgd_but(others)(task, state, gradients | {name: np.zeros_like(state[name]) for name in others}, step)


def with_row(change: Callable) -> Callable:
    """The rows of the first worker changed."""

    def rows(task, step, workers):
        (features, labels), *others = shards(task, step, workers)
        return [(change(features), change(labels)), *others]

    return rows


def dealt(*workers: int, later: int = 0) -> Callable:
    """The rows of these workers, in a step that is so much later."""
    return lambda task, step, _: [shards(task, step + later, len(workers))[worker] for worker in workers]


def cut_at(position):
    """The batch cut into two parts of different size."""

    def rows(task, step, workers):
        features, labels = (np.concatenate(each) for each in zip(*shards(task, step, workers), strict=True))
        return [(features[:position], labels[:position]), (features[position:], labels[position:])]

    return rows


def in_micro_batches(update):
    """As if each two workers were the micro-batches of one."""
    trained = dataclasses.replace(update.trained, workers=update.trained.workers // 2, micro_batches=2)
    return dataclasses.replace(update, trained=trained)


def by_rows(update):
    """As if the first of two workers had three quarters of the rows."""
    return dataclasses.replace(update, declared=dataclasses.replace(update.declared, shares=(0.75, 0.25)))


def moved(*by: float) -> Callable:
    """Each replica's initial weights moved by so much."""
    return lambda task, replica: {
        name: value + np.float32(by[replica]) for name, value in model.initial_weights(task).items()
    }


def part_of_own(gradients, replica):
    return {name: np.float32(0.5) * value for name, value in gradients[replica].items()}


def largest(gradients, replica):
    return {name: np.maximum(*(each[name] for each in gradients)) for name in NAMES}


def whole_batches(task, step, workers):
    return shards(task, step, 1) * workers


COUNTED = "Each worker's gradient counted"
BIASES = [name for name in NAMES if name.endswith(".bias")]

MADE = {
    "frozen": ({"sgd": sgd_but(["layer1.weight"])}, "In layer1.weight alone: It didn't move."),
    "not sent": ({"combine": of_own, "apart": True, "sgd": sgd_of_given}, "It moved where a worker updates it"),
    "micro-batches summed": (
        {"workers": 4, "combine": scaled(2), "declare": in_micro_batches},
        f"{COUNTED} 0.50 instead of 0.25",
    ),
    "summed": ({"combine": sum_of}, f"{COUNTED} 1.00 instead of 0.50: summed, not averaged."),
    "rate times workers": ({"taught": {"learning_rate": 0.2}}, f"{COUNTED} 1.00 instead of 0.50, and the weight decay"),
    "dampened": (
        {"sgd": sgd_with(kept=0.5)},
        "After the first step each worker's gradient counted 0.25 instead of 0.50",
    ),
    "averaged twice": ({"combine": scaled(0.5)}, f"{COUNTED} 0.25 instead of 0.50: averaged twice."),
    "not exchanged": ({"combine": own, "apart": True}, "Each replica counted its own worker's gradient alone"),
    "rank 0's alone": ({"combine": weighted(1, 0)}, "The first worker's gradient counted, and no other's did"),
    "exchanged": ({"combine": mean_of, "apart": True, "recipe": Recipe.OWN_SHARD}, f"{COUNTED} 0.50: "),
    "sum over rows": ({"combine": scaled(32)}, f"{COUNTED} 16.00 instead of 0.50, as often as it has rows"),
    "one step old": ({"sgd": one_step_old}, "This step's gradients counted nothing, and those of the step before did"),
    "not zeroed": ({"sgd": not_zeroed}, "Gradients of earlier steps counted again: they aren't set to zero."),
    "nesterov": ({"sgd": sgd_with(ahead=1)}, f"{COUNTED} 0.75 instead of 0.50, and that of the step before -0.50: "),
    "momentum lost": ({"taught": {"momentum": 0.0}}, "The update before counted nothing instead of 0.50: "),
    "other momentum": ({"taught": {"momentum": 0.9}}, "The update before counted 0.90 instead of 0.50."),
    "decay missing": ({"taught": {"weight_decay": 0.0}}, "The weights counted 0.00 instead of 0.001: "),
    "decoupled decay": ({"sgd": sgd_with(decoupled=True)}, "The weights counted 0.0005 instead of 0.001: "),
    "other decay": ({"taught": {"weight_decay": 0.01}}, "The weights counted 0.01 instead of 0.001."),
    "accumulated": ({"combine": scaled(3)}, f"{COUNTED} 1.50 instead of 0.50, a whole number of times"),
    "other rate": ({"taught": {"learning_rate": 0.13}}, f"{COUNTED} 0.65 instead of 0.50, and the weight decay"),
    "factor": ({"combine": scaled(0.3)}, f"{COUNTED} 0.15 instead of 0.50: the loss or the gradients are scaled."),
    "clipped": ({"combine": clipped}, "instead of 0.50, another number in each step: gradients are clipped"),
    "worker left out": (
        {"workers": 4, "combine": weighted(1 / 3, 1 / 3, 1 / 3, 0)},
        "Gradients of some workers counted nothing: 0.33, 0.33, 0.33, 0.00.",
    ),
    "mean of means": ({"declare": by_rows}, "Gradients counted 0.50, 0.50 instead of 0.75, 0.25"),
    "uneven": ({"combine": weighted(0.7, 0.3)}, "Workers counted 0.70, 0.30 instead of 0.50 each"),
    "maximum": ({"combine": largest}, "An update is the largest of the workers' gradients, element by element"),
    "activation": ({"taught": {"activation": "relu"}}, "The updates are those of a network with another activation."),
    "rounded": ({"combine": combined(upper_half)}, "Residuals of up to 2e-03 stand beside counts as declared"),
    "rows": (
        {"rows": with_row(lambda rows: np.concatenate([rows[1:2], rows[1:]]))},
        "In step 0 rows counted otherwise than once: row 0 0.00 times, row 1 2.00 times.",
    ),
}
"""By the mistake's name, or that of its cause: how to make it, and the numbers, or the beginning of what is said."""

OTHERS = {
    "nothing of a divided model": ({"recipe": Recipe.WHOLE_BATCH, "rows": whole_batches}, None),
    "halves' losses of a divided model": ({"recipe": Recipe.WHOLE_BATCH}, "Worker 0's loss in step 0 is"),
    "nothing without exchange": ({"combine": own, "apart": True, "recipe": Recipe.OWN_SHARD}, None),
    "nothing without exchange of parts": ({"combine": part_of_own, "apart": True, "recipe": Recipe.OWN_PART}, None),
    "exchanged, of parts": ({"combine": mean_of, "apart": True, "recipe": Recipe.OWN_PART}, f"{COUNTED} 0.50: "),
    "not exchanged, of a layer": (
        {"combine": but_for(["layer1.weight", "layer1.bias"]), "apart": True},
        "In layer1.weight, layer1.bias alone: Each replica",
    ),
    "decay missing, of biases": ({"sgd": sgd_but(BIASES, weight_decay=0.0)}, "In the biases alone: The weights"),
    "the same rows": ({"rows": dealt(0, 0)}, "Worker 1 has the rows of worker 0. Give each worker rows of its own."),
    "another's rows": ({"rows": dealt(1, 0)}, "Worker 0 has the rows of worker 1."),
    "rounded, to float16": ({"combine": combined(lambda value: np.float32(np.float16(value)))}, "e-04 stand beside"),
    "rows, of which one is lost": ({"rows": with_row(lambda rows: rows[1:])}, "row 0 0.00 times"),
    "rows, uneven": ({"rows": cut_at(40)}, "In step 0 rows counted 0.80 to 1.30 times: parts of different size are"),
    "rows, of the next batch": ({"rows": dealt(0, 1, later=1)}, "In step 0 64 rows of the next step's batch counted"),
    "another order": ({"rows": dealt(0, 1, later=7)}, "from that of its rows at the same weights: other rows"),
    "other weights": ({"begin": moved(0.001)}, "The weights before the first step are 6.5e-03 from the contract's."),
    "not broadcast": ({"begin": moved(0, 0.001), "apart": True}, "Replicas began with different weights: "),
    "not exchanged, from a step on": (
        {"combine": up_to(15, mean_of, own), "apart": True},
        "From a step after 2 on, 19 at the latest: Each replica",
    ),
    "not exchanged, up to a step": ({"combine": up_to(15, own, mean_of), "apart": True}, "Up to a step before 19: "),
    "not zeroed, without momentum": ({"task": PLAIN, "sgd": not_zeroed}, "Gradients of earlier steps counted again"),
    "other momentum, of none": ({"task": PLAIN, "taught": {"momentum": 0.5}}, "The update before counted 0.50 "),
    "summed, beside no decay": ({"task": PLAIN, "combine": sum_of}, f"{COUNTED} 1.00 instead of 0.50: "),
    "activation, of relu": (
        {"task": dataclasses.replace(TASK, activation="relu"), "taught": {"activation": "tanh"}},
        "The updates are those of a network with another activation.",
    ),
    "a loss that isn't finite": (
        {"report": lambda losses: [[None, *of_worker[1:]] for of_worker in losses]},
        "The loss of step 0 isn't finite. Look at the rate, and at what is divided by.",
    ),
    "nothing known": ({"combine": combined(np.flip)}, "It is none of the known mistakes: no sum of gradients "),
    "counts that nothing known gives": (
        {"combine": weighted(0.9, 0.7)},
        "Its counts are none of the known mistakes: in step 0 the workers' shares of layer0.weight are 0.90, 0.70",
    ),
}
"""Launches that make another mistake or none, or one in a part or a task of its own, whose name stands before a comma,
likewise."""

TWO = [
    ({"combine": sum_of, "taught": {"weight_decay": 0.0}}, "summed, not averaged", "there is no weight decay"),
    ({"combine": sum_of, "sgd": sgd_with(ahead=1)}, "summed, not averaged", "Nesterov's momentum"),
    (
        {"combine": combined(lambda value: 2 * upper_half(value))},
        "averaged. Divide by the world size",
        "16 bits. Keep them in",
    ),
    ({"combine": sum_of, "begin": moved(0.001)}, "from the contract's", "summed, not averaged"),
    (MADE["not sent"][0] | {"taught": {"weight_decay": 0.0}}, "aren't sent to all", "there is no weight decay"),
]
"""Launches that make two mistakes, and what is said of each."""
