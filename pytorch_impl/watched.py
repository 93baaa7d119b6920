"""Read the evidence of `common/check/watch.py`: how often each rank's rows counted in the steps that were watched.

To start it, as `nox -s check -- --evidence FOLDER` does: `python -m pytorch_impl.watched FOLDER my_module:build
my_module:loss FILE.json`, which leaves the number of ranks and a `Reading` in the file.

What an optimizer got stands in its first moment, whatever the step became. One process builds the model anew and takes
the gradient of each micro-batch by autograd in float64. Least squares tells how often each of them counted.
"""

import importlib
import json
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from common.contract import mistakes, recipe
from common.contract.model import State
from common.contract.reading import Counts, Reading, Step, TensorUpdate, Trained, beside_declared
from common.contract.recipe import Gradient, Update
from common.contract.rows import Share
from common.contract.task import Task
from common.contract.work import Recipe
from pytorch_impl.strategies import PYTORCH

CLIPPED = 1e-4
"""Clipping takes more than this part of a gradient, and leaves norms that differ by less."""

TIMES_ROUNDED = 4.0
"""How many times as far from float64 as this process's gradient of the training's precision another one may be."""

NEGLIGIBLE = 1e-6
"""A gradient below this part of all together is but rounding, such as that of the bias of an attention's keys."""

REMEDIES = PYTORCH.remedies | {
    "rounded": "Keep them in float32, or call autocast in the function of --loss as well.",
    "clipped": "Leave clipping out, or watch more steps: the largest norm of several tells it.",
    "other decay": "Let the function of --loss add to the loss what the loop adds.",
}
"""What mends a loop of one's own."""


@dataclass(frozen=True)
class Kept:
    """What one rank kept of one step."""

    path: Path
    facts: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]

    def state(self, kind: str) -> dict[str, torch.Tensor]:
        """Tensors by name: of the `model`, of the `batch`, or what the optimizer moves, `before` and `after`."""
        return {name.partition(".")[2]: value for name, value in self.tensors.items() if name.startswith(f"{kind}.")}


@dataclass(frozen=True)
class WatchedStep:
    """What was read of a step."""

    updates: Sequence[TensorUpdate]
    """What the optimizer got of each tensor, beside n/T: each micro-batch's n of all T rows or tokens."""
    got: State
    """The same, without the weight decay that should be in it."""

    @property
    def shares(self) -> tuple[float, ...]:
        """What each micro-batch's mean gradient should count."""
        return self.updates[0].declared.shares

    @property
    def norm(self) -> float:
        """The norm of what the optimizer got."""
        return math.sqrt(sum(float((value**2).sum()) for value in self.got.values()))

    def beside(self, shares: Sequence[float], factor: float = 1.0) -> "WatchedStep":
        """The same beside so many times these shares."""
        scaled = tuple(factor * share for share in shares)
        updates = [replace(each, declared=replace(each.declared, shares=scaled)) for each in self.updates]
        return replace(self, updates=updates)


def main() -> None:
    """Read what the command line names. Raises UserError for what can't be read."""
    folder, model, loss, kept = sys.argv[1:]
    Path(kept).write_bytes(msgspec.json.encode(check(Path(folder), _imported(model), _imported(loss))))


def check(
    folder: Path, build: Callable[[], nn.Module], loss: Callable[[nn.Module, Any], torch.Tensor]
) -> tuple[int, Reading]:
    """Return how many ranks left evidence in a folder, and what it says, by the model and a batch's mean loss.

    Raises UserError for evidence that can't be read, and for a model or a loss that doesn't take it.
    """
    steps, sentences, apart, ranks = list[WatchedStep](), list[str](), set[int](), list[Kept]()
    for ranks in _evidence(folder):
        for later, digest in enumerate(("digest_before", "digest_after")):
            if len({rank.facts[digest] for rank in ranks}) > 1:
                apart.add(ranks[0].facts["step"] + later)
        for (one, batch), (other, same) in combinations(enumerate(rank.state("batch") for rank in ranks), 2):
            is_same = batch.keys() == same.keys() and all(torch.equal(batch[name], same[name]) for name in batch)
            sentences += [mistakes.same_rows(other, one)] if is_same and not sentences else []
        try:
            steps.append(_read(ranks, build, loss, steps[-1] if steps else None, not apart))
        except ValueError as error:
            raise UserError(f"{ranks[0].path} can't be read ({error}): watch other steps.") from error
    steps = _clipped(steps)
    updates = [update for step in steps for update in step.updates]
    read = tuple(beside_declared(step.updates[0].step, step.updates) for step in steps)
    reading = Reading(read, 0.0, tuple(sorted(apart)))
    named = mistakes.named(updates[0].trained, reading, updates, REMEDIES)
    return len(ranks), replace(reading, mistakes=(*sentences, *named))


