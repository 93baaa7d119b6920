"""Trainings of a small transformer on two ranks, right or with a mistake, watched and then read.

`torchrun --nproc-per-node 2 watched_trainings.py FOLDER` leaves FOLDER/NAME.json with what was read of each.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common.check.watch import Watch
from pytorch_impl.watched import check

TOKENS, WIDTH, LENGTH, ROWS, STEPS = 32, 32, 16, 4, 4


class Transformer(nn.Module):
    """With tied embeddings, and a shift of all logits, whose gradient is nothing but rounding."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layers = [nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout, "gelu", batch_first=True) for _ in range(2)]
        self.blocks, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, TOKENS, bias=False)
        self.head.weight, self.shift = self.tokens.weight, nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, labels):
        """As models of Hugging Face do, it returns the loss where it is given labels."""
        logits = self.head(self.blocks(self.tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]))
        return SimpleNamespace(loss=cross_entropy((logits + self.shift).flatten(0, 1), labels.flatten()))


def build(dropout=0.0):
    torch.manual_seed(0)
    return Transformer(dropout)


def with_dropout():
    return build(0.1)


def loss(model, batch):
    return model(**batch).loss


def autocast_loss(model, batch):
    with torch.autocast("cpu", torch.bfloat16):
        return loss(model, batch)


def batch_of(step, rank, part, shortened):
    """Rank 1 and odd micro-batches have a quarter of the tokens, where lengths differ."""
    draw = torch.Generator().manual_seed(100 * step + 10 * part + rank)
    ids = torch.randint(0, TOKENS, (ROWS, LENGTH + 1), generator=draw)
    labels = ids[:, 1:].clone()
    if shortened and (rank + part) % 2:
        labels[:, LENGTH // 4 :] = -100
    return {"input_ids": ids[:, :-1], "labels": labels}, int((labels != -100).sum())


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01)


def train(
    folder,
    *,
    optimizer=adamw,
    wrap=DistributedDataParallel,
    model=build,
    taken=loss,
    by_tokens=True,
    shortened=True,
    parts=1,
    divided=True,
    same_rows=False,
    clip=None,
    zeroed=True,
    warmup=False,
    autocast=False,
):
    """Train a few steps; the loss is over the tokens of all ranks, or else a mean of each micro-batch's mean."""
    model, rank, ranks = wrap(model()), dist.get_rank(), dist.get_world_size()
    optimizer = optimizer(model.parameters())
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 2 if warmup else 1.0)
    watch = Watch(model, optimizer, folder, steps=(0, 1, 2, STEPS - 1))
    for step in range(STEPS):
        batches = [batch_of(step, 0 if same_rows else rank, part, shortened) for part in range(parts)]
        total = torch.tensor(sum(count for _, count in batches))
        dist.all_reduce(total)
        with watch.step():
            if zeroed:
                optimizer.zero_grad()
            for batch, count in batches:
                watch.batch(batch, count)
                with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
                    mean = taken(model, batch)
                weight = count * ranks / total if by_tokens else 1 / parts if divided else 1
                (weight * mean).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            rate.step()


def but_positions(parameters):
    return adamw([each for each in parameters if each.shape != (LENGTH, WIDTH)])


def zero(parameters):
    return ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=1e-3, weight_decay=0.1)


def sharded(model):
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def plain(parameters):
    return torch.optim.SGD(parameters, lr=0.1, weight_decay=0.01)


def ascending(parameters):
    return torch.optim.Adam(parameters, lr=1e-3, weight_decay=0.1, maximize=True)


MEANS = {"by_tokens": False, "shortened": False}
TRAININGS = {
    "right": {},
    "mean of means": {"by_tokens": False},
    "same rows": {"same_rows": True},
    "clipped": {"clip": 0.5},
    # Its last step alone has a larger norm.
    "clipped once": {"clip": 8.0},
    "sgd": {"optimizer": sgd},
    "plain sgd": {"optimizer": plain},
    "maximized": {"optimizer": ascending},
    "accumulated": {"parts": 3},
    "accumulated means of means": {"parts": 3, "by_tokens": False},
    "accumulated and not divided": {"parts": 3, "divided": False} | MEANS,
    "zero": {"optimizer": zero},
    "fsdp": {"wrap": sharded},
    "hugging face": {"parts": 4, "clip": 1.0, "warmup": True, "model": with_dropout} | MEANS,
    "not zeroed": {"zeroed": False},
    "not exchanged": {"wrap": lambda model: model} | MEANS,
    "frozen": {"optimizer": but_positions},
    "autocast": {"taken": autocast_loss},
    "autocast in the loop alone": {"autocast": True},
}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    folder = Path(sys.argv[1])
    # An exchange for each sharded tensor takes as long as several steps.
    with patch.object(DTensor, "full_tensor", side_effect=AssertionError("a tensor has an exchange of its own")):
        for name, options in TRAININGS.items():
            train(folder / name, **options)
    dist.barrier()
    for name in [*TRAININGS][dist.get_rank() :: dist.get_world_size()]:
        options = TRAININGS[name]
        _, read = check(folder / name, options.get("model", build), options.get("taken", loss))
        steps = [
            {"step": step.step, "shares": _shares(step), "residual": max(own.declared for own in step.tensors.values())}
            for step in read.steps
        ]
        (folder / f"{name}.json").write_text(json.dumps({"mistakes": read.mistakes, "steps": steps}))
    dist.destroy_process_group()


def _shares(step):
    """What the tensor that tells it best says of each micro-batch."""
    by_batch = zip(*(each.shares for each in step.tensors.values()), strict=True)
    known = [min(filter(None, own), key=lambda each: each.uncertainty, default=None) for own in by_batch]
    return [each and each.value for each in known]


if __name__ == "__main__":
    main()
