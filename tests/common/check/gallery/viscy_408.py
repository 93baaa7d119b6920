"""mehta-lab/VisCy, pull request 408: the sampler wasn't told its rank, so each rank had the same rows.

Four GPUs computed the same four times. Here rank 0's rows go to all, to the same effect.
"""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common.check import assignment

dist.init_process_group("gloo")
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    dist.broadcast(features, 0)
    dist.broadcast(labels, 0)
    optimizer.zero_grad()
    loss = cross_entropy(parallel(features), labels)
    loss.backward()
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