def _evidence(folder: Path) -> Iterator[list[Kept]]:
    """Yield what all ranks kept of each step in turn. Raises UserError where it doesn't belong together."""
    found, runs, ranks = dict[int, dict[int, tuple[Path, dict[str, Any]]]](), set[str](), 0
    for path in folder.glob("step*.rank*.safetensors"):
        try:
            with safe_open(path, "pt") as file:
                facts = json.loads(file.metadata()["watch"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} can't be read as evidence ({error}): train again.") from error
        found.setdefault(facts["step"], {})[facts["rank"]] = path, facts
        runs.add(facts["run"])
        ranks = max(ranks, facts["ranks"])
    if len(runs) != 1:
        what = "evidence of several runs: empty it, and train again" if runs else "no evidence: train with Watch first"
        raise UserError(f"{folder} has {what}.")
    for step, rank in ((step, rank) for step in sorted(found) for rank in range(ranks)):
        if rank not in found[step]:
            raise UserError(f"{folder} lacks rank {rank} of step {step}: put the files of all ranks there.")
    for step in sorted(found):
        yield [Kept(*found[step][rank], load_file(found[step][rank][0])) for rank in range(ranks)]


def _read(
    ranks: Sequence[Kept], build: Callable, loss: Callable, last: WatchedStep | None, are_alike: bool
) -> WatchedStep:
    """Solve a step; `last` is the one that was read before. Raises ValueError for one that tells nothing."""
    counts = [batch["count"] for rank in ranks for batch in rank.facts["batches"]]
    total, micro_batches = sum(counts), len(counts) // len(ranks)
    if any(len(rank.facts["batches"]) != micro_batches for rank in ranks):
        raise ValueError("ranks have different numbers of micro-batches")
    facts, state, before, after = ranks[0].facts, *(ranks[0].state(kind) for kind in ("model", "before", "after"))
    precision = next(value.dtype for value in state.values() if value.is_floating_point())
    exact, rounded = (_gradients(ranks, build, loss, state, dtype) for dtype in (torch.float64, precision))
    groups = {name: group for group in facts["groups"] for name in group["parameters"]}
    negligible = NEGLIGIBLE * sum(float(np.linalg.norm(each)) for gradients in exact for each in gradients.values())
    weights = {name: state[name].double().numpy() for name in facts["trained"]}
    columns = [Gradient(mean, noise={}) for mean in exact]
    old, new, decays, got = ({} for _ in range(4))
    for name, weight in weights.items():
        moment = before[name].double().numpy() if name in before else np.zeros_like(weight)
        moved = after[name].double().numpy() if name in after else moment
        if not np.isfinite(moved).all():
            raise ValueError(f"{name} isn't finite")
        for column, near in zip(columns, rounded, strict=True):
            mean = column.mean.setdefault(name, np.zeros_like(weight))
            column.noise[name] = TIMES_ROUNDED * float(np.linalg.norm(near.get(name, mean) - mean))
        length = sum(float(np.linalg.norm(column.mean[name])) for column in columns)
        kept, scale, decay = _rule(facts["optimizer"], groups.get(name), name not in before)
        is_still = np.array_equal(moment, moved)
        start, end = scale * moment if is_still else scale * kept * moment, scale * moved
        received = end - start - decay * weight
        is_rounding = max(length, float(np.linalg.norm(received))) < negligible
        if (is_still and not length) or length < sum(column.noise[name] for column in columns) or is_rounding:
            continue
        old[name], new[name], decays[name], got[name] = start, end, decay, received
    if not old:
        raise ValueError("no parameter has a gradient")
    # A gradient that is never set to zero has in it what the optimizer got in the step before.
    has_last = last is not None and last.updates[0].step.step == facts["step"] - 1
    stale = Gradient({name: last.got.get(name, 0 * old[name]) for name in old}) if last and has_last else None
    update = Update(old, new, -1.0, columns, stale=stale, weights=weights, rounding=torch.finfo(precision).eps)
    solved = recipe.solve(update)
    step = Step(facts["step"], 0, {name: each.recipe for name, each in solved.items()}, ())
    trained = Trained(Task(), Recipe.AVERAGE, len(ranks), Share(total, 0, total), 0, (), micro_batches)
    shares = tuple(count / total for count in counts)
    updates = [
        TensorUpdate(trained, step, name, Counts(shares, 0.0, decays[name]), each, False, has_last, are_alike)
        for name, each in solved.items()
    ]
    return WatchedStep(updates, got)


def _rule(optimizer: str, group: Mapping[str, Any] | None, is_first: bool) -> tuple[float, float, float]:
    """(kept, scale, decay): scale (after - kept before) is the gradient and decay times the weights."""
    if group is None:
        return 1.0, 1.0, 0.0
    if "betas" in group:
        kept = group["betas"][0]
        scale = 1 / (1 - kept)
    elif group["momentum"]:
        # SGD's first moment is the first gradient itself.
        kept, scale = group["momentum"], 1.0 if is_first else 1 / (1 - group["dampening"])
    elif group["lr"]:
        kept, scale = 1.0, -1 / group["lr"]
    else:
        raise ValueError("its learning rate is 0")
    is_decoupled = optimizer == "AdamW" or group.get("decoupled_weight_decay", False)
    sign = -1 if group["maximize"] else 1
    return kept, sign * scale, 0.0 if is_decoupled else sign * group["weight_decay"]


def _gradients(
    ranks: Sequence[Kept], build: Callable, loss: Callable, state: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> list[dict[str, np.ndarray]]:
    """The gradient of each micro-batch of each rank in turn, computed in this precision, in float64 by name."""
    try:
        model = build().to("cpu", dtype)
        model.load_state_dict(state)
    except Exception as error:
        raise UserError(f"--model builds none that the weights fit ({_reason(error)}): build it unwrapped.") from error
    model.train(ranks[0].facts["is_training"])
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    gradients, default = [], torch.get_default_dtype()
    for rank in ranks:
        for index, batch in enumerate(rank.facts["batches"]):
            torch.set_rng_state(rank.tensors[f"random.{index}"])
            torch.set_default_dtype(dtype)
            try:
                value = loss(model, _rebuilt(batch["batch"], rank.tensors, dtype))
                found = torch.autograd.grad(value, [*parameters.values()], allow_unused=True)
            except Exception as error:
                where = f"the batch of rank {rank.facts['rank']} in step {rank.facts['step']}"
                remedy = "return a scalar tensor, the mean over the batch"
                raise UserError(f"--loss has no gradient on {where} ({_reason(error)}): {remedy}.") from error
            finally:
                torch.set_default_dtype(default)
            known = zip(parameters, found, strict=True)
            gradients.append({name: each.double().numpy() for name, each in known if each is not None})
    return gradients


def _rebuilt(described: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> object:
    """The batch as the loop had it, with floating-point numbers in this precision."""
    [(kind, value)] = described.items()
    if kind == "tensor":
        return tensors[value].to(dtype) if tensors[value].is_floating_point() else tensors[value]
    if kind == "dict":
        return {key: _rebuilt(each, tensors, dtype) for key, each in value.items()}
    if kind == "value":
        return value
    return {"list": list, "tuple": tuple}[kind](_rebuilt(each, tensors, dtype) for each in value)


def _clipped(steps: Sequence[WatchedStep]) -> Sequence[WatchedStep]:
    """The steps beside clipped shares, where one norm explains those with a factor, and no other step has a larger one.

    Batches may count as they should or all alike, which is no matter of clipping. A single step tells no norm.
    """
    by_rows = [step.shares for step in steps]
    for shares in (by_rows, [(1 / len(each),) * len(each) for each in by_rows]):
        judged = [step.beside(own) for step, own in zip(steps, shares, strict=True)]
        factors = [_factor(step.updates) for step in judged]
        norms = [step.norm for step, factor in zip(steps, factors, strict=True) if factor < 1]
        fitting = [step.beside(step.shares, factor) for step, factor in zip(judged, factors, strict=True)]
        is_one_norm = len(steps) > 1 and norms and max(step.norm for step in steps) < (1 + CLIPPED) * min(norms)
        if is_one_norm and not any(update.deviates for step in fitting for update in step.updates):
            print(f"Gradients are clipped to a norm of {max(norms):.4g}.")
            return [step.beside(step.shares, factor) for step, factor in zip(steps, factors, strict=True)]
    return steps


def _factor(updates: Sequence[TensorUpdate]) -> float:
    """How often the declared shares count in the tensor that tells it best; 1 where it isn't less."""
    best = min(updates, key=lambda update: update.floor)
    direction = best.vector(Counts(best.declared.shares, 0.0, 0.0))
    factor = 1 + best.solved.along(best.vector(best.declared), direction)
    return factor if factor < 1 - CLIPPED else 1.0


def _imported(name: str) -> Callable:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except Exception as error:
        remedy = "name it as my_module:function, and its folder by PYTHONPATH"
        raise UserError(f"{name} can't be imported ({_reason(error)}): {remedy}.") from error


def _reason(error: Exception) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", 200)


if __name__ == "__main__":
    exit_with_one_line(main)
