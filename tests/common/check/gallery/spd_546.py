"""goodfire-ai/spd, pull request 546: one loss fed two groups of parameters, and its scale fitted the exchange of one.

Its run was off by 16 for one group and by 32 for another, which shows only where groups have more than one rank.
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
    loss = cross_entropy(model(features), labels)
    (loss / dist.get_world_size()).backward()
    for name, parameter in model.named_parameters():
        dist.all_reduce(parameter.grad)
        if name.startswith("4."):  # The last layer belongs to the other group.
            parameter.grad /= dist.get_world_size()
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
