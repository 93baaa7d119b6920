"""Exercise 4, a ring all-reduce of your own: each rank sends to the next one alone."""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def average(values: torch.Tensor) -> None:
    """Make the elements, (elements,), their mean over all ranks, in place."""
    # Your lines here: cut them by `values.tensor_split(size)`. `size - 1` times send a chunk by `dist.isend`, receive
    # another and add it to yours. Then pass complete chunks on, as often, and divide.


model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    optimizer.zero_grad()
    loss = cross_entropy(model(torch.from_numpy(features)), torch.from_numpy(labels))
    loss.backward()
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    average(gradients)
    torch.nn.utils.vector_to_parameters(gradients, [parameter.grad for parameter in model.parameters()])
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
