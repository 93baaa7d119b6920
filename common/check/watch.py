"""Keep evidence of a few training steps, from which `nox -s check` reads how often each rank's rows counted in them.

Copy this file into any repository: it needs torch and safetensors alone. README.md beside it has a complete loop.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MOMENTS = {"Adam": "exp_avg", "AdamW": "exp_avg", "SGD": "momentum_buffer"}
"""The first moment of each optimizer whose gradients can be read, as its state names it."""


class Watch:
    """Keep evidence of some steps in `folder`, a file for each of them and each rank.

    `steps` are counted from the first one that is watched, 0. Raises ValueError for an optimizer that can't be read.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        folder: str | Path,
        steps: Collection[int] = (0, 1, 2, 10, 100),
    ) -> None:
        while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
            model = model.module if isinstance(model, DistributedDataParallel) else model._orig_mod
        self._model, self._optimizer, self._folder, self._steps = model, optimizer, Path(folder), frozenset(steps)
        # ZeroRedundancyOptimizer has the optimizer itself inside, of the parameters that this rank owns.
        self._kind = type(getattr(optimizer, "optim", optimizer)).__name__
        self._own_optimizer = optimizer.optim if hasattr(optimizer, "consolidate_state_dict") else optimizer
        if self._kind not in MOMENTS:
            raise ValueError(f"Watch reads the gradients of {', '.join(MOMENTS)}, and not those of {self._kind}")
        self._rank, self._ranks, self._run, self._done = 0, 1, [""], 0
        self._is_keeping, self._tensors, self._batches = False, dict[str, torch.Tensor](), list[dict[str, Any]]()

    @contextmanager
    def step(self, batch: object = None, count: int | None = None) -> Iterator[None]:
        """Keep what happens around one step of the optimizer, where it is one of the steps to keep.

        All ranks must enter it. `batch` and `count` are those of `batch()`, to be called for each micro-batch where
        gradients are accumulated.
        """
        step, self._done = self._done, self._done + 1
        if step not in self._steps:
            yield
            return
        if not self._run[0]:
            self._run = [uuid.uuid4().hex]
            if dist.is_available() and dist.is_initialized():
                self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
                dist.broadcast_object_list(self._run, src=0)
        # FSDP2 puts its sharded parameters in place for this call, so their names come after it.
        state = {name: value for name, value in self._model.state_dict().items() if isinstance(value, torch.Tensor)}
        names = {parameter: name for name, parameter in self._model.named_parameters()}
        self._is_keeping, self._tensors, self._batches = True, {}, []
        tensors = self._whole({"model": state, "before": self._moved(names)})
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            | {"parameters": [names[parameter] for parameter in group["params"] if parameter in names]}
            for group in self._optimizer.param_groups
        ]
        facts = {"run": self._run[0], "rank": self._rank, "ranks": self._ranks, "step": step, "groups": groups}
        facts |= {"optimizer": self._kind, "is_training": self._model.training, "digest_before": self._digest()}
        facts["trained"] = [name for parameter, name in names.items() if parameter.requires_grad]
        # A scheduler may change the options before the end, and some of them may be tensors.
        facts = json.loads(json.dumps(facts, default=float))
        if batch is not None:
            self.batch(batch, count)
        try:
            yield
        finally:
            self._is_keeping = False
        if not self._batches:
            raise ValueError("no batch was handed over: call batch() before each forward pass")
        tensors |= self._whole({"after": self._moved(names)}) | self._tensors
        facts |= {"batches": self._batches, "digest_after": self._digest()}
        path = self._folder / f"step{step}.rank{self._rank}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path.with_suffix(".partial"), {"watch": json.dumps(facts)})
        os.replace(path.with_suffix(".partial"), path)

    def batch(self, batch: object, count: int | None = None) -> None:
        """Keep a micro-batch, of tensors, numbers and texts in lists, tuples and mappings, right before its forward.

        The state of torch's random numbers is kept as well. `count` is the number of rows or tokens that the loss of
        this batch is a mean over; None: the length of its first tensor. Raises ValueError where there are none.
        """
        if not self._is_keeping:
            return
        self._tensors[f"random.{len(self._batches)}"] = torch.get_rng_state()
        first = len(self._tensors)
        described = self._described(batch)
        if count is None:
            count = next((len(each) for each in [*self._tensors.values()][first:] if each.dim()), 0)
        if count < 1:
            raise ValueError(f"a batch of {count} rows has no mean loss: give `count`, its rows or tokens")
        self._batches.append({"batch": described, "count": int(count)})

    def _described(self, value: object) -> dict[str, Any]:
        """The structure of a batch as JSON, with the names of its tensors, which are kept."""
        if isinstance(value, torch.Tensor):
            name = f"batch.{len(self._tensors)}"
            self._tensors[name] = _copied(value)
            return {"tensor": name}
        if isinstance(value, Mapping):
            return {"dict": {str(key): self._described(each) for key, each in value.items()}}
        if isinstance(value, list | tuple):
            return {"list" if isinstance(value, list) else "tuple": [self._described(each) for each in value]}
        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        raise TypeError(f"a batch has tensors, numbers and texts, no {type(value).__name__}: leave it out")

    def _moved(self, names: Mapping[nn.Parameter, str]) -> dict[str, torch.Tensor]:
        """What the optimizer adds gradients to: first moments, or the parameters that SGD updates without momentum.

        `get_optimizer_state_dict` would start an optimizer that has no state by a step of its own, which Adam counts.
        """
        groups, state = self._own_optimizer.param_groups, self._own_optimizer.state
        parameters = [parameter for group in groups for parameter in group["params"]]
        moved = {names[each]: state.get(each, {}).get(MOMENTS[self._kind]) for each in parameters if each in names}
        plain = [each for group in groups if group.get("momentum") == 0 for each in group["params"] if each in names]
        moved |= {names[parameter]: parameter for parameter in plain}
        return {name: value for name, value in moved.items() if value is not None}

    def _whole(self, states: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Copies of these tensors by PREFIX.NAME on rank 0, of sharded ones the whole; nothing on the other ranks."""
        whole, parts = dict[str, torch.Tensor](), dict[str, tuple[torch.Tensor, int]]()
        has_owners = self._own_optimizer is not self._optimizer
        for prefix, state in states.items():
            for name, value in state.items():
                if _is_sharded_over(value, self._ranks):
                    parts[f"{prefix}.{name}"] = value.to_local(), value.placements[0].dim
                elif has_owners and prefix != "model":
                    parts[f"{prefix}.{name}"] = value, 0
                else:
                    # All ranks take part where a tensor is divided in another way.
                    whole[f"{prefix}.{name}"] = value.full_tensor() if hasattr(value, "full_tensor") else value
        whole |= self._joined(parts) if parts or has_owners else {}
        return {name: _copied(value) for name, value in whole.items()} if self._rank == 0 else {}

    def _joined(self, parts: Mapping[str, tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
        """On rank 0 all ranks' parts, each joined to the others along its dimension; nothing on the other ranks.

        They come in one exchange: one for each tensor takes as long as several steps.
        """
        sent = {name: (_bytes(part), part.shape, part.dtype, along) for name, (part, along) in parts.items()}
        gathered: list[Any] = [None] * self._ranks if self._rank == 0 else []
        dist.gather_object(sent, gathered or None)
        joined = {}
        for name in dict.fromkeys(name for of_rank in gathered for name in of_rank):
            of_tensor = [of_rank[name] for of_rank in gathered if name in of_rank]
            pieces = [torch.from_numpy(values).view(dtype).reshape(shape) for values, shape, dtype, _ in of_tensor]
            joined[name] = torch.cat(pieces, of_tensor[0][3]) if len(pieces) > 1 else pieces[0]
        return joined

    def _digest(self) -> str:
        """SHA-256 of this rank's parameters, but for sharded ones, of which there is one copy."""
        digest = hashlib.sha256()
        for parameter in self._model.parameters():
            if not hasattr(parameter, "full_tensor"):
                digest.update(_bytes(parameter))
        return digest.hexdigest()


def _is_sharded_over(value: Any, ranks: int) -> bool:  # noqa: ANN401 (DTensor isn't everywhere)
    """Whether each rank has one part of it in the order of the ranks, as under FSDP2."""
    if not hasattr(value, "full_tensor"):
        return False
    return value.device_mesh.mesh.tolist() == [*range(ranks)] and value.placements[0].is_shard()


def _bytes(value: torch.Tensor) -> Any:  # noqa: ANN401 (a NumPy array, whose pickle is small)
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _copied(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
