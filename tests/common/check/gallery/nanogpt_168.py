"""karpathy/nanoGPT, issue 168: gradients of micro-batches were added up, and not divided by their number.

Adam hides a factor of the gradient. A limit of the gradient's norm doesn't.
"""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    optimizer.zero_grad()
    losses = [cross_entropy(model(own), wanted) for own, wanted in zip(features.chunk(8), labels.chunk(8), strict=True)]
    for loss in losses:
        loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    assignment.step(model, sum(losses) / len(losses))
dist.destroy_process_group()
