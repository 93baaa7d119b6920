"""jingyaogong/minimind, pull request 854: the model was called through `.module`, so DDP never exchanged anything.

DDP's forward pass is what makes its hooks ready. Rank 0's weights were saved, and nobody saw that the others differ.
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
    optimizer.zero_grad()
    loss = cross_entropy(parallel.module(features), labels)
    loss.backward()
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
