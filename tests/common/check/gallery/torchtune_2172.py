"""meta-pytorch/torchtune, pull request 2172: losses were divided by all workers' tokens, and DDP averaged too.

The loss of a worker was a sum over its tokens. Dividing it by the tokens of all workers asks for a sum over workers.
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
    rows = torch.tensor(len(labels))
    dist.all_reduce(rows)
    loss = cross_entropy(parallel(features), labels, reduction="sum")
    optimizer.zero_grad()
    (loss / rows).backward()
    optimizer.step()
    assignment.step(model, loss / len(labels))
dist.destroy_process_group()
