"""Launches of several workers in NumPy, right ones and such with one of the mistakes that a referee knows."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from common.contract import dataset, model, reading
from common.contract.mistakes import named
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


def mean_of(gradients, replica=0):
    return {name: sum(each[name] for each in gradients) / np.float32(len(gradients)) for name in gradients[0]}


def steps_of(
    steps: int,
    workers: int = 2,
    combine: Callable = mean_of,
    task=TASK,
    taught=None,
    sgd: Callable = model.update,
    rows: Callable = shards,
    begin: Callable = lambda task, replica: model.initial_weights(task),
    replicas: int = 1,
) -> Iterator[tuple[list[State], list[float]]]:
    """Train in float32. Yield each replica's weights before a step, and each worker's loss in it.

    There is one replica, or as many as workers, which `combine` the workers' gradients each by itself. `taught` is the
    task that they train, where it isn't the one that they should.
    """
    taught = taught or task
    states = [{name: value.copy() for name, value in begin(task, replica).items()} for replica in range(replicas)]
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


def mistakes_of(**changed: object) -> tuple[str, ...]:
    """What a referee says of such a launch."""
    return named(*launched(**changed), {})


def combined(change: Callable) -> Callable:
    """The gradients' mean, changed."""
    return lambda gradients, replica: {name: change(value) for name, value in mean_of(gradients).items()}


def scaled(factor):
    return combined(lambda value: np.float32(factor) * value)


def own(gradients, replica):
    return gradients[replica]


def weighted(*shares):
    """Count each worker's gradient so often."""
    return lambda gradients, replica: {
        name: sum(np.float32(share) * each[name] for share, each in zip(shares, gradients, strict=True))
        for name in NAMES
    }


def only(names):
    """Average these tensors, and leave the others to each worker."""
    return lambda gradients, replica: {
        name: (mean_of(gradients) if name in names else gradients[replica])[name] for name in NAMES
    }


def up_to(step, first, then):
    """Combine the gradients in one way in the first steps, and in another one from `step` on."""
    calls = []

    def combine(gradients, replica):
        calls.append(replica)
        return (first if calls.count(replica) <= step else then)(gradients, replica)

    return combine


def with_last(change: Callable) -> Callable:
    """Combine by a function of what it gave last, None at first, and of this step's mean; it gives what to keep too."""
    kept = [None]

    def combine(gradients, replica):
        given, kept[0] = change(kept[0], mean_of(gradients))
        return given

    return combine


def one_step_old():
    return with_last(lambda last, mean: (last or mean, mean))


def not_zeroed():
    def add(last, mean):
        total = mean if last is None else {name: last[name] + mean[name] for name in mean}
        return total, total

    return with_last(add)


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


def sgd_but(names: Sequence[str], taught=None) -> Callable:
    """SGD of all tensors but these, which stay as they are or are `taught` by another task."""

    def update(task, state, gradients, step):
        other = dict(state)
        if taught:
            model.update(taught, other, gradients, step)
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


def moved(task, replica, by=0.001):
    return {name: value + np.float32(by) for name, value in model.initial_weights(task).items()}


def moved_apart(task, replica):
    return moved(task, replica, 0.001 * replica)
