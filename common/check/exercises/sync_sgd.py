"""Exercise 1, synchronous SGD: make each gradient the mean over all workers, by `dist.all_reduce`."""

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
for features, labels in assignment.batches():
    optimizer.zero_grad()
    loss = cross_entropy(model(torch.from_numpy(features)), torch.from_numpy(labels))
    loss.backward()
    # Your lines here: each `parameter.grad` of the model becomes the mean.
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
