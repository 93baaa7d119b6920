"""Exercise 3, a synchronous parameter server: rank 0 averages gradients, steps, and sends its weights to all."""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    optimizer.zero_grad()
    loss = cross_entropy(model(torch.from_numpy(features)), torch.from_numpy(labels))
    loss.backward()
    # Your lines here: by `dist.send` and `dist.recv` rank 0's gradients become the mean of all workers'.
    if rank == 0:
        optimizer.step()
    for parameter in model.parameters():
        for worker in range(1, size):
            if rank == 0:
                dist.send(parameter.data, worker)
            elif rank == worker:
                dist.recv(parameter.data, 0)
    assignment.step(model, loss)
dist.destroy_process_group()
