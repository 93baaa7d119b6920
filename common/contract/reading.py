"""What the evidence of a launch says: the recipes of its updates, beside those that its strategy declares."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from common.contract import model, recipe
from common.contract.dataset import Dataset
from common.contract.model import State
from common.contract.recipe import Gradient, Solved, TensorRecipe, Update
from common.contract.rows import Share
from common.contract.task import Task
from common.contract.work import Recipe

_MOST_ROWS = 512
"""As many rows can be told one by one: the time for them grows with the cube."""

_TELLS_A_ROW = 0.1
"""A row's count is told where it is surer than this."""


@dataclass(frozen=True)
class Counts:
    """How often each column is to be added to a tensor's update."""

    shares: tuple[float, ...]
    """Each worker's."""
    velocity: float
    decay: float
    stale: float = 0.0


@dataclass(frozen=True)
class Row:
    """A row that didn't count as often as it should."""

    step: int
    """Of whose batch it is, from the step of the update: 0, or -1 or 1 where the update took another step's row."""
    position: int
    """In that batch, from 0."""
    count: float
    """How often it counted, where once is right."""


@dataclass(frozen=True)
class Step:
    """One update of one replica."""

    step: int
    replica: int
    tensors: Mapping[str, TensorRecipe]
    losses: tuple[tuple[float | None, float], ...]
    """Of each worker: as it was recorded, None where it isn't finite, and as the oracle has it at the same weights."""
    cause: Literal["", "maximum", "activation", "rows"] = ""
    """What explains an update that is no sum of the workers' gradients: their maximum, a network with the other
    activation, or other rows."""
    rows: tuple[Row, ...] = ()
    """Those that the update tells, where they are the cause."""


@dataclass(frozen=True)
class Reading:
    """What was read from the evidence of a launch."""

    steps: tuple[Step, ...]
    initial: float = 0.0
    """How far the weights before the first step are from the contract's: the norm of the difference over the norm."""
    apart: tuple[int, ...] = ()
    """Steps before which, by the evidence, replicas weren't alike."""
    mistakes: tuple[str, ...] = ()
    """What is wrong of it, each in sentences with a remedy."""
    reason: str = ""
    """Why nothing could be read, where there are no steps."""

    @property
    def tensors(self) -> list[TensorRecipe]:
        """Those of every step."""
        return [tensor for step in self.steps for tensor in step.tensors.values()]

    @property
    def shares(self) -> tuple[float, float]:
        """The smallest and the largest share that any worker's gradient had; NaN where none can be told."""
        known = [share.value for tensor in self.tensors for share in tensor.shares if share] or [math.nan]
        return min(known), max(known)

    @property
    def residual(self) -> float:
        """The largest that the declared counts leave."""
        return max(tensor.declared for tensor in self.tensors)


@dataclass(frozen=True)
class Trained:
    """What a launch was to train, and what it recorded."""

    task: Task
    recipe: Recipe
    workers: int
    rows: Share
    """The whole batch of each step."""
    first_step: int
    losses: Sequence[Sequence[float | None]]
    """Of each shard, or each process where nothing is divided, by step from the first on."""
    micro_batches: int = 1
    """Of each worker in a step; each has a gradient of its own, those of a worker one after the other."""

    @property
    def shards(self) -> int:
        """Into how many parts the batch is divided, whose gradients are the columns."""
        is_whole = self.recipe is Recipe.WHOLE_BATCH or self.task.batch_norm == "synchronised"
        return 1 if is_whole else self.workers

    def counts(self, replica: int, tensor: str) -> Counts:
        """What the declared recipe says of a tensor."""
        shards, task = self.shards, self.task
        own = tuple(float(shard == replica) for shard in range(shards))
        first = tuple(float(shard == 0) for shard in range(shards))
        counts = {
            Recipe.WHOLE_BATCH: (1.0,),
            Recipe.AVERAGE: (1 / shards,) * shards,
            Recipe.OWN_SHARD: own,
            Recipe.OWN_PART: tuple(share / shards for share in own),
            Recipe.FIRST_PART: tuple(share / shards for share in first),
            Recipe.OWN_PARAMETERS: own,
        }
        if self.recipe is Recipe.OWN_PARAMETERS and owners_of(task, self.workers)[tensor] != replica:
            return Counts((0.0,) * shards, 0.0, 0.0)
        return Counts(counts[self.recipe], task.momentum, task.weight_decay)


@dataclass(frozen=True)
class TensorUpdate:
    """One tensor's update of one replica, and what was declared of it."""

    trained: Trained
    step: Step
    tensor: str
    declared: Counts
    solved: Solved
    has_velocity: bool
    """Whether the update before is a column; so has_stale for the gradient before."""
    has_stale: bool
    are_alike: bool
    """Whether the evidence has all replicas alike, before each step."""
    moves_somewhere: bool = False
    """Whether the step moved the tensor on any replica."""

    @property
    def is_first(self) -> bool:
        """Whether it is of the first step of the run."""
        return self.step.step == self.trained.first_step

    @property
    def deviates(self) -> bool:
        """Whether the declared counts leave more than rounding explains."""
        return self.residual(self.declared) > self.floor

    @property
    def floor(self) -> float:
        """What rounding explains of an update by the declared counts, over its norm."""
        return self.solved.floor(self.vector(self.declared))

    def vector(self, counts: Counts) -> np.ndarray:
        """The counts of the columns that there are."""
        known = [counts.velocity] * self.has_velocity + [counts.stale] * self.has_stale
        return np.array([*counts.shares, *known, counts.decay])

    def residual(self, counts: Counts) -> float:
        """What a sum with these counts leaves of the update, over its norm."""
        return math.hypot(self.solved.recipe.residual, self.solved.apart(self.vector(counts)))


