"""Exercise 2, hooks: exchange each gradient as soon as `backward` has computed it, as DDP does."""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
size = dist.get_world_size()
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
handles = []


def exchange(parameter: torch.Tensor) -> None:
    """Called during `backward`, when `parameter.grad` is complete."""
    # Your lines here: start an all-reduce by `async_op=True`, and keep its handle.


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(exchange)
for features, labels in assignment.batches():
    optimizer.zero_grad()
    loss = cross_entropy(model(torch.from_numpy(features)), torch.from_numpy(labels))
    loss.backward()
    # Your lines here: wait for all handles, and make sums means.
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