def beside_declared(step: Step, updates: Sequence[TensorUpdate]) -> Step:
    """The step with the recipes of its tensors, and what their declared counts leave."""
    tensors = {
        each.tensor: dataclasses.replace(each.solved.recipe, declared=each.residual(each.declared)) for each in updates
    }
    return dataclasses.replace(step, tensors=tensors)


def owners_of(task: Task, workers: int) -> dict[str, int]:
    """The worker that updates each parameter, where optimizer states are divided by whole parameters.

    Each parameter, the largest first, goes to the worker with the fewest elements so far. So does
    `_partition_parameters` of `ZeroRedundancyOptimizer`.
    """
    held, owners = [0] * workers, dict[str, int]()
    sizes = {name: math.prod(shape) for name, shape in model.parameter_shapes(task).items()}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        owners[name] = held.index(min(held))
        held[owners[name]] += sizes[name]
    return owners


def read(
    trained: Trained, evidence: Mapping[int, Sequence[State]], data: Dataset
) -> tuple[Reading, Sequence[TensorUpdate]]:
    """Read every update that the evidence tells: `evidence` has each replica's state after so many steps.

    What is wrong of it isn't named yet. Raises ValueError for states that aren't those of this task, or without a
    single update.
    """
    task, names = trained.task, model.parameter_names(trained.task)
    apart = list[int]()
    for step, states in evidence.items():
        if len(states) not in (1, trained.shards) and trained.shards > 1:
            raise ValueError(f"there are {len(states)} states of {trained.shards} replicas before step {step}")
        if not all(np.array_equal(state[name], states[0][name]) for state in states[1:] for name in names):
            apart.append(step)
    reader, tensor_updates = _Reader(trained, evidence, data, not apart), list[TensorUpdate]()
    for step in evidence:
        of_step = [
            each for replica, update in reader.updates(step) for each in reader.tensor_updates(step, replica, update)
        ]
        moved = {each.tensor for each in of_step if each.solved.has_moved}
        tensor_updates += [dataclasses.replace(each, moves_somewhere=each.tensor in moved) for each in of_step]
    if not tensor_updates:
        raise ValueError("it has no step with the states before and after")
    initial = 0.0
    if 0 in evidence:
        contract = model.initial_weights(task)
        difference = sum(float(((evidence[0][0][name] - contract[name]) ** 2).sum()) for name in names)
        initial = float(np.sqrt(difference / sum(float((value**2).sum()) for value in contract.values())))
    steps = {(each.step.step, each.step.replica): each.step for each in tensor_updates}
    return Reading(tuple(steps.values()), initial, tuple(apart)), tensor_updates


class _Reader:
    def __init__(
        self, trained: Trained, evidence: Mapping[int, Sequence[State]], data: Dataset, are_alike: bool
    ) -> None:
        self._trained, self._evidence, self._data, self._are_alike = trained, evidence, data, are_alike
        self._names = model.parameter_names(trained.task)
        # A step's gradients are those of the step before for the next one.
        self._gradients = lru_cache(maxsize=2)(self._gradients_of)

    def updates(self, step: int) -> Iterator[tuple[int, Update]]:
        """The update of this step of each replica, of those that are alike once; none where it can't be told."""
        evidence, is_first = self._evidence, step == self._trained.first_step
        if step + 1 not in evidence or not (is_first or step - 1 in evidence):
            return
        gradients, earlier = self._gradients(step), None if is_first else self._gradients(step - 1)
        seen = set[tuple[int, ...]]()
        for replica, (before, after) in enumerate(zip(evidence[step], evidence[step + 1], strict=True)):
            key = (id(before), id(after))
            if key in seen:
                continue
            seen.add(key)
            if earlier is None:
                velocity = {name: before[f"{name}.momentum"] for name in self._names if f"{name}.momentum" in before}
                stale = None
            else:
                rate = model.learning_rate(self._trained.task, step - 1)
                velocity = {
                    name: (evidence[step - 1][replica][name].astype(np.float64) - before[name]) / rate
                    for name in self._names
                }
                stale = recipe.mean_of(earlier)
            state = {name: before[name] for name in self._names}
            rate = model.learning_rate(self._trained.task, step)
            yield replica, Update(state, after, rate, gradients, velocity or None, stale)

    def tensor_updates(self, step: int, replica: int, update: Update) -> list[TensorUpdate]:
        """Every tensor of an update, with the cause of what no sum of the workers' gradients explains."""
        trained = self._trained
        index = step - trained.first_step
        row_losses = np.concatenate([gradient.row_losses for gradient in update.gradients])
        # Where the model is divided each process has the loss of the whole batch.
        is_whole, many = trained.recipe is Recipe.WHOLE_BATCH, len(trained.losses)
        parts = [row_losses] * many if is_whole else np.array_split(row_losses, many)
        losses = tuple(
            (recorded[index] if index < len(recorded) else None, float(own.mean()))
            for recorded, own in zip(trained.losses, parts, strict=True)
        )
        known = update.velocity is not None, update.stale is not None, self._are_alike
        unread = Step(step, replica, {}, losses)
        tensor_updates = [
            TensorUpdate(trained, unread, name, trained.counts(replica, name), solved, *known)
            for name, solved in recipe.solve(update).items()
        ]
        found = beside_declared(unread, tensor_updates)
        if any(each.residual > each.floor for each in found.tensors.values()):
            found = self._explained(found, update)
        return [dataclasses.replace(each, step=found) for each in tensor_updates]

    def _explained(self, found: Step, update: Update) -> Step:
        """The step with the cause of an update that no sum of the workers' gradients explains, where there is one."""
        trained, means = self._trained, [gradient.mean for gradient in update.gradients]
        largest = Gradient({name: np.max([mean[name] for mean in means], axis=0) for name in self._names})
        if len(means) > 1 and _explains(dataclasses.replace(update, gradients=[largest])):
            return dataclasses.replace(found, cause="maximum")
        other = dataclasses.replace(trained.task, activation="tanh" if trained.task.activation == "relu" else "relu")
        if _explains(dataclasses.replace(update, gradients=self._gradients(found.step, other), stale=None)):
            return dataclasses.replace(found, cause="activation")
        rows = self._rows(found, update)
        return found if rows is None else dataclasses.replace(found, cause="rows", rows=rows)

    def _rows(self, found: Step, update: Update) -> tuple[Row, ...] | None:
        """The rows that didn't count once, of this step and its neighbours; None where no rows explain the update."""
        trained, batch = self._trained, self._trained.rows.count
        expected = trained.counts(found.replica, self._names[0]).shares
        size = {name: update.before[name].size for name in self._names}
        for steps in ((0,), (0, 1), (0, -1)):
            candidates = [(step, position) for step in steps if found.step + step >= 0 for position in range(batch)]
            # No row counted in a tensor that stood still, whatever kept it there.
            moved = [name for name in self._names if not np.array_equal(update.before[name], update.after[name])]
            sure = [name for name in moved if size[name] >= 8 * len(candidates)]
            if len(candidates) > _MOST_ROWS or not sure:
                return None
            [name, *_] = sorted(sure, key=size.__getitem__)
            gradients = [
                self._gradient_of(found, step, slice(position, position + 1), batch, name)
                for step, position in candidates
            ]
            states = {key: {name: getattr(update, key)[name]} for key in ("before", "after")}
            one = dataclasses.replace(update, **states, gradients=gradients, stale=None)
            read = recipe.solve(one)[name].recipe
            if read.residual > read.floor:
                continue
            scale, per_shard = max(expected) * len(expected), batch // len(expected)
            rows = list[Row]()
            for (step, position), share in zip(candidates, read.shares, strict=True):
                right = 0.0 if step else expected[position // per_shard] / max(expected)
                if share is None or share.uncertainty > _TELLS_A_ROW * scale:
                    continue
                if abs(share.value / scale - right) > max(_TELLS_A_ROW, share.uncertainty / scale):
                    rows.append(Row(step, position, round(share.value / scale, 3)))
            return tuple(rows) or None
        return None

    def _gradients_of(self, step: int, task: Task | None = None) -> list[Gradient]:
        """Each worker's gradient of a step, at its replica's weights."""
        shards, states = self._trained.shards, self._evidence[step]
        [numbers] = self._numbers(step)
        return [
            recipe.worker_gradient(
                task or self._trained.task,
                states[shard if len(states) == shards else 0],
                self._data.train_features[own],
                self._data.train_labels[own],
            )
            for shard, own in enumerate(np.split(numbers, shards))
        ]

    def _gradient_of(self, found: Step, step: int, rows: slice, batch: int, name: str) -> Gradient:
        """The part of a tensor's mean gradient over a batch that rows of it, or of a neighbour's, make up."""
        [numbers] = self._numbers(found.step + step)
        own = numbers[rows]
        state = self._evidence[found.step][found.replica]
        whole = recipe.worker_gradient(
            self._trained.task, state, self._data.train_features[own], self._data.train_labels[own]
        )
        return Gradient({name: whole.mean[name] * len(own) / batch})

    def _numbers(self, step: int) -> Iterator[np.ndarray]:
        return self._trained.rows.rows(len(self._data.train_labels), self._trained.task.seed, step, step + 1)


def _explains(update: Update) -> bool:
    """Whether the columns explain every tensor's update."""
    return all(each.recipe.residual <= each.recipe.floor for each in recipe.solve(update).values())
